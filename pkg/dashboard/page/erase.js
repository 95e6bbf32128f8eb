// The part of a record's view that erases an entity and its events.

const erasureInterval = 1000; // milliseconds between two polls of the job
const mostJobs = 200; // export jobs per request

class Eraser {
  #id = ''; #run; #onErased; #files;

  /**
   * onErased is called when the service has accepted an erasure: the page must then
   * forget the record. onFile receives an export job whose file was deleted or that
   * was cancelled.
   */
  constructor(onErased, onFile) {
    this.#onErased = onErased;
    this.#files = new LeftFiles(onFile);
    $('erase-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
  }

  /** Offers to erase an entity if the caller may erase it. */
  offer(resource, id) {
    this.#run?.abort();
    this.#id = id;
    $('erase').hidden = resource !== 'entity' || !mayErase();
    $('erase').open = false;
    $('erase-id').value = '';
    this.#fault('');
    notice($('erase-state'), '');
    this.#files.clear();
    $('erase-what').replaceChildren('This removes the entity ', stored(id), ' and all events that refer to it now. Nobody can bring them back.');
  }

  #fault(text) {
    say($('erase-error'), text);
    if (text) $('erase-id').setAttribute('aria-invalid', 'true');
    else $('erase-id').removeAttribute('aria-invalid');
    if (text) $('erase-id').focus();
  }

  async #submit() {
    if ($('erase-start').getAttribute('aria-disabled')) return;
    if ($('erase-id').value.trim() !== this.#id) return this.#fault('This is not the id of this entity. Nothing was erased.');
    this.#fault('');
    const id = this.#id;
    const { signal } = this.#run = new AbortController();
    const onFailure = (error, wait) => this.#tell(failureText(error, false, wait), 'wait');
    $('erase-start').setAttribute('aria-disabled', 'true');
    try {
      const since = await bornAt(id, signal, onFailure);
      await insist(() => call('POST', 'delete_entity', { body: { id, events: true }, signal }), onFailure, signal);
      $('erase').hidden = true;
      $('erase-id').value = '';
      this.#onErased();
      this.#tell('Erasing… The entity is deleted; its events follow.', 'wait');
      $('record-title').focus();
      if (await this.#follow(id, signal, onFailure)) await this.#files.show(id, since, signal, onFailure);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#tell(finalText(error), 'error');
    } finally {
      $('erase-start').removeAttribute('aria-disabled');
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
    $('erase-state').dataset.tone = tone;
    notice($('erase-state'), text);
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

/** The export files that may still hold what was erased. */
class LeftFiles {
  #onFile;

  constructor(onFile) { this.#onFile = onFile; }

  clear() {
    $('erase-files-part').hidden = true;
    $('erase-files').replaceChildren();
  }

  /** Lists the files, each with a button that deletes it. since is from bornAt. */
  async show(id, since, signal, onFailure) {
    const jobs = [];
    for (let cursor; ;) {
      const path = withQuery('export_job', { limit: mostJobs, cursor });
      const { data: { data: page, next_cursor: next } } = await insist(() => call('GET', path, { signal }), onFailure, signal);
      jobs.push(...page.filter((job) => mayHold(job, id, since)));
      if (!next || page.at(-1)?.created_at < since) break; // the newest are first
      cursor = next;
    }
    $('erase-files').replaceChildren(...jobs.map((job) => this.#row(job)));
    say($('erase-files-hint'), jobs.length > 0
      ? `${count(jobs.length, 'export file')} may still hold what was erased, until ${jobs.length === 1 ? 'it expires' : 'they expire'}. Copies that somebody has downloaded are out of reach.`
      : 'No export file on the service holds what was erased.');
    $('erase-files-part').hidden = false;
  }

  #row(job) {
    const title = `${resourceNames[job.resource]}, ${job.format === 'csv' ? 'CSV' : 'NDJSON'}`;
    const state = make('span', { class: 'hint' }, ...(isActive(job) ? ['is being written'] : ['expires ', timeElement(job.file_expires_at)]));
    const [text, route, done] = isActive(job) ? ['Cancel the export', 'cancel_export_job', 'cancelled'] : ['Delete the file', 'delete_export_job', 'deleted'];
    const button = makeButton(text, async () => {
      if (button.getAttribute('aria-disabled')) return;
      button.setAttribute('aria-disabled', 'true');
      try {
        const { data } = await insist(() => call('POST', route, { body: { id: job.id } }), (error, wait) => say(state, failureText(error, false, wait)));
        this.#onFile(data);
        say(state, done);
        announce(`${title}: ${done}`);
        name.focus();
        button.remove();
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        say(state, finalText(error));
      } finally {
        button.removeAttribute('aria-disabled');
      }
    });
    button.append(make('span', { class: 'unseen' }, `: ${title}, ${instant(job.created_at)}`));
    const name = make('strong', { tabindex: '-1' }, title);
    return make('li', {}, name, make('span', {}, 'made ', timeElement(job.created_at)), state, button);
  }
}

/** Returns whether the file of an export job exists, or will, and may hold an entity or its events that came to be at a time. */
function mayHold(job, id, since) {
  const entity = job.filters?.entity_id;
  return (isActive(job) || (job.status === 'succeeded' && !isGone(job))) && job.created_at >= since && (!entity || entity === id);
}
