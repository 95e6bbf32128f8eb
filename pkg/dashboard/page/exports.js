// The view that starts exports and shows their history.

// Milliseconds between two polls of the jobs.
const whileNew = 250; // most exports take seconds, so only frequent polls show any progress
const whileActive = 1000;
const whileIdle = 15_000;
const newFor = 5000; // milliseconds after the start of a job during which whileNew applies

const jobsPerPage = 10;

const formatHints = {
  ndjson: 'One JSON object per line, exactly as stored. Compressed with gzip.',
  csv: 'For spreadsheets, with a column for each attribute.',
};

const blankOrder = () => ({ resource: 'event', format: 'ndjson', type: '', entity_id: '', name: '', from: '', to: '', keep: false, preset: 'any' });

class Exports {
  jobs = []; loaded = false; next = null; order = blankOrder(); faults = {}; starting = false; acting = new Set();
  #poller; #onSignedOut; #paged = false; #newID = '';
  #startedAt = 0; // time at which this page last started a job
  #formulas = new Map(); // csv_formulas of the jobs that this page started, by job id; the JSON of a job does not include this option

  constructor(onSignedOut) {
    this.#onSignedOut = onSignedOut;
    const interval = () => {
      if (Date.now() - this.#startedAt < newFor) return whileNew;
      return this.jobs.some(isActive) ? whileActive : whileIdle;
    };
    this.#poller = new Poller((signal) => this.#load(signal), interval, (error, stopped, wait) => this.#report(error, stopped, wait));
  }

  show() { this.#poller.start(); }

  /** Another view is shown. Until the jobs have ended, the page still announces what becomes of them. */
  leave() { if (!this.jobs.some(isActive)) this.#poller.stop(); }

  stop() {
    this.#poller.stop();
    Object.assign(this, { jobs: [], loaded: false });
    this.#paged = false;
    draw();
  }

  // The form

  /** Changes what will be exported. */
  change(values) {
    this.#newID = '';
    report('new');
    Object.assign(this.order, values);
    draw();
  }

  /** Starts an export of the events of an entity. */
  exportEvents(entity) {
    this.change({ ...blankOrder(), format: 'csv', entity_id: entity });
    return this.submit();
  }

  async submit() {
    if (this.starting) return;
    const { resource, format, keep, type, entity_id: entity, name, from, to } = this.order;
    const filters = resource === 'entity' ? { type } : { entity_id: entity, name, from, to };
    for (const [filter, value] of Object.entries(filters)) if (!value) delete filters[filter];
    // A retry after a lost response sends the same id, so it cannot create a second
    // export.
    this.#newID ||= randomID();
    const body = { id: this.#newID, resource, format, filters };
    if (format === 'csv' && keep) body.csv_formulas = 'keep';
    this.#starts(true, {});
    try {
      await this.#create(body, (error, wait) => report('new', error, { wait }));
      this.#newID = '';
      report('new');
    } catch (error) {
      if (error.status === 401) this.#onSignedOut(error);
      else if (error.errors?.length && this.#takeFaults(error.errors)) report('new');
      else report('new', error, { stopped: true, retry: error.passing ? () => this.submit() : undefined }); // a retry sends the same id, so at most one export is created
    } finally {
      this.#starts(false, this.faults);
    }
  }

  #starts(starting, faults) {
    Object.assign(this, { starting, faults });
    draw();
  }

  async #create(body, onFailure) {
    const { data: job } = await insist(() => call('POST', 'create_export_job', { body }), onFailure);
    if (body.csv_formulas) this.#formulas.set(job.id, { csv_formulas: body.csv_formulas });
    this.take([job]);
    document.querySelector(`#exports [data-id="${CSS.escape(job.id)}"]`)?.scrollIntoView({ block: 'nearest' });
    this.#startedAt = Date.now();
    announce(`Export of ${plurals[job.resource]} started`);
    this.#poller.start();
  }

  /** Shows the error of each field beside the field. Returns whether a visible field has an error. */
  #takeFaults(errors) {
    this.faults = Object.fromEntries(errors.map(({ field, detail }) => {
      const name = field.split(/[./]/).at(-1);
      return [name, sentence(`${fieldNames[name]} ${detail.replace(/than to$/, 'than Before')}`)];
    }));
    draw();
    const first = document.querySelector('#new-export [aria-invalid]');
    first?.focus();
    return Boolean(first);
  }

  // The history

  async #load(signal) {
    const response = await call('GET', withQuery('export_job', { limit: jobsPerPage }), { signal });
    const { data: page, next_cursor: next } = response.data;
    const seen = new Set(page.map((job) => job.id));
    // Also read the active jobs that this page of the list lacks: older jobs, and new
    // jobs that the list does not contain yet.
    for (const job of this.jobs.filter((j) => isActive(j) && !seen.has(j.id))) {
      const { data } = await call('GET', `export_job/${encodeURIComponent(job.id)}`, { signal });
      page.push(data);
    }
    if (!this.#paged) this.next = next;
    this.loaded = true;
    this.take(page);
    return response;
  }

  async more() {
    if (this.reading) return;
    this.reading = true;
    try {
      const path = withQuery('export_job', { limit: jobsPerPage, cursor: this.next });
      const { data: { data: page, next_cursor: next } } = await insist(() => call('GET', path), (error, wait) => report('exports', error, { wait }));
      this.#paged = true;
      this.next = next;
      const first = page.find((job) => !this.jobs.some(({ id }) => id === job.id));
      this.take(page);
      report('exports');
      if (first) focusJob(first.id);
      announce(`${count(page.length, 'older export')} shown`);
    } catch (error) {
      if (error.status === 401) this.#onSignedOut(error);
      else report('exports', error, { stopped: true });
    } finally {
      this.reading = false;
    }
  }

  /** Stores the new states of some jobs and announces the jobs that have ended. */
  take(jobs) {
    const all = new Map(this.jobs.map((job) => [job.id, job]));
    for (const job of jobs) {
      const before = all.get(job.id);
      all.set(job.id, job);
      if (before && isActive(before) && !isActive(job)) announce(`Export of ${plurals[job.resource]}: ${statusNames[job.status].toLowerCase()}`);
    }
    this.jobs = [...all.values()].sort((a, b) => b.created_at.localeCompare(a.created_at) || b.id.localeCompare(a.id));
    draw();
  }

  #report(error, stopped, wait) {
    if (error?.status === 401) this.#onSignedOut(error);
    else report('exports', error, { stopped, wait, retry: stopped ? () => this.#poller.start() : undefined });
  }

  #actions = {
    cancel: async ({ id }, onFailure) => {
      const { data } = await insist(() => call('POST', 'cancel_export_job', { body: { id } }), onFailure);
      this.take([data]);
    },
    again: (job, onFailure) => this.#create({ id: randomID(), resource: job.resource, format: job.format, filters: job.filters, ...this.#formulas.get(job.id) }, onFailure),
    // Download links expire soon, so the page requests a link only when the user needs
    // it.
    download: async (given, onFailure) => {
      const { id } = given;
      const { data: job } = await insist(() => call('GET', withQuery(`export_job/${encodeURIComponent(id)}`, { file_name: fileName(given) })), onFailure);
      if (job.download_url) download(job.download_url, '');
      else announce('The file no longer exists');
      this.take([job]);
    },
  };

  async act(action, job) {
    if (this.acting.has(job.id)) return;
    this.acting.add(job.id);
    try {
      await this.#actions[action](job, (error, wait) => report('exports', error, { wait }));
      report('exports');
    } catch (error) {
      if (error.status === 401) this.#onSignedOut(error);
      else if (error.status === 409) this.#poller.start(); // the job ended before the action, so read its new state
      else report('exports', error, { stopped: true });
    } finally {
      this.acting.delete(job.id);
    }
  }
}

/** Returns a random id. crypto.randomUUID is not available over plain HTTP. */
function randomID() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}

/** Makes the browser download a URL. */
function download(url, name) {
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
}

/** The view of exports. */
const ExportsView = () => html`<div class="columns" id="exports-part"><${NewExport} /><${History} /></div>`;

function NewExport() {
  const { order, faults, starting } = exporter;
  const { resource, format } = order;
  const change = (values) => exporter.change(values);
  const text = (name) => ({ id: name, name, optional: true, fault: faults[name], value: order[name], onInput: (event) => change({ [name]: event.target.value }) });
  const time = (name) => ({ ...text(name), type: 'datetime-local', step: '1', value: toInput(order[name]), onInput: (event) => change({ [name]: toUTC(event.target.value) }) });
  const submit = (event) => {
    event.preventDefault();
    exporter.submit();
  };
  return html`<section class="card" aria-labelledby="new-title">
    <h2 id="new-title">New export</h2>
    <form id="new-export" novalidate onSubmit=${submit}>
      <${Segments} name="export" legend="Records" value=${resource} options=${resourceNames} onChange=${(chosen) => change({ resource: chosen })} />
      <${Segments} name="format" legend="Format" value=${format} options=${{ ndjson: 'NDJSON', csv: 'CSV' }} onChange=${(chosen) => change({ format: chosen })} />
      <p class="hint" id="format-hint">${formatHints[format]}</p>
      ${format === 'csv' && html`<label class="check field"><input type="checkbox" name="keep_formulas" checked=${order.keep} onChange=${(event) => change({ keep: event.target.checked })} /> <span>Keep cells that a spreadsheet would run as formulas</span></label>`}
      ${resource === 'entity' ? html`<${Field} ...${text('type')} label="Type" />` : html`
        <${Field} ...${text('entity_id')} label="Entity id" />
        <${Field} ...${text('name')} label="Name" />
        <${Presets} names=${[...Object.keys(presets), 'own']} chosen=${order.preset} onChoose=${(preset) => change(preset === 'own' ? { preset } : { ...presetRange(preset), preset })} />
        ${order.preset === 'own' ? html`<${Field} ...${time('from')} label="From" /><${Field} ...${time('to')} label="Before" />`
    : html`<p class="hint" id="new-range">${filterParts({ from: order.from, to: order.to })}</p>`}
        <p class="hint" id="new-zone">Times of occurrence, in ${zoneName()}.</p>`}
      <button type="submit" class="primary wide" id="start" aria-disabled=${starting ? 'true' : undefined}>${starting ? 'Starting…' : 'Start export'}</button>
      <${Notice} of="new" role="alert" />
    </form>
  </section>`;
}

function History() {
  const { jobs, loaded, next } = exporter;
  return html`<section class="card" aria-labelledby="exports-title">
    <h2 id="exports-title" tabindex="-1">Exports</h2>
    <${Notice} of="exports" />
    ${!loaded && jobs.length === 0 && !troubles.has('exports') && html`<${Skeleton} rows=${4} />`}
    ${loaded && jobs.length === 0 && html`<${Empty} id="exports-empty" icon="download" title="No exports yet">
      <p>An export writes one file with all events or all entities that exist at its start. It does not use up your limits. Start an export with the form or with this command:</p>
      <div id="exports-command"><${ApiCommand} path="create_export_job" body=${{ resource: 'event', format: 'ndjson' }} /></div><//>`}
    <ul id="exports" class="jobs">${jobs.map((job) => html`<${Job} key=${job.id} job=${job} />`)}</ul>
    ${loaded && next && html`<${Button} id="exports-more" onClick=${() => exporter.more()}>Show older<//>`}
    ${jobs.length > 0 && html`<${Zone} />`}
  </section>`;
}
