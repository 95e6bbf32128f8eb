// The view that imports a file: choose it, say what its columns become, check it, send it.

class Importer {
  step = 'choose'; file; setup; wrong = ''; result; rejects = new Rejects();
  progress = { title: '', read: 0, counts: '', state: '' }; // state: checking, sending, paused, cancelling or ended
  #onSignedOut; #source; #size; #run; #paused; #resume = () => {};

  constructor(onSignedOut) { this.#onSignedOut = onSignedOut; }

  show() { draw(); }

  /** Ends the task in progress. */
  stop() {
    this.#resume();
    this.#run?.abort();
  }

  restart() {
    this.stop();
    this.#source?.stop();
    this.go('choose');
    $('import-file').focus();
  }

  /** Shows a step. */
  go(step) {
    this.step = step;
    draw();
    $(`import-${step}`)?.querySelector('h2')?.focus();
  }

  /** Runs a step and, if it fails, shows why. */
  async #task(step) {
    this.stop();
    const { signal } = this.#run = new AbortController();
    report('import');
    try {
      await step(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) this.#onSignedOut(error);
      else if (error instanceof ApiError || error instanceof FileError) report('import', error, { stopped: true });
      else throw error;
    }
  }

  // Choose, and say what the columns become

  choose(file) {
    return this.#task(async () => {
      if (file.size === 0) throw new FileError(`${file.name} is empty.`);
      this.#source?.stop();
      this.#source = new ImportFile(file);
      const guessed = await this.#source.ask({ do: 'guess', name: file.name });
      this.file = file;
      this.#take(guessed);
      this.go('setup');
    });
  }

  #take(guessed) {
    this.#size = guessed.size;
    this.setup = new ImportSetup(guessed);
    this.wrong = '';
    draw();
  }

  async #preview(description) { this.#take(await this.#source.ask({ do: 'preview', description })); }

  /** Changes a member of the description. If it changes what the columns are, the file is read again. */
  describe(name, value) {
    const { setup } = this;
    setup.description = { ...setup.description, [name]: value };
    draw();
    if (name === 'mirror') this.#task(() => this.#preview({ ...setup.layout, columns: setup.chosen }));
    else if (name === 'resource' || name in writings || name === 'skip_lines' || name === 'no_header') this.#task(() => this.#preview(setup.layout));
    else this.#test();
  }

  describeColumn(column, part, value) {
    column[part] = value;
    draw();
    this.#test();
  }

  /** Adds a member of a nested object to the columns. Returns whether it was not there. */
  addMember(source) {
    const added = this.setup.addMember(source);
    draw();
    if (added) this.#test();
    return added;
  }

  /** Says what is wrong with the description, if anything. */
  async #test() {
    const { wrong = '' } = await this.#source.ask({ do: 'test', description: this.setup.whole });
    this.wrong = wrong && sentence(wrong);
    draw();
  }

  useSaved(input) {
    return this.#task(async () => {
      const description = parseJSON(await input.files[0].text());
      input.value = '';
      if (!description) throw new FileError('This is not a description of a file.');
      await this.#preview(description);
      announce('The description is in use');
    });
  }

  saveDescription() { saveFile(new Blob([JSON.stringify(this.setup.whole, null, 2)], { type: 'application/json' }), `${this.file.name}.description.json`); }

  saveRejects() { this.rejects.save(`${this.file.name}.rejects.csv`); }

  // Check and send

  #begin(title, state) {
    this.progress = { title, state, read: 0, counts: '' };
    this.rejects = new Rejects();
    this.go('progress');
  }

  #tell(change) {
    Object.assign(this.progress, change);
    draw();
  }

  #read(read, rejects) {
    for (const row of rejects) this.rejects.add(row);
    this.#tell({ read: (100 * read) / this.#size });
  }

  check() {
    return this.#task(async (signal) => {
      this.#begin('Checking', 'checking');
      try {
        this.result = await this.#source.ask({ do: 'survey', description: this.setup.whole, indexes: await knownIndexes() }, (read, rejects) => this.#read(read, rejects), signal);
      } catch (error) {
        this.go('setup');
        throw error;
      }
      this.go('report');
    });
  }

  send() { return this.#task((signal) => this.#send(signal)); }

  async #send(signal) {
    const { description } = this.result;
    const counts = { created: 0, existing: 0, deleted: 0 };
    this.#paused = undefined;
    const tell = () => this.#tell({ counts: `${number(counts.created)} new · ${number(counts.existing)} ${description.resource === 'event' ? 'there already' : 'updated or there already'} · ${description.mirror ? `${number(counts.deleted)} deleted · ` : ''}${number(this.rejects.count)} rejected` });
    this.#begin('Importing', 'sending');
    tell();
    const sender = {
      signal,
      ready: async () => {
        await this.#paused;
        signal.throwIfAborted();
      },
      onResult: ({ line, text }, { status, deleted, problem }) => {
        if (deleted) counts.deleted++;
        else if (status === 201) counts.created++;
        else if (status === 200) counts.existing++;
        else this.rejects.add({ line, text, reason: problem?.detail ?? `status ${status}` });
      },
      onFailure: (error, wait) => report('import', error, { wait }),
    };
    try {
      for await (const { rows, rejects, read } of this.#source.batches(description)) {
        for (const row of rejects) this.rejects.add(row);
        if (rows.length > 0) await sendBatch(description.resource, rows, sender);
        signal.throwIfAborted();
        report('import');
        tell();
        this.#read(read, []);
      }
      this.#end('Imported');
    } catch (error) {
      tell();
      if (signal.aborted) report('import');
      this.#end(signal.aborted ? 'Cancelled. Choose the file again to import the rest; nothing is stored twice' : 'Stopped');
      throw error;
    }
  }

  #end(title) {
    this.#tell({ title, state: 'ended' });
    $('import-progress-title')?.focus();
    announce(`${title}: ${this.progress.counts}`);
  }

  /** Ends a check at once, and an import after the service has responded to the batch in progress, so that the counts are right. */
  cancel() {
    const checking = this.progress.state === 'checking';
    if (!checking) this.#tell({ title: 'Cancelling', state: 'cancelling' });
    this.stop();
    $('import-progress-title')?.focus();
  }

  pause() {
    if (this.progress.state === 'paused') {
      this.#resume();
      this.#paused = undefined;
      this.#tell({ title: 'Importing', state: 'sending' });
    } else {
      this.#paused = new Promise((resolve) => { this.#resume = resolve; });
      this.#tell({ title: 'Paused', state: 'paused' });
    }
  }
}

