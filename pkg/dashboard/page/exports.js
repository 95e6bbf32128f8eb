import { call } from './api.js';
import { $, announce, describe, make, notice, say } from './dom.js';
import { bytes, count, duration, instant, number, sentence } from './format.js';
import { insist, Poller } from './poll.js';

// Milliseconds between two looks at the jobs.
const whileNew = 250; // most exports take seconds: the first ones show that it moves
const whileActive = 1000;
const whileIdle = 15_000;
const newFor = 5000;
const pageLength = 10;

const statusNames = { queued: 'Waiting', running: 'Running', succeeded: 'Ready', failed: 'Failed', cancelled: 'Cancelled' };
const nouns = { event: 'Events', entity: 'Entities' };
const hints = {
  ndjson: 'One JSON object a line, exactly as stored. Compressed with gzip.',
  csv: 'For spreadsheets: a column for each attribute. Compressed with gzip.',
};
const isActive = (job) => job.status === 'queued' || job.status === 'running';

/** Starting exports, and the history of those that were. */
export class Exports {
  #poller; #onSignedOut; #jobs = new Map(); #rows = new Map(); #next = null; #paged = false; #loaded = false; #newID = '';
  #startedAt = 0; // of the last job that was started here
  #formulas = new Map(); // what a job's JSON does not tell, of those that were started here

