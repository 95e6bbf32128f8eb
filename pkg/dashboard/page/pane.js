// The record that is open beside the list: what is known of it, and what the user does with it.

const eventsOfEntity = 10; // only a few, because each event counts toward the records limit of the address
const mostCounted = 100; // maximum number of further events that are read to count them

const revisionOf = ({ revision }) => Number(JSON.stringify(revision));

class RecordPane {
  resource = ''; id = ''; record = null; message = ''; events = null;
  making; // the draft of a new record
  editing = null; // the attribute where the user began to edit, while the form is open
  conflict = null; // { base, mine, theirs }: attributes, and the record that somebody else has stored
  saved = null; // { changes, back, revision }: what the last save changed, and the attributes before it
  failure = '';
  #run; #onSignedOut;

  constructor(onSignedOut) {
    this.#onSignedOut = onSignedOut;
    this.eraser = new Eraser(this);
  }

  get isOpen() { return Boolean(this.id || this.making); }

  /** Shows the record that a query names. Returns the id of the record that this closes, if any. */
  show(query) {
    const resource = query.new ?? query.of ?? query.resource;
    const before = this.id;
    if (query.new) {
      if (!this.making) this.#clear({ making: { resource: Object.hasOwn(lists, resource) ? resource : 'event', entity: query.for ?? '', type: query.type ?? '' } });
    } else if (!query.id) {
      if (this.isOpen) this.clear();
      return before;
    } else if (query.id !== this.id || resource !== this.resource) {
      this.#clear({ resource, id: query.id });
      this.#open();
    }
    return '';
  }

  /** Discards the record. */
  clear() { this.#clear({}); }

  #clear({ resource = '', id = '', making }) {
    this.#run?.abort();
    this.eraser.reset();
    Object.assign(this, { resource, id, making });
    this.forget();
  }

  /** Removes all that the service returned about the record, also from behind the buttons. */
  forget() {
    Object.assign(this, { record: null, events: null, editing: null, conflict: null, saved: null, message: '', failure: '', ready: false });
    drawAll();
    /^/.test(''); // the browser keeps the text of the last match, as RegExp.input
  }

