// Finds records by what a person knows about them: an id, or the beginning of the value of an
// indexed attribute.

const mostFound = 10; // maximum number of records found per attribute
const indexAge = 60_000; // milliseconds for which the page keeps the list of indexed attributes

/** The indexed attributes, as { type, attribute, value_type, state }, and when they were read. */
let indexes = [], indexesAt = -Infinity;

/** Reads which attributes are indexed, unless they were read recently. A service without the route entity_index has no indexes. */
async function readIndexes(onFailure, signal) {
  if (Date.now() - indexesAt < indexAge) return;
  try {
    const { data } = await insist(() => call('GET', 'entity_index', { signal }), onFailure, signal);
    indexes = data.data.filter((index) => index.state === 'ready');
  } catch (error) {
    if (error.status !== 404) throw error;
    indexes = [];
  }
  indexesAt = Date.now();
}

const indexNames = () => indexes.map(({ type, attribute }) => `${type} ${attribute}`).join(', ');

/** Says what the search box accepts. */
function showIndexes() {
  say($('find-hint'), indexes.length > 0 ? `The id of an entity or an event, or the beginning of a value: ${indexNames()}.` : 'The id of an entity or an event.');
}

/** Returns the query for the entities whose attribute matches a text, or undefined if none can match. */
function valueQuery({ type, attribute, value_type: valueType }, text) {
  const query = (operator) => ({ type, [`attributes.${attribute}${operator}`]: text, limit: mostFound });
  if (valueType === 'text') return query('[prefix]');
  const fits = valueType === 'number' ? /^-?\d+(\.\d+)?$/.test(text) : text === 'true' || text === 'false';
  return fits ? query('') : undefined;
}

/**
 * Returns the records found for a text, as { found: [{ resource, record }], more }. If the text is
 * the id of a record, only that record is found. more says whether there may be more records.
 */
async function findRecords(text, signal, onFailure) {
  const read = (path) => insist(() => call('GET', path, { signal, exact: true }), onFailure, signal);
  if (isID(text)) {
    for (const resource of ['entity', 'event']) {
      try {
        const { data } = await read(recordPath(resource, text));
        return { found: [{ resource, record: data }], more: false };
      } catch (error) {
        if (error.status !== 404) throw error;
      }
    }
  }
  await readIndexes(onFailure, signal);
  const found = new Map();
  let more = false;
  for (const query of indexes.map((index) => valueQuery(index, text)).filter(Boolean)) {
    try {
      const { records, next } = await readPage('entity', query, signal, onFailure); // a page can be empty if values have changed
      for (const record of records) found.set(record.id, { resource: 'entity', record });
      more ||= Boolean(next);
    } catch (error) {
      if (error.status !== 400 && error.status !== 409) throw error; // 400 and 409: the index has been removed
      indexesAt = -Infinity;
    }
  }
  return { found: [...found.values()], more };
}

/** Shows the records found for a text, or says that there are none. */
function drawFound(text, found, more = false) {
  const shown = count(found.length, 'record');
  $('found-title').replaceChildren(found.length > 0 ? `${more ? `The first ${shown}` : shown} for ` : 'Nothing found for ', stored(text));
  $('found-list').replaceChildren(...found.map(({ resource, record }) => recordRow(resource, record, record.updated_at)));
  $('found-none').hidden = found.length > 0;
  say($('found-none'), more ? 'The search ended early, because many values have changed lately. Enter more of the value.' : [
    isID(text) ? 'No entity and no event has this id.' : '',
    indexes.length > 0 ? `No value begins with it: ${indexNames()}.` : 'Only ids can be found, because no attribute is indexed. An operator indexes one with: sluice indexes add TYPE ATTRIBUTE',
  ].filter(Boolean).join(' '));
}