  constructor(onSignedOut) {
    this.#onSignedOut = onSignedOut;
    const interval = () => {
      if (Date.now() - this.#startedAt < newFor) return whileNew;
      return [...this.#jobs.values()].some(isActive) ? whileActive : whileIdle;
    };
    this.#poller = new Poller((signal) => this.#load(signal), interval, (r) => this.#report(r));
    $('exports-more').addEventListener('click', () => this.#more());
    const form = $('new-export');
    form.addEventListener('change', () => this.#arrange());
    form.addEventListener('input', () => { this.#newID = ''; });
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    say($('zone'), `By the time they occurred, in your time zone${zone ? ` (${zone})` : ''}.`);
    this.#arrange();
  }

  start() { this.#poller.start(); }

  stop() {
    this.#poller.stop();
    this.#jobs.clear();
    this.#loaded = false;
    this.#paged = false;
    this.#draw();
  }

  // The form

  get #choice() { return Object.fromEntries(new FormData($('new-export'))); }

  /** Shows the fields that go with what is chosen. */
  #arrange() {
    const { resource, format } = this.#choice;
    for (const field of document.querySelectorAll('#new-export [data-for]')) field.hidden = ![resource, format].includes(field.dataset.for);
    say($('format-hint'), hints[format]);
  }

  async #submit() {
    const button = $('start');
    if (button.getAttribute('aria-disabled')) return;
    this.#faults([]);
    notice($('new-notice'));
    const { resource, format, keep_formulas: keep, type, entity_id: entity, from, to } = this.#choice;
    const filters = resource === 'entity' ? { type } : { entity_id: entity, from: utc(from), to: utc(to) };
    for (const [name, value] of Object.entries(filters)) if (!value) delete filters[name];
    // The id makes it harmless to send the request again after a lost response.
    this.#newID ||= randomID();
    const body = { id: this.#newID, resource, format, filters };
    if (format === 'csv' && keep) body.csv_formulas = 'keep';
    button.setAttribute('aria-disabled', 'true');
    say(button, 'Starting…');
    try {
      await this.#create(body, (error) => notice($('new-notice'), describe(error)));
      this.#newID = '';
      notice($('new-notice'));
    } catch (error) {
      if (error.status === 401) this.#onSignedOut(error);
      else if (error.errors?.length && this.#faults(error.errors)) notice($('new-notice'));
      else notice($('new-notice'), describe(error, true));
    } finally {
      button.removeAttribute('aria-disabled');
      say(button, 'Start export');
    }
  }

  async #create(body, report) {
    const { data: job } = await insist(() => call('POST', 'create_export_job', { body }), report);
    this.#jobs.set(job.id, job);
    if (body.csv_formulas) this.#formulas.set(job.id, { csv_formulas: body.csv_formulas });
    this.#draw();
    this.#startedAt = Date.now();
    announce(`Export of ${nouns[job.resource].toLowerCase()} started`);
    this.#poller.start();
  }

  /** Says beside each field what is wrong with it; reports whether there is one. */
  #faults(errors) {
    let first;
    for (const name of ['type', 'entity_id', 'from', 'to']) {
      const fault = errors.find((e) => e.field.split(/[./]/).at(-1) === name);
      say($(`${name}-error`), fault ? sentence(`it ${fault.detail}`) : '');
      if (fault) $(name).setAttribute('aria-invalid', 'true');
      else $(name).removeAttribute('aria-invalid');
      if (fault && !$(name).closest('[data-for]').hidden) first ??= $(name);
    }
    first?.focus();
    return Boolean(first);
  }

  // The history

  async #load(signal) {
    const answer = await call('GET', `export_job?limit=${pageLength}`, { signal });
    const { data: page, next_cursor: next } = answer.data;
    const seen = new Set(page.map((job) => job.id));
    // Those on later pages, and new ones that the list does not have yet.
    for (const job of [...this.#jobs.values()].filter((j) => isActive(j) && !seen.has(j.id))) {
      const { data } = await call('GET', `export_job/${encodeURIComponent(job.id)}`, { signal });
      page.push(data);
    }
    if (!this.#paged) this.#next = next;
    this.#loaded = true;
    this.#take(page);
    return answer;
  }

  async #more() {
    const button = $('exports-more');
    if (button.getAttribute('aria-disabled')) return;
    button.setAttribute('aria-disabled', 'true');
    try {
      const query = new URLSearchParams({ limit: pageLength, cursor: this.#next });
      const { data: { data: page, next_cursor: next } } = await insist(() => call('GET', `export_job?${query}`), (error) => notice($('exports-notice'), describe(error)));
      notice($('exports-notice'));
      this.#paged = true;
      this.#next = next;
      const first = page.find((job) => !this.#jobs.has(job.id));
      this.#take(page);
      if (first) this.#rows.get(first.id).name.focus();
      announce(`${count(page.length, 'older export')} shown`);
    } catch (error) {
      if (error.status === 401) this.#onSignedOut(error);
      else notice($('exports-notice'), describe(error, true));
    } finally {
      button.removeAttribute('aria-disabled');
    }
  }

  /** Takes in what is new of some jobs, and says aloud which have ended. */
  #take(jobs) {
    for (const job of jobs) {
      const before = this.#jobs.get(job.id);
      this.#jobs.set(job.id, { expired: before?.expired, ...job });
      if (before && isActive(before) && !isActive(job)) announce(`Export of ${nouns[job.resource].toLowerCase()}: ${statusNames[job.status].toLowerCase()}`);
    }
    this.#draw();
  }

  #report({ error, stopped }) {
    if (error?.status === 401) this.#onSignedOut(error);
    else notice($('exports-notice'), error && describe(error, stopped), stopped && (() => this.#poller.start()));
  }

  #draw() {
    const jobs = [...this.#jobs.values()].sort((a, b) => b.created_at.localeCompare(a.created_at) || b.id.localeCompare(a.id));
    $('exports-empty').hidden = !this.#loaded || jobs.length > 0;
    $('exports-more').hidden = !this.#loaded || !this.#next;
    for (const id of [...this.#rows.keys()].filter((k) => !this.#jobs.has(k))) {
      this.#rows.get(id).element.remove();
      this.#rows.delete(id);
    }
    const list = $('exports');
    jobs.forEach((job, i) => {
      let row = this.#rows.get(job.id);
      if (!row) {
        row = new Row((action) => this.#act(action, job.id));
        this.#rows.set(job.id, row);
      }
      row.update(job);
      if (list.children[i] !== row.element) list.insertBefore(row.element, list.children[i] ?? null);
    });
  }

  #actions = {
    cancel: async ({ id }, report) => {
      const { data } = await insist(() => call('POST', 'cancel_export_job', { body: { id } }), report);
      this.#take([data]);
    },
    again: (job, report) => this.#create({ id: randomID(), resource: job.resource, format: job.format, filters: job.filters, ...this.#formulas.get(job.id) }, report),
    // Links are good for a short time, so each is made when it is wanted.
    download: async ({ id }, report) => {
      const { data: job } = await insist(() => call('GET', `export_job/${encodeURIComponent(id)}`), report);
      if (job.download_url) make('a', { href: job.download_url, download: '' }).click();
      else announce('The file has expired');
      this.#take([{ ...job, expired: !job.download_url }]);
    },
  };

  async #act(action, id) {
    const row = this.#rows.get(id);
    const job = this.#jobs.get(id);
    if (row.busy) return;
    row.busy = true;
    const report = (error) => notice($('exports-notice'), describe(error));
    try {
      await this.#actions[action](job, report);
      notice($('exports-notice'));
    } catch (error) {
      if (error.status === 401) this.#onSignedOut(error);
      else if (error.status === 409) this.#poller.start(); // it has ended meanwhile
      else notice($('exports-notice'), describe(error, true));
    } finally {
      row.busy = false;
      // The button that had the focus may be gone.
      if (document.activeElement === document.body) row.name.focus();
    }
  }
}

/** One export in the history. It is changed in place, so that the focus stays. */
class Row {
  #status = make('span', { class: 'badge' });
  #title = make('span');
  #filters = make('p', { class: 'job-filters' });
  #bar = make('progress', { max: 100 });
  #progress = make('div', { class: 'job-progress' }, this.#bar);
  #facts = make('p', { class: 'job-facts' });
  #error = make('p', { class: 'job-error' });
  #actions = make('div', { class: 'job-actions' });
  #shown = '';
  #act;
  busy = false;

  constructor(act) {
    this.#act = act;
    this.name = make('h3', { class: 'job-name', tabindex: '-1' }, this.#title, this.#status);
    this.element = make('li', {}, this.name, this.#filters, this.#progress, this.#error, this.#facts, this.#actions);
  }

  update(job) {
    const title = `${nouns[job.resource]}, ${job.format === 'csv' ? 'CSV' : 'NDJSON'}`;
    this.element.dataset.status = job.status;
    this.element.dataset.id = job.id;
    say(this.#title, title);
    say(this.#status, statusNames[job.status] ?? job.status);
    say(this.#filters, filterText(job.filters ?? {}));
    say(this.#error, job.status === 'failed' ? sentence(job.error ?? 'the export failed') : '');
    this.#progress.hidden = !isActive(job);
    const percent = percentOf(job);
    this.#bar.setAttribute('aria-label', `Progress of ${title}, created ${instant(job.created_at)}`);
    if (percent === null) this.#bar.removeAttribute('value');
    else this.#bar.value = percent;
    say(this.#facts, facts(job, percent));

    const shown = `${job.status} ${Boolean(job.expired)}`;
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#actions.replaceChildren(this.#button(job, title));
  }

  #button(job, title) {
    const [text, action] = actionOf(job);
    const button = make('button', { type: 'button', class: action === 'download' ? 'primary' : 'quiet' }, text, make('span', { class: 'unseen' }, `: ${title}`));
    button.addEventListener('click', () => this.#act(action));
    return button;
  }
}

/** What can be done with a job: what the button says, and its action. */
function actionOf(job) {
  if (isActive(job)) return ['Cancel', 'cancel'];
  if (job.status !== 'succeeded') return ['Try again', 'again'];
  return job.expired ? ['Export again', 'again'] : ['Download', 'download'];
}

/** How far a job is, from 0 to 100; null if that is not known. */
function percentOf(job) {
  if (job.status === 'queued') return 0;
  if (!job.records_expected) return null;
  return Math.min(100, (100 * job.records_written) / job.records_expected);
}

function facts(job, percent) {
  const written = count(job.records_written, 'record');
  switch (job.status) {
    case 'queued':
      return 'Starts in a moment';
    case 'running':
      return percent === null ? `${written} so far` : `${number(job.records_written)} of ${count(job.records_expected, 'record')} · ${Math.floor(percent)} %`;
    case 'succeeded':
      return [
        written, job.size_bytes !== null && bytes(job.size_bytes), instant(job.finished_at), `took ${duration(job.started_at ?? job.created_at, job.finished_at)}`,
        job.expired && 'the file has expired',
      ].filter(Boolean).join(' · ');
    default:
      return `${written} written · ${instant(job.finished_at ?? job.created_at)}`;
  }
}

function filterText({ type, entity_id: entity, from, to }) {
  return [type && `type ${type}`, entity && `entity ${entity}`, from && `from ${instant(from)}`, to && `before ${instant(to)}`].filter(Boolean).join(' · ');
}

/** A local time of an input as RFC 3339 in UTC. */
function utc(local) { return local ? new Date(local).toISOString() : ''; }

/** A random id; crypto.randomUUID is not there on plain HTTP. */
function randomID() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}
