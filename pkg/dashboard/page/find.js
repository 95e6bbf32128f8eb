// Finds records by what a person knows about them: an id, or the value of an indexed attribute.

const mostFound = 10; // maximum number of records found per attribute
const indexAge = 60_000; // milliseconds for which the page keeps the list of indexed attributes

/** The indexes of entities, as GET /entity_index returns them, whether events are indexed by name, and when this was read. */
let indexes = [], namesIndexed = false, indexesAt = -Infinity;

/** Reads which indexes there are, unless they were read recently. A service without the route entity_index has no indexes. */
async function readIndexes(onFailure, signal) {
  if (Date.now() - indexesAt < indexAge) return;
  try {
    const { data } = await insist(() => call('GET', 'entity_index', { signal }), onFailure, signal);
    takeIndexes(data.data);
  } catch (error) {
    if (error.status !== 404) throw error;
    takeIndexes([]);
  }
}

/** Keeps what GET /entity_index has returned. */
function takeIndexes(all) {
  const ready = all.filter(({ state }) => state === 'ready');
  indexes = ready.filter(({ resource }) => resource === 'entity');
  namesIndexed = indexes.length < ready.length;
  indexesAt = Date.now();
}

/** How a value of an attribute is found, by what the search box says of it. */
const ways = {
  begins: { hint: 'the beginning of a text', fits: () => true },
  beginsFolded: { hint: 'the beginning of a text, in upper or lower case', fits: () => true },
  text: { hint: 'a whole text', fits: () => true },
  textFolded: { hint: 'a whole text, in upper or lower case', fits: () => true },
  number: { hint: 'a number', fits: (text) => /^-?\d+(\.\d+)?$/.test(text) },
  boolean: { hint: 'true or false', fits: (text) => text === 'true' || text === 'false' },
};

/**
 * Returns what can be searched: the first attribute of each index, as { type, attribute, way }. An
 * index that covers further attributes takes only whole values of the first.
 */
function searchable() {
  const found = new Map();
  for (const { type, attributes: [{ name, value_type: valueType, fold }, ...others] } of indexes) {
    const way = (valueType === 'text' && others.length === 0 ? 'begins' : valueType) + (fold ? 'Folded' : '');
    const key = JSON.stringify([type, name]);
    if (others.length === 0 || !found.has(key)) found.set(key, { type, attribute: name, way });
  }
  return [...found.values()];
}

/** Says which attributes are searched, and for what: "the beginning of a text (person email, person name), a number (person born)". */
function searched() {
  const all = searchable();
  return Object.entries(ways).map(([way, { hint }]) => [hint, all.filter((one) => one.way === way).map(({ type, attribute }) => `${type} ${attribute}`)])
    .filter(([, names]) => names.length > 0)
    .map(([hint, names]) => `${hint} (${names.join(', ')})`).join(', ');
}

/** Says what the search box accepts. */
const findHint = () => (indexes.length > 0 ? `The id of an entity or an event, ${searched()}.` : 'The id of an entity or an event.');

/** Returns the query for the entities whose attribute matches a text. */
const valueQuery = ({ type, attribute, way }, text) => ({ type, [`attributes.${attribute}${way.startsWith('begins') ? '[prefix]' : ''}`]: text, limit: mostFound });

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
  for (const query of searchable().filter(({ way }) => ways[way].fits(text)).map((one) => valueQuery(one, text))) {
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

/** Says why nothing was found. */
const whyNothing = (text, more) => (more ? 'The search ended early, because many values have changed lately. Enter more of the value.' : [
  isID(text) ? 'No entity and no event has this id.' : '',
  indexes.length > 0 ? `No entity has it as ${searched()}.` : 'Only ids can be found, because no attribute is indexed. An operator indexes one with: sluice indexes add TYPE ATTRIBUTE',
].filter(Boolean).join(' '));

/** The records found for a text: { text, found, more, ready }. */
function Found({ text, found, more, ready }) {
  const shown = count(found.length, 'record');
  const title = !ready ? 'Looking for ' : found.length === 0 ? 'Nothing found for ' : `${more ? `The first ${shown}` : shown} for `;
  return html`<div id="found">
    <div class="bar"><h2 id="found-title" tabindex="-1">${title}<${Stored} text=${text} />${ready ? '' : '…'}</h2>
      <${Link} class="button quiet" query=${{}}>Show the latest events<//></div>
    ${found.length > 0 && html`<ol id="found-list" class="rows">${found.map(({ resource, record }) => html`<${Row} resource=${resource} record=${record} at=${record.updated_at ?? record.occurred_at} />`)}</ol>`}
    ${!ready && html`<${Skeleton} rows=${4} />`}
    ${ready && found.length === 0 && html`<${Empty} icon="search" id="found-none">${whyNothing(text, more)}<//>`}
  </div>`;
}

/** A record in a short list. */
const Row = ({ resource, record, at, keep }) => html`<li>
  <strong><${Link} keep=${keep} query=${keep ? { ...readQuery(), id: record.id, of: resource, new: undefined } : { resource, id: record.id }}><${Stored} text=${resource === 'event' ? record.name : record.id} /><//></strong>
  <span class="about"><${Stored} text=${resource === 'event' ? record.entity_id ?? '' : record.type} /></span>
  <code><bdi>${visibleJSON(record.attributes)}</bdi></code>
  <${Time} at=${at} />
</li>`;
