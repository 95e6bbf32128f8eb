// One export in the history.

const statusNames = { queued: 'Waiting', running: 'Running', succeeded: 'Ready', failed: 'Failed', cancelled: 'Cancelled' };
const resourceNames = { event: 'Events', entity: 'Entities' };

const isActive = (job) => job.status === 'queued' || job.status === 'running';

/** The row of an export. It is updated in place, so that it keeps the focus. */
class JobRow {
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

  /**
   * act is called with the action that the user chooses: "cancel", "again" or
   * "download".
   */
  constructor(act) {
    this.#act = act;
    this.name = make('h3', { class: 'job-name', tabindex: '-1' }, this.#title, this.#status);
    this.element = make('li', {}, this.name, this.#filters, this.#progress, this.#error, this.#facts, this.#actions);
  }

  update(job) {
    const title = `${resourceNames[job.resource]}, ${job.format === 'csv' ? 'CSV' : 'NDJSON'}`;
    this.element.dataset.status = job.status;
    this.element.dataset.id = job.id;
    say(this.#title, title);
    say(this.#status, statusNames[job.status] ?? job.status);
    this.#filters.replaceChildren(...filterParts(job.filters ?? {}));
    say(this.#error, job.status === 'failed' ? sentence(job.error ?? 'the export failed') : '');
    this.#progress.hidden = !isActive(job) || !job.started_at;
    const percent = percentOf(job);
    this.#bar.setAttribute('aria-label', `Progress of ${title}, created ${instant(job.created_at)}`);
    if (percent === null) this.#bar.removeAttribute('value');
    else this.#bar.value = percent;
    say(this.#facts, jobFacts(job, percent));

    const shown = `${job.status} ${isGone(job)}`;
    if (shown === this.#shown) return;
    this.#shown = shown;
    const focused = this.#actions.contains(document.activeElement);
    this.#actions.replaceChildren(this.#button(job, title));
    if (focused) this.name.focus(); // otherwise the page would lose the focus with the button
  }

  #button(job, title) {
    const [text, action] = actionOf(job);
    const button = makeButton(text, () => this.#act(action), action === 'download' ? 'primary' : 'quiet');
    button.append(make('span', { class: 'unseen' }, `: ${title}`));
    return button;
  }
}

/** Returns whether the file of a job that has succeeded no longer exists. */
const isGone = (job) => Boolean(job.file_deleted_at) || job.file_expires_at <= serviceNow().toISOString();

/** Returns the text and the action of a job's button. */
function actionOf(job) {
  if (isActive(job)) return ['Cancel', 'cancel'];
  if (job.status !== 'succeeded') return ['Try again', 'again'];
  return isGone(job) ? ['Export again', 'again'] : ['Download', 'download'];
}

/** Returns the progress of a job from 0 to 100, or null if unknown. */
function percentOf(job) {
  if (!job.records_expected) return null;
  return Math.min(100, (100 * job.records_written) / job.records_expected);
}

function jobFacts(job, percent) {
  const written = count(job.records_written, 'record');
  switch (job.status) {
    case 'queued': // a large job is queued again after its first run
    case 'running':
      if (!job.started_at) return 'Starts in a moment';
      return percent === null ? `${written} so far` : `${number(job.records_written)} of ${count(job.records_expected, 'record')} · ${Math.floor(percent)} %`;
    case 'succeeded':
      return [
        written, job.size_bytes !== null && bytes(job.size_bytes), instant(job.finished_at), `took ${duration(job.started_at ?? job.created_at, job.finished_at)}`,
        isGone(job) && (job.file_deleted_at ? 'the file was deleted' : 'the file has expired'),
      ].filter(Boolean).join(' · ');
    default:
      return `${written} written · ${instant(job.finished_at ?? job.created_at)}`;
  }
}

/**
 * Returns the name under which the browser saves a job's file: what the file contains,
 * and the date of the job. CSV is for spreadsheets, so the browser decompresses it.
 */
function fileName({ resource, format, filters: { type, entity_id: entity, name: event, from, to } = {}, created_at: at }) {
  const parts = [plurals[resource], type ?? entity, event, from && `from-${dayOf(from)}`, to && `before-${dayOf(to)}`].filter(Boolean);
  const name = parts.join('-').replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 100);
  return `${name}-${dayOf(at)}.${format === 'csv' ? 'csv' : 'ndjson.gz'}`;
}

/** Returns the filters of a job as text and elements. */
function filterParts({ type, entity_id: entity, name, from, to }) {
  const parts = [
    type && ['type ', stored(type)], entity && ['entity ', stored(entity)], name && ['name ', stored(name)],
    from && [`from ${instant(from)}`], to && [`before ${instant(to)}`],
  ].filter(Boolean);
  return parts.flatMap((part, i) => (i > 0 ? [' · ', ...part] : part));
}
