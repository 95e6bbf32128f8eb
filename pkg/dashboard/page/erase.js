// The part of an open entity that erases it and its events.

const erasureInterval = 1000; // milliseconds between two polls of the job
const mostJobs = 200; // export jobs per request

class Eraser {
  state = null; // { text, tone } of the last erasure
  fault = ''; files = null; busy = false;
  #run; #pane;

  constructor(pane) { this.#pane = pane; }

  reset() {
    this.#run?.abort();
    Object.assign(this, { state: null, fault: '', files: null, busy: false, done: false });
  }

  async start(typed) {
    if (this.busy) return;
    const { id } = this.#pane;
    this.fault = typed.trim() === id ? '' : 'This is not the id of this entity. Nothing was erased.';
    draw();
    if (this.fault) return $('erase-id').focus();
    const { signal } = this.#run = new AbortController();
    const onFailure = (error, wait) => this.#tell(failureText(error, false, wait), 'wait');
    this.busy = true;
    try {
      const since = await bornAt(id, signal, onFailure);
      await insist(() => call('POST', 'delete_entity', { body: { id, events: true }, signal }), onFailure, signal);
      this.done = true;
      this.#pane.forget();
      records.forget();
      this.#pane.ready = true;
      this.#tell('Erasing… The entity is deleted; its events follow.', 'wait');
      $('record-title')?.focus();
      if (!await this.#follow(id, signal, onFailure)) return;
      records.refresh();
      this.files = await leftFiles(id, since, signal, onFailure);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#tell(finalText(error), 'error');
    } finally {
      if (!signal.aborted) this.busy = false;
      draw();
    }
  }

  /** Shows the progress of an erasure job until the job ends. Returns whether it has succeeded. */
  async #follow(id, signal, onFailure) {
    for (;;) {
      const { data: job } = await insist(() => call('GET', `erasure_job/${encodeURIComponent(id)}`, { signal }), onFailure, signal);
      const erased = count(job.events_erased, 'event');
      if (job.status === 'succeeded') {
        this.#tell(`Erased: the entity and ${erased}.`, 'done');
        return true;
      }
      if (job.status === 'failed') {
        this.#tell(sentence(job.error ?? 'the erasure failed'), 'error');
        return false;
      }
      this.#tell(`Erasing… ${job.status === 'queued' ? 'The job waits for its turn' : `${erased} so far`}.`, 'wait');
      await sleep(erasureInterval);
      signal.throwIfAborted();
    }
  }

  #tell(text, tone) {
    this.state = { text, tone };
    draw();
  }
}

/**
 * Returns when an entity or its first event came to be, whichever is earlier, or '' if
 * the entity does not exist: it may have existed at any time. An event counts from its
 * creation or from when it occurred: first is the one that occurred first, and others
 * may have been stored before it.
 */
async function bornAt(id, signal, onFailure) {
  try {
    const { data } = await insist(() => call('GET', recordPath('entity', id), { signal }), onFailure, signal);
    const first = withQuery('event', { entity_id: id, order: 'asc', limit: 1 });
    const { data: { data: events } } = await insist(() => call('GET', first, { signal }), onFailure, signal);
    return [data.created_at, ...events.flatMap((e) => [e.created_at, e.occurred_at])].sort()[0];
  } catch (error) {
    if (error.status !== 404) throw error;
    return '';
  }
}

/** Returns the export jobs whose files may still hold what was erased. since is from bornAt. */
async function leftFiles(id, since, signal, onFailure) {
  const jobs = [];
  for (let cursor; ;) {
    const path = withQuery('export_job', { limit: mostJobs, cursor });
    const { data: { data: page, next_cursor: next } } = await insist(() => call('GET', path, { signal }), onFailure, signal);
    jobs.push(...page.filter((job) => mayHold(job, id, since)));
    if (!next || page.at(-1)?.created_at < since) return jobs; // the newest are first
    cursor = next;
  }
}

/** Returns whether the file of an export job exists, or will, and may hold an entity or its events that came to be at a time. */
function mayHold(job, id, since) {
  const entity = job.filters?.entity_id;
  return (isActive(job) || (job.status === 'succeeded' && !isGone(job))) && job.created_at >= since && (!entity || entity === id);
}

function EraseForm({ eraser }) {
  const { id } = records.pane;
  if (eraser.done) return null;
  const submit = (event) => {
    event.preventDefault();
    eraser.start($('erase-id').value);
  };
  return html`<details id="erase" class="fold">
    <summary>Erase this entity and its events</summary>
    <form id="erase-form" novalidate onSubmit=${submit}>
      <p>This removes the entity <${Stored} text=${id} /> and all events that refer to it now. Nobody can bring them back.</p>
      <${Field} id="erase-id" label="To confirm, type the id" fault=${eraser.fault} />
      <button type="submit" class="danger" id="erase-start" aria-disabled=${eraser.busy ? 'true' : undefined}><${Icon} name="eraser" />Erase for good</button>
    </form>
  </details>`;
}

/** What an erasure has done so far, and the export files that may still hold what it erased. */
const EraseState = ({ eraser: { state, files } }) => html`
  ${state && html`<p id="erase-state" class="notice" data-tone=${state.tone} role="status">${state.text}</p>`}
  ${files && html`<div id="erase-files-part">
    <p class="hint" id="erase-files-hint">${files.length > 0
    ? `${count(files.length, 'export file')} may still hold what was erased, until ${files.length === 1 ? 'it expires' : 'they expire'}. Copies that somebody has downloaded are out of reach.`
    : 'No export file on the service holds what was erased.'}</p>
    <ol id="erase-files" class="left-files">${files.map((job) => html`<${LeftFile} key=${job.id} job=${job} />`)}</ol>
  </div>`}`;

function LeftFile({ job }) {
  const [state, setState] = useState('');
  const [done, setDone] = useState(false);
  const name = useRef();
  const title = `${resourceNames[job.resource]}, ${job.format === 'csv' ? 'CSV' : 'NDJSON'}`;
  const [text, route, result] = isActive(job) ? ['Cancel the export', 'cancel_export_job', 'cancelled'] : ['Delete the file', 'delete_export_job', 'deleted'];
  const act = async () => {
    try {
      const { data } = await insist(() => call('POST', route, { body: { id: job.id } }), (error, wait) => setState(failureText(error, false, wait)));
      exporter.take([data]);
      setState(result);
      setDone(true);
      announce(`${title}: ${result}`);
      name.current.focus();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setState(finalText(error));
    }
  };
  return html`<li><strong tabindex="-1" ref=${name}>${title}</strong><span>made <${Time} exact at=${job.created_at} /></span>
    <span class="hint">${state || (isActive(job) ? 'is being written' : html`expires <${Time} exact at=${job.file_expires_at} />`)}</span>
    ${!done && html`<${Button} onClick=${act}>${text}<span class="unseen">: ${title}, ${instant(job.created_at)}</span><//>`}
  </li>`;
}