/** Returns the indexed attributes, whose types the values of a file then have. */
async function knownIndexes() {
  try {
    await readIndexes();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
  return indexes.flatMap(({ type, attributes }) => attributes.map(({ name, value_type: valueType }) => ({ type, attribute: name, value_type: valueType })));
}

/** The view of imports. */
function ImportView() {
  const { step, setup, wrong, file, result, rejects, progress } = importer;
  return html`<div class="card" id="import-card">
    <${Notice} of="import" role="alert" />
    ${!canImport ? html`<${Empty} id="import-missing" icon="info" title="This build has no import."><p>Use the command <code>sluice import</code>. If the server was started with <code>make run</code>, load the page again in a minute.</p><//>`
    : step === 'choose' ? html`<${ChooseFile} />`
      : step === 'setup' ? html`<${SetupForm} setup=${setup} wrong=${wrong} file=${file} />`
        : step === 'report' ? html`<${CheckReport} result=${result} count=${rejects.count} />`
          : html`<${ImportProgress} progress=${progress} rejects=${rejects} format=${result?.description.format} />`}
  </div>`;
}

function ChooseFile() {
  const [over, setOver] = useState(false);
  const drag = (event) => {
    event.preventDefault();
    setOver(event.type === 'dragover');
    if (event.type === 'drop' && event.dataTransfer.files[0]) importer.choose(event.dataTransfer.files[0]);
  };
  return html`<div id="import-choose" class=${over ? 'drop over' : 'drop'} onDragOver=${drag} onDragLeave=${drag} onDrop=${drag}>
    <label for="import-file">Choose a CSV, JSON or NDJSON file, or drop one here</label>
    <input id="import-file" type="file" accept=".csv,.tsv,.txt,.ndjson,.jsonl,.json,.gz,.zip" onChange=${(event) => event.target.files[0] && importer.choose(event.target.files[0])} />
    <p class="hint">Nothing is sent before you have seen what would be imported and what rejected.</p>
  </div>`;
}

const ImportProgress = ({ progress: { title, read, counts, state }, rejects, format }) => html`<div id="import-progress">
  <h2 id="import-progress-title" class="record-title" tabindex="-1">${title}</h2>
  <progress id="import-bar" max="100" value=${read} aria-label=${title} />
  <p id="import-counts">${counts}</p>
  ${state === 'ended' && rejects.count > 0 && html`<${RejectedRows} rejects=${rejects} format=${format} />`}
  <div class="inline actions">
    ${(state === 'sending' || state === 'paused') && html`<${Button} id="import-pause" icon=${state === 'paused' ? 'play' : 'pause'} onClick=${() => importer.pause()}>${state === 'paused' ? 'Continue' : 'Pause'}<//>`}
    ${state !== 'cancelling' && state !== 'ended' && html`<${Button} id="import-cancel" onClick=${() => importer.cancel()}>Cancel<//>`}
    ${state === 'ended' && rejects.count > 0 && html`<${Button} id="import-progress-download" icon="download" onClick=${() => importer.saveRejects()}>Download the rejected rows<//>`}
    ${state === 'ended' && html`<${Button} id="import-again" onClick=${() => importer.restart()}>Choose another file<//>`}
  </div>
</div>`;
