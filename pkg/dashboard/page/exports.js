// The panel that starts exports and shows their history.

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

class Exports {
  #poller; #onSignedOut; #jobs = new Map(); #rows = new Map(); #next = null; #paged = false; #loaded = false; #newID = '';
  #startedAt = 0; // time at which this page last started a job
  #formulas = new Map(); // csv_formulas of the jobs that this page started, by job id; the JSON of a job does not include this option

  constructor(onSignedOut) {
    this.#onSignedOut = onSignedOut;
    const interval = () => {
      if (Date.now() - this.#startedAt < newFor) return whileNew;
      return [...this.#jobs.values()].some(isActive) ? whileActive : whileIdle;
    };
    this.#poller = new Poller((signal) => this.#load(signal), interval, (error, stopped, wait) => this.#report(error, stopped, wait));
    $('exports-more').addEventListener('click', () => this.#more());
    const form = $('new-export');
    form.addEventListener('change', () => this.#arrange());
    form.addEventListener('input', () => {
      this.#newID = '';
      report('new');
    });
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    for (const button of form.querySelectorAll('[data-preset]')) button.addEventListener('click', () => this.#preset(button.dataset.preset));
    for (const input of [$('from'), $('to')]) input.addEventListener('input', () => markPreset(form, ''));
    this.#arrange();
  }

  start() { this.#poller.start(); }

  /** Shows a job that another part of the page has changed. */
  take(job) { this.#take([job]); }

  stop() {
    this.#poller.stop();
    this.#jobs.clear();
    this.#loaded = false;
    this.#paged = false;
    this.#draw();
  }

  // The form

  get #choice() { return Object.fromEntries(new FormData($('new-export'))); }

  /** Shows the fields that apply to the selected options. */
  #arrange() {
    const { resource, format } = this.#choice;
    for (const field of document.querySelectorAll('#new-export [data-for]')) field.hidden = ![resource, format].includes(field.dataset.for);
    say($('format-hint'), formatHints[format]);
  }

  #preset(name) {
    const { from, to } = presetRange(name);
    $('from').value = toInput(from);
    $('to').value = toInput(to);
    markPreset($('new-export'), name);
    this.#newID = '';
  }

  /** Calls change, which switches the zone, and then shows all times in the new zone. */
  rezone(change) {
    const times = [$('from'), $('to')].map((input) => toUTC(input.value));
    change();
    [$('from').value, $('to').value] = times.map(toInput);
    this.#draw();
  }

  /** Starts an export of the events of an entity. */
  exportEvents(entity) {
    $('new-export').reset();
    const { resource, format, entity_id: id } = $('new-export').elements;
    resource.value = 'event';
    format.value = 'csv';
    id.value = entity;
    markPreset($('new-export'), '');
    this.#arrange();
    this.#newID = '';
    this.#submit();
  }

  async #submit() {
    const button = $('start');
    if (button.getAttribute('aria-disabled')) return;
    this.#faults([]);
    report('new');
    const { resource, format, keep_formulas: keep, type, entity_id: entity, name, from, to } = this.#choice;
    const filters = resource === 'entity' ? { type } : { entity_id: entity, name, from: toUTC(from), to: toUTC(to) };
    for (const [filter, value] of Object.entries(filters)) if (!value) delete filters[filter];
    // A retry after a lost response sends the same id, so it cannot create a second
    // export.
    this.#newID ||= randomID();
    const body = { id: this.#newID, resource, format, filters };
    if (format === 'csv' && keep) body.csv_formulas = 'keep';
    button.setAttribute('aria-disabled', 'true');
    say(button, 'Starting…');
    try {
      await this.#create(body, (error, wait) => report('new', error, { wait }));
      this.#newID = '';
      report('new');
    } catch (error) {
      if (error.status === 401) this.#onSignedOut(error);
      else if (error.errors?.length && this.#faults(error.errors)) report('new');
      else report('new', error, { stopped: true, retry: error.passing ? () => this.#submit() : undefined }); // a retry sends the same id, so at most one export is created
    } finally {
      button.removeAttribute('aria-disabled');
      say(button, 'Start export');
    }
  }

  async #create(body, onFailure) {
    const { data: job } = await insist(() => call('POST', 'create_export_job', { body }), onFailure);
    this.#jobs.set(job.id, job);
    if (body.csv_formulas) this.#formulas.set(job.id, { csv_formulas: body.csv_formulas });
    this.#draw();
    this.#rows.get(job.id).element.scrollIntoView({ block: 'center' });
    this.#startedAt = Date.now();
    announce(`Export of ${resourceNames[job.resource].toLowerCase()} started`);
    this.#poller.start();
  }

  /**
   * Shows the error of each field beside the field. Returns whether a visible field
   * has an error.
   */
  #faults(errors) {
    let first;
    for (const name of ['type', 'entity_id', 'name', 'from', 'to']) {
      const fault = errors.find((e) => e.field.split(/[./]/).at(-1) === name);
      say($(`${name}-error`), fault ? sentence(`${fieldNames[name]} ${fault.detail.replace(/than to$/, 'than Before')}`) : '');
      if (fault) $(name).setAttribute('aria-invalid', 'true');
      else $(name).removeAttribute('aria-invalid');
      if (fault && !$(name).closest('[data-for]').hidden) first ??= $(name);
    }
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
    for (const job of [...this.#jobs.values()].filter((j) => isActive(j) && !seen.has(j.id))) {
      const { data } = await call('GET', `export_job/${encodeURIComponent(job.id)}`, { signal });
      page.push(data);
    }
    if (!this.#paged) this.#next = next;
    this.#loaded = true;
    this.#take(page);
    return response;
  }

  async #more() {
    const button = $('exports-more');
    if (button.getAttribute('aria-disabled')) return;
    button.setAttribute('aria-disabled', 'true');
    try {
      const path = withQuery('export_job', { limit: jobsPerPage, cursor: this.#next });
      const { data: { data: page, next_cursor: next } } = await insist(() => call('GET', path), (error, wait) => report('exports', error, { wait }));
      report('exports');
      this.#paged = true;
      this.#next = next;
      const first = page.find((job) => !this.#jobs.has(job.id));
      this.#take(page);
      if (first) this.#rows.get(first.id).name.focus();
      announce(`${count(page.length, 'older export')} shown`);
    } catch (error) {
      if (error.status === 401) this.#onSignedOut(error);
      else report('exports', error, { stopped: true });
    } finally {
      button.removeAttribute('aria-disabled');
    }
  }

  /** Stores the new states of some jobs and announces the jobs that have ended. */
  #take(jobs) {
    for (const job of jobs) {
      const before = this.#jobs.get(job.id);
      this.#jobs.set(job.id, job);
      if (before && isActive(before) && !isActive(job)) announce(`Export of ${resourceNames[job.resource].toLowerCase()}: ${statusNames[job.status].toLowerCase()}`);
    }
    this.#draw();
  }

  #report(error, stopped, wait) {
    if (error?.status === 401) this.#onSignedOut(error);
    else report('exports', error, { stopped, wait, retry: stopped ? () => this.#poller.start() : undefined });
  }

  #draw() {
    const jobs = [...this.#jobs.values()].sort((a, b) => b.created_at.localeCompare(a.created_at) || b.id.localeCompare(a.id));
    const empty = this.#loaded && jobs.length === 0;
    $('exports-empty').hidden = !empty;
    if (empty) $('exports-command').replaceChildren(apiCommand('create_export_job', { resource: 'event', format: 'ndjson' }));
    $('exports-more').hidden = !this.#loaded || !this.#next;
    for (const id of [...this.#rows.keys()].filter((k) => !this.#jobs.has(k))) {
      this.#rows.get(id).element.remove();
      this.#rows.delete(id);
    }
    const list = $('exports');
    jobs.forEach((job, i) => {
      let row = this.#rows.get(job.id);
      if (!row) {
        row = new JobRow((action) => this.#act(action, job.id));
        this.#rows.set(job.id, row);
      }
      row.update(job);
      if (list.children[i] !== row.element) list.insertBefore(row.element, list.children[i] ?? null);
    });
  }

  #actions = {
    cancel: async ({ id }, onFailure) => {
      const { data } = await insist(() => call('POST', 'cancel_export_job', { body: { id } }), onFailure);
      this.#take([data]);
    },
    again: (job, onFailure) => this.#create({ id: randomID(), resource: job.resource, format: job.format, filters: job.filters, ...this.#formulas.get(job.id) }, onFailure),
    // Download links expire soon, so the page requests a link only when the user needs
    // it.
    download: async (given, onFailure) => {
      const { id } = given;
      const { data: job } = await insist(() => call('GET', withQuery(`export_job/${encodeURIComponent(id)}`, { file_name: fileName(given) })), onFailure);
      if (job.download_url) make('a', { href: job.download_url, download: '' }).click();
      else announce('The file no longer exists');
      this.#take([job]);
    },
  };

  async #act(action, id) {
    const row = this.#rows.get(id);
    const job = this.#jobs.get(id);
    if (row.busy) return;
    row.busy = true;
    try {
      await this.#actions[action](job, (error, wait) => report('exports', error, { wait }));
      report('exports');
    } catch (error) {
      if (error.status === 401) this.#onSignedOut(error);
      else if (error.status === 409) this.#poller.start(); // the job ended before the action, so read its new state
      else report('exports', error, { stopped: true });
    } finally {
      row.busy = false;
    }
  }
}

/** Returns a random id. crypto.randomUUID is not available over plain HTTP. */
function randomID() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}
