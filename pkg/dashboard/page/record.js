// The view of one record and, for an entity, of its events.

const eventsOfEntity = 10; // only a few, because each event counts toward the records limit of the address

/**
 * Creates a link to a record or a list in this page. A click does not load the
 * page again.
 */
function placeAnchor(place, ...children) {
  return make('a', { href: placeLink({ address: readPlace().address, ...place }), 'data-place': '' }, ...children);
}

/** Creates the row of a record in a list. */
function recordRow(kind, record, time) {
  const name = kind === 'event' ? record.name : record.id;
  const about = kind === 'event' ? record.entity_id ?? '' : record.type;
  return make('li', {},
    make('time', { datetime: time }, instant(time)),
    make('strong', {}, placeAnchor({ kind, id: record.id }, stored(name))),
    make('span', {}, stored(about)),
    make('code', {}, make('bdi', {}, visibleJSON(record.attributes))));
}

/** The view of one record, which replaces the list. */
class RecordView {
  /** Reads and shows a record and, for an entity, its latest events. */
  async show(kind, id, signal, onFailure) {
    this.#clear(kind, id);
    const read = (path) => insist(() => call('GET', path, { signal, exact: true }), onFailure);
    try {
      const { data } = await read(recordPath(kind, id));
      this.#draw(kind, data);
    } catch (error) {
      if (error.status !== 404) throw error;
      this.#say(`No ${kind} has this id${kind === 'entity' ? ' now. Events may still refer to it' : ''}.`);
    }
    if (kind !== 'entity') return;
    const { data } = await read(withQuery('event', { entity_id: id, to: serviceNow().toISOString(), limit: eventsOfEntity }));
    this.#drawEvents(id, data);
  }

  #clear(kind, id) {
    $('record-title').replaceChildren(kind === 'event' ? 'Event ' : 'Entity ', stored(id));
    $('record-actions').replaceChildren(copyButton(id, 'the id', 'Copy id'));
    for (const part of ['record-facts', 'record-json', 'record-command', 'record-events']) $(part).replaceChildren();
    $('record-events-part').hidden = true;
    this.#say('');
  }

  #say(text) {
    $('record-message').hidden = !text;
    say($('record-message'), text);
  }

  #draw(kind, record) {
    const fact = (name, value) => make('div', {}, make('dt', {}, name), make('dd', {}, value));
    const time = (text) => make('time', { datetime: text }, instant(text));
    $('record-facts').replaceChildren(...(kind === 'event'
      ? [
        fact('Name', stored(record.name)),
        fact('Entity', record.entity_id ? placeAnchor({ kind: 'entity', id: record.entity_id }, stored(record.entity_id)) : 'none'),
        fact('Occurred', time(record.occurred_at)),
        fact('Created', time(record.created_at)),
      ]
      : [
        fact('Type', placeAnchor({ kind: 'entity', type: record.type }, stored(record.type))),
        fact('Changed', time(record.updated_at)),
        fact('Created', time(record.created_at)),
      ]));
    const json = visibleJSON(record, 2);
    $('record-json').replaceChildren(make('bdi', {}, json));
    $('record-actions').append(copyButton(json, 'the record', 'Copy JSON'));
    $('record-command').replaceChildren(apiCommand(recordPath(kind, record.id)));
  }

  #drawEvents(id, { data: events, next_cursor: next }) {
    $('record-events-part').hidden = false;
    $('record-events').replaceChildren(...events.map((e) => recordRow('event', e, e.occurred_at)));
    say($('record-events-hint'), events.length > 0 ? 'The latest events up to now.' : 'No event up to now refers to this entity.');
    if (next) $('record-events-hint').append(' ', placeAnchor({ kind: 'event', entity_id: id }, 'All events of this entity'));
  }
}

/** Returns the path of a record in the API. */
function recordPath(kind, id) {
  return `${kind}/${encodeURIComponent(id)}`;
}