  /** Runs a task that sends requests, and shows how it fails. Returns whether it has succeeded. */
  async task(run) {
    this.#run?.abort();
    const { signal } = this.#run = new AbortController();
    this.failure = '';
    this.busy = true;
    draw();
    try {
      await run(signal, (error, wait) => {
        if (signal.aborted) return;
        this.failure = error ? failureText(error, false, wait) : '';
        draw();
      });
      if (!signal.aborted) this.failure = '';
      return !signal.aborted;
    } catch (error) {
      if (signal.aborted) return false;
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401) this.#onSignedOut(error);
      else this.failure = [finalText(error), ...error.errors.map(({ field, detail }) => `${field} ${detail}.`)].join(' ');
      return false;
    } finally {
      if (!signal.aborted) this.busy = false;
      draw();
    }
  }

  #open() {
    if (!isID(this.id)) {
      this.message = `This is not an id: an id ${idRule}.`;
      this.ready = true;
      return undefined;
    }
    return this.task((signal, onFailure) => this.#read(signal, onFailure));
  }

  /** Reads the record and, for an entity, its latest events. */
  async #read(signal, onFailure) {
    const { resource, id } = this;
    const read = (path) => insist(() => call('GET', path, { signal, exact: true }), onFailure, signal);
    try {
      this.record = (await read(recordPath(resource, id))).data;
    } catch (error) {
      if (error.status !== 404) throw error;
      this.forget();
      this.message = `No ${resource} has this id${resource === 'entity' ? ' now. Events may still refer to it' : ''}.`;
    }
    this.ready = true;
    draw();
    if (resource !== 'entity') return;
    const events = { entity_id: id, to: serviceNow().toISOString() };
    const { data } = await read(withQuery('event', { ...events, limit: eventsOfEntity }));
    signal.throwIfAborted();
    this.events = { latest: data.data, n: data.data.length, more: Boolean(data.next_cursor) };
    onFailure();
    draw();
    if (!data.next_cursor) return;
    const rest = await read(withQuery('event', { ...events, limit: mostCounted, cursor: data.next_cursor }));
    this.events = { ...this.events, n: data.data.length + rest.data.data.length, more: Boolean(rest.data.next_cursor) };
  }

  // Changes

  edit(attribute = '') {
    Object.assign(this, { editing: attribute, saved: null, failure: '' });
    draw();
  }

  cancel() {
    this.editing = null;
    draw();
    $('record-title')?.focus();
  }

  /** Stores the attributes of the entity if nobody else has changed it since base was read. */
  async save(attributes, base = this.record, back = base.attributes) {
    const { id } = this;
    if (changesBetween(base.attributes, attributes).length === 0) return this.takeTheirs(base);
    return this.task(async (signal, onFailure) => {
      const stored = await this.#store(base, attributes, signal, onFailure);
      if (!stored) return;
      signal.throwIfAborted();
      Object.assign(this, { record: stored, editing: null, conflict: null, saved: { changes: changesBetween(base.attributes, stored.attributes), back, revision: revisionOf(stored) } });
      records.replace(id, stored);
      announce('Saved');
      $('record-title')?.focus();
    });
  }

  /** Returns the stored entity, or undefined if somebody else has changed it; then the user is asked. */
  async #store(base, attributes, signal, onFailure) {
    const { id } = this;
    const condition = { id, if_revision: base.revision };
    const [path, body] = isPatchable(base.attributes, attributes)
      ? ['update_entity', { ...condition, attributes: patchOf(base.attributes, attributes) }]
      : ['upsert_entities', { entities: [{ ...condition, type: base.type, attributes, replace: true }] }];
    try {
      const { data } = await insist(() => call('POST', path, { body, exact: true }), onFailure, signal); // without the signal: it may be stored even if nobody waits
      return data.results ? data.results[0].entity : data;
    } catch (error) {
      if (error.status !== 412) throw error;
      const theirs = await this.#current(signal, onFailure);
      // If a response was lost, the request was repeated, and the revision is that of this change.
      if (theirs && revisionOf(theirs) === revisionOf(base) + 1 && changesBetween(theirs.attributes, attributes).length === 0) return theirs;
      this.conflict = { base: base.attributes, mine: attributes, theirs, type: base.type };
      this.saved = null;
      announce('Somebody else has changed this entity');
      draw();
      $('conflict-title')?.focus();
      return undefined;
    }
  }

  async #current(signal, onFailure) {
    try {
      return (await insist(() => call('GET', recordPath('entity', this.id), { signal, exact: true }), onFailure, signal)).data;
    } catch (error) {
      if (error.status !== 404) throw error;
      return null;
    }
  }

  /** Stores the attributes that were before the last save. */
  undo() { return this.save(this.saved.back, this.record, null); }

  /** Takes what somebody else has stored, and discards the user's changes. */
  takeTheirs(theirs = this.conflict.theirs) {
    Object.assign(this, { record: theirs, conflict: null, editing: null, saved: null });
    if (theirs) records.replace(this.id, theirs);
    else this.#gone();
    draw();
    $('record-title')?.focus();
  }

  #gone(message = 'This entity has been deleted.') {
    const { id } = this;
    this.forget();
    this.message = message;
    this.ready = true;
    records.replace(id);
  }

  create(path, body) {
    return this.task(async (signal, onFailure) => {
      const { data } = await insist(() => call('POST', path, { body, exact: true }), onFailure, signal);
      this.making = undefined;
      const resource = path === 'create_event' ? 'event' : 'entity';
      announce(`The ${nouns[resource]} is stored`);
      history.replaceState({ ...history.state, ...newWalk() }, '', queryLink({ ...records.query, new: '', for: '', id: data.id, of: resource, page: '' }));
      records.show({ focus: true, again: true });
    });
  }

  /** Deletes the entity, unless somebody has changed it since it was read. Its events stay. */
  remove() {
    return this.task(async (signal, onFailure) => {
      try {
        await insist(() => call('POST', 'delete_entity', { body: { id: this.id, if_revision: this.record.revision } }), onFailure, signal);
      } catch (error) {
        if (error.status !== 412) throw error;
        const theirs = await this.#current(signal, onFailure);
        if (theirs) {
          this.record = theirs;
          records.replace(this.id, theirs);
          this.failure = 'Somebody has changed this entity meanwhile, so it was not deleted. Look at it again.';
          throw new ApiError({ status: 409, detail: this.failure });
        }
      }
      this.#gone('Deleted. Its events remain, and the id can be used again.');
      announce('Deleted');
      $('record-title')?.focus();
    });
  }
}
