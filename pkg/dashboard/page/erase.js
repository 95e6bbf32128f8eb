// The part of a record's view that erases an entity and its events.

const erasureInterval = 1000; // milliseconds between two polls of the job

class Eraser {
  #id = ''; #run;

  constructor() {
    $('erase-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
  }

  /** Offers to erase an entity if the caller may erase it. */
  offer(kind, id) {
    this.#run?.abort();
    this.#id = id;
    $('erase').hidden = kind !== 'entity' || !mayErase();
    $('erase').open = false;
    $('erase-id').value = '';
    this.#fault('');
    notice($('erase-state'), '');
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
      await insist(() => call('POST', 'delete_entity', { body: { id, events: true }, signal }), onFailure, signal);
      $('erase').hidden = true;
      this.#tell('Erasing… The entity is deleted; its events follow.', 'wait');
      $('record-title').focus();
      await this.#follow(id, signal, onFailure);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#tell(finalText(error), 'error');
    } finally {
      $('erase-start').removeAttribute('aria-disabled');
    }
  }

  /** Shows the progress of an erasure job until the job ends. */
  async #follow(id, signal, onFailure) {
    for (;;) {
      const { data: job } = await insist(() => call('GET', `erasure_job/${encodeURIComponent(id)}`, { signal }), onFailure, signal);
      const erased = count(job.events_erased, 'event');
      if (job.status === 'succeeded') return this.#tell(`Erased: the entity and ${erased}.`, 'done');
      if (job.status === 'failed') return this.#tell(sentence(job.error ?? 'the erasure failed'), 'error');
      this.#tell(`Erasing… ${job.status === 'queued' ? 'The job waits for its turn' : `${erased} so far`}.`, 'wait');
      await sleep(erasureInterval);
      signal.throwIfAborted();
    }
  }

  #tell(text, kind) {
    $('erase-state').dataset.kind = kind;
    notice($('erase-state'), text);
  }
}
