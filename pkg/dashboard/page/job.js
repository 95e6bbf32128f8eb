// One export in the history.

const statusNames = { queued: 'Waiting', running: 'Running', succeeded: 'Ready', failed: 'Failed', cancelled: 'Cancelled' };
const isActive = (job) => job.status === 'queued' || job.status === 'running';

/** One export. If its button changes under the focus, the focus moves to its name. */
function Job({ job }) {
  const { id, status, error } = job;
  const title = `${resourceNames[job.resource]}, ${job.format === 'csv' ? 'CSV' : 'NDJSON'}`;
  const percent = percentOf(job);
  const [text, action] = actionOf(job);
  const button = useRef();
  const focused = button.current?.contains(document.activeElement);
  useLayoutEffect(() => { if (focused && !button.current.contains(document.activeElement)) focusJob(id); });
  return html`<li data-status=${status} data-id=${id}>
    <h3 class="job-name" tabindex="-1"><span>${title}</span><span class="badge">${statusNames[status] ?? status}</span></h3>
    <p class="job-filters">${filterParts(job.filters ?? {})}</p>
    ${isActive(job) && job.started_at && html`<div class="job-progress"><progress max="100" value=${percent ?? undefined} aria-label=${`Progress of ${title}, created ${instant(job.created_at)}`} /></div>`}
    ${status === 'failed' && html`<p class="job-error">${sentence(error ?? 'the export failed')}</p>`}
    <p class="job-facts">${jobFacts(job, percent)}</p>
    <div class="job-actions" ref=${button}><button type="button" key=${action} class=${action === 'download' ? 'primary' : 'quiet'} onClick=${() => exporter.act(action, job)}>${text}<span class="unseen">: ${title}</span></button></div>
  </li>`;
}

const focusJob = (id) => document.querySelector(`#exports [data-id="${CSS.escape(id)}"] .job-name`)?.focus();

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
    type && html`type <${Stored} text=${type} />`, entity && html`entity <${Stored} text=${entity} />`, name && html`name <${Stored} text=${name} />`,
    from && `from ${instant(from)}`, to && `before ${instant(to)}`,
  ].filter(Boolean);
  return parts.flatMap((part, i) => (i > 0 ? [' · ', part] : [part]));
}
