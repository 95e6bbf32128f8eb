// The view of one record and, for an entity, of its events.

const eventsOfEntity = 10; // only a few, because each event counts toward the records limit of the address
const mostCounted = 100; // maximum number of further events that are read to count them

/**
 * Creates a link to a record or a list in this page. A click does not load the
 * page again.
 */
function queryAnchor(query, ...children) {
  return make('a', { href: queryLink({ address: readQuery().address, ...query }), 'data-query': '' }, ...children);
}

/** Creates the row of a record in a list. */
function recordRow(resource, record, time) {
  const name = resource === 'event' ? record.name : record.id;
  const about = resource === 'event' ? record.entity_id ?? '' : record.type;
  return make('li', {},
    timeElement(time),
    make('strong', {}, queryAnchor({ resource, id: record.id }, stored(name))),
    make('span', {}, stored(about)),
    make('code', {}, make('bdi', {}, visibleJSON(record.attributes))));
}

/** The view of one record, which replaces the list. */
class RecordView {
  #shown = ''; #eraser; #exportEvents;

  /**
   * exportEvents receives the id of an entity and starts an export of its events. See
   * Eraser for the others.
   */
  constructor(exportEvents, onErased, onFile) {
    this.#exportEvents = exportEvents;
    this.#eraser = new Eraser(() => {
      this.#forget();
      onErased();
    }, onFile);
  }

  /** Reads and shows a record and, for an entity, its latest events. */
  async show(resource, id, signal, onFailure) {
    if (this.#shown !== `${resource} ${id}`) this.#clear(resource, id);
    this.#shown = `${resource} ${id}`;
    const read = (path) => insist(() => call('GET', path, { signal, exact: true }), onFailure, signal);
    try {
      const { data } = await read(recordPath(resource, id));
      this.#draw(resource, data);
    } catch (error) {
      if (error.status !== 404) throw error;
      this.#forget();
      this.#say(`No ${resource} has this id${resource === 'entity' ? ' now. Events may still refer to it' : ''}.`);
    }
    if (resource !== 'entity') return;
    const events = { entity_id: id, to: serviceNow().toISOString() };
    const { data } = await read(withQuery('event', { ...events, limit: eventsOfEntity }));
    this.#drawEvents(id, data);
    onFailure();
    if (!data.next_cursor) return;
    const rest = await read(withQuery('event', { ...events, limit: mostCounted, cursor: data.next_cursor }));
    this.#sayCount(data.data.length + rest.data.data.length, Boolean(rest.data.next_cursor));
  }

  /** Shows that an id is not valid. */
  refuse(resource, id) {
    this.#clear(resource, id);
    this.#say(`This is not an id: an id ${idRule}.`);
    $('erase').hidden = true;
  }

  /** Discards the record. */
  clear() { this.#clear('event', ''); }

  #clear(resource, id) {
    this.#shown = '';
    $('record-title').replaceChildren(resource === 'event' ? 'Event ' : 'Entity ', stored(id));
    this.#forget();
    $('record-actions').replaceChildren(copyButton(id, 'the id', 'Copy id'));
    this.#eraser.offer(resource, id);
    this.#say('');
  }

  /** Removes all that the service returned about the record, also from behind the buttons. */
  #forget() {
    for (const part of ['record-facts', 'record-json', 'record-actions', 'record-events', 'record-events-actions']) $(part).replaceChildren();
    for (const part of ['record-events-count', 'record-events-hint']) say($(part), '');
    for (const part of ['record-json', 'record-events-part']) $(part).hidden = true;
    /^/.test(''); // the browser keeps the text of the last match, as RegExp.input
  }

  #say(text) {
    $('record-message').hidden = !text;
    say($('record-message'), text);
  }

  #draw(resource, record) {
    const fact = (name, value) => make('div', {}, make('dt', {}, name), make('dd', {}, value));
    $('record-facts').replaceChildren(...(resource === 'event'
      ? [
        fact('Name', stored(record.name)),
        fact('Entity', record.entity_id ? queryAnchor({ resource: 'entity', id: record.entity_id }, stored(record.entity_id)) : 'none'),
        fact('Occurred', timeElement(record.occurred_at)),
        fact('Created', timeElement(record.created_at)),
      ]
      : [
        fact('Type', queryAnchor({ resource: 'entity', type: record.type }, stored(record.type))),
        fact('Revision', visibleJSON(record.revision)),
        fact('Changed', timeElement(record.updated_at)),
        fact('Created', timeElement(record.created_at)),
      ]));
    const json = visibleJSON(record, 2);
    $('record-json').replaceChildren(make('bdi', {}, json));
    $('record-json').hidden = false;
    $('record-actions').replaceChildren(copyButton(record.id, 'the id', 'Copy id'), copyButton(json, 'the record', 'Copy JSON'),
      copyButton(commandOf(recordPath(resource, record.id)), 'the command', 'Copy as curl'));
  }

  #drawEvents(id, { data: events, next_cursor: next }) {
    $('record-events-part').hidden = false;
    $('record-events').replaceChildren(...events.map((e) => recordRow('event', e, e.occurred_at)));
    this.#sayCount(events.length, Boolean(next));
    say($('record-events-hint'), events.length > 0 ? `The latest ${count(events.length, 'event')} up to now.` : 'No event up to now refers to this entity.');
    if (events.length === 0) $('record-events-actions').replaceChildren();
    else $('record-events-actions').replaceChildren(queryAnchor({ resource: 'event', entity_id: id }, 'All events'), makeButton('Export these events', () => this.#exportEvents(id)));
  }

  #sayCount(n, more) {
    say($('record-events-count'), more ? `(more than ${number(n)})` : `(${number(n)})`);
  }
}

/** Returns the path of a record in the API. */
function recordPath(resource, id) {
  return `${resource}/${encodeURIComponent(id)}`;
}
