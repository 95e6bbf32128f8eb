// The card that imports a file: choose it, say what its columns become, check it, send it.

const previewValues = 3;

class Importer {
  #onSignedOut; #onImported; #file; #source; #size; #setup; #report; #run; #rejects; #paused; #cancelled; #resume = () => {};

  /** onImported is called after an import that may have stored records, unless the user signs out. */
  constructor(onSignedOut, onImported) {
    this.#onSignedOut = onSignedOut;
    this.#onImported = onImported;
    this.#setup = new ImportSetup(() => this.#test(), (description) => this.#task(() => this.#preview(description)));
    $('import-choose').hidden = !canImport;
    $('import-missing').hidden = canImport;
    const input = $('import-file'), area = $('import-choose');
    input.addEventListener('change', () => input.files[0] && this.#choose(input.files[0]));
    for (const type of ['dragover', 'dragleave', 'drop']) {
      area.addEventListener(type, (event) => {
        event.preventDefault();
        area.classList.toggle('over', type === 'dragover');
        if (type === 'drop' && event.dataTransfer.files[0]) this.#choose(event.dataTransfer.files[0]);
      });
    }
    $('import-setup').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#task(() => this.#check());
    });
    $('import-saved').addEventListener('change', ({ target }) => this.#task(() => this.#useSaved(target)));
    $('import-save').addEventListener('click', () => saveFile(new Blob([JSON.stringify(this.#setup.description, null, 2)], { type: 'application/json' }), `${this.#file.name}.description.json`));
    $('import-start').addEventListener('click', () => this.#task(() => this.#send()));
    $('import-change').addEventListener('click', () => this.#step('setup'));
    $('import-pause').addEventListener('click', () => this.#pause());
    $('import-cancel').addEventListener('click', () => this.#cancel());
    for (const button of document.querySelectorAll('.import-rejects')) button.addEventListener('click', () => this.#rejects.save(`${this.#file.name}.rejects.csv`));
    for (const button of document.querySelectorAll('.import-other')) button.addEventListener('click', () => this.#restart());
  }

  /** Ends the task in progress. */
  stop() {
    this.#resume();
    this.#run?.abort();
  }

  #restart() {
    this.stop();
    this.#source?.stop();
    $('import-file').value = '';
    this.#step('choose');
    $('import-file').focus();
  }

  /** Shows one step and hides the others. */
  #step(name) {
    for (const step of ['choose', 'setup', 'report', 'progress']) $(`import-${step}`).hidden = step !== name;
    $(`import-${name}`).querySelector('h3')?.focus();
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
      else if (error instanceof ApiError) report('import', error, { stopped: true });
      else if (error instanceof FileError) notice($('import-notice'), error.message);
      else throw error;
    }
  }

  // Choose, and say what the columns become

  #choose(file) {
    return this.#task(async () => {
      if (file.size === 0) throw new FileError(`${file.name} is empty.`);
      this.#source?.stop();
      this.#file = file;
      this.#source = new ImportFile(file);
      this.#show(await this.#source.ask({ do: 'guess', name: file.name }));
      $('import-title').replaceChildren(stored(file.name), `: ${bytes(file.size)}`);
      this.#step('setup');
    });
  }

  #show(guessed) {
    this.#size = guessed.size;
    this.#setup.show(guessed);
    say($('import-error'), '');
  }

  async #preview(description) { this.#show(await this.#source.ask({ do: 'preview', description })); }

  /** Says what is wrong with the description, if anything. */
  async #test() {
    const { wrong = '' } = await this.#source.ask({ do: 'test', description: this.#setup.description });
    say($('import-error'), wrong && sentence(wrong));
  }

  async #useSaved(input) {
    const description = parseJSON(await input.files[0].text());
    input.value = '';
    if (!description) throw new FileError('This is not a description of a file.');
    await this.#preview(description);
    announce('The description is in use');
  }

  // Check and send

  #begin(title) {
    say($('import-progress-title'), title);
    $('import-bar').setAttribute('aria-label', title);
    say($('import-counts'), '');
    this.#showBar(0);
    this.#rejects = new Rejects();
    $('import-progress-rejects').replaceChildren();
    this.#step('progress');
  }

  #showBar(read) { $('import-bar').value = (100 * read) / this.#size; }

  async #check() {
    const { signal } = this.#run;
    this.#begin('Checking');
    this.#showButtons({ cancel: true });
    try {
      this.#report = await this.#source.ask({ do: 'survey', description: this.#setup.description, indexes: await knownIndexes() }, (read, rejects) => {
        for (const row of rejects) this.#rejects.add(row);
        this.#showBar(read);
      }, signal);
    } catch (error) {
      this.#step('setup');
      throw error;
    }
    drawReport(this.#report);
    $('import-report-download').hidden = this.#rejects.count === 0;
    say($('import-start'), `Import ${count(this.#report.valid, 'row')}`);
    $('import-start').hidden = this.#report.valid === 0;
    this.#step('report');
  }

  async #send() {
    const { signal } = this.#run;
    const { description } = this.#report;
    const counts = { created: 0, existing: 0, deleted: 0 };
    this.#paused = undefined;
    this.#cancelled = false;
    const tell = () => say($('import-counts'), `${number(counts.created)} new · ${number(counts.existing)} ${description.resource === 'event' ? 'there already' : 'updated or there already'} · ${description.mirror ? `${number(counts.deleted)} deleted · ` : ''}${number(this.#rejects.count)} rejected`);
    this.#begin('Importing');
    this.#showButtons({ pause: true, cancel: true });
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
        else this.#rejects.add({ line, text, reason: problem?.detail ?? `status ${status}` });
        tell();
      },
      onFailure: (error, wait) => report('import', error, { wait }),
    };
    try {
      for await (const { rows, rejects, read } of this.#source.batches(description)) {
        for (const row of rejects) this.#rejects.add(row);
        if (rows.length > 0) await sendBatch(description.resource, rows, sender);
        signal.throwIfAborted();
        report('import');
        tell();
        this.#showBar(read);
      }
      this.#end('Imported');
      this.#onImported();
    } catch (error) {
      if (signal.aborted) report('import');
      this.#end(signal.aborted ? 'Cancelled. Choose the file again to import the rest; nothing is stored twice' : 'Stopped');
      if (signal.aborted ? this.#cancelled : error.status !== 401) this.#onImported();
      throw error;
    }
  }

  #end(title) {
    say($('import-progress-title'), title);
    this.#showButtons({ again: true });
    this.#rejects.draw($('import-progress-rejects'), this.#report.description.format);
    $('import-progress-download').hidden = this.#rejects.count === 0;
    $('import-progress-title').focus();
    announce(`${title}: ${$('import-counts').textContent}`);
  }

  #showButtons(shown) {
    for (const name of ['pause', 'cancel', 'again', 'progress-download']) $(`import-${name}`).hidden = !shown[name];
    say($('import-pause'), 'Pause');
  }

  /** Ends a check at once, and an import after the service has responded to the batch in progress, so that the counts are right. */
  #cancel() {
    const checking = $('import-pause').hidden;
    this.#cancelled = true;
    this.stop();
    if (checking) return;
    say($('import-progress-title'), 'Cancelling');
    this.#showButtons({});
    $('import-progress-title').focus();
  }

  #pause() {
    if (this.#paused) return this.#continue();
    this.#paused = new Promise((resolve) => { this.#resume = resolve; });
    say($('import-pause'), 'Continue');
    say($('import-progress-title'), 'Paused');
  }

  #continue() {
    this.#resume();
    this.#paused = undefined;
    say($('import-pause'), 'Pause');
    say($('import-progress-title'), 'Importing');
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
