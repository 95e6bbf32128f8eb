// The lists of records: their names, their filters, and how a page of a list is read.

const pageSizes = [25, 50, 100, 200]; // few at first, because each record counts toward the records limit of the address
const mostSkipped = 20; // maximum number of successive pages that are skipped because no record matches; each page costs a request
const mostPages = 20; // last page that a link can open, because the pages before it must also be read
const epoch = '1970-01-01T00:00:00Z';

/**
 * The lists, by resource and order. Each list has its title, its filters, the direction that it
 * has unless dir says otherwise, and its parameters in the API. until is the time at which a walk
 * through the list started. It excludes events with later times, which would otherwise come first.
 */
const lists = {
  event: {
    occurred: {
      title: 'Latest events', hint: 'To see events dated later than now, set Before.', first: 'desc', filters: ['entity_id', 'name', 'from', 'to'],
      parameters: ({ entity_id, name, from, to, dir }, until) => ({ entity_id, name, from, to: to || until, order: dir === 'asc' ? dir : '' }),
    },
    created: {
      title: 'Latest created events', first: 'desc', filters: ['from'],
      parameters: ({ from, dir }) => ({ created_since: from || epoch, order: dir === 'asc' ? '' : 'desc' }),
    },
  },
  entity: {
    changed: {
      title: 'Latest changes', first: 'desc', filters: ['from'],
      parameters: ({ from, dir }) => ({ updated_since: from || epoch, order: dir === 'asc' ? '' : 'desc' }),
    },
    id: { title: 'Entities by id', first: 'asc', filters: ['type'], parameters: ({ type }) => ({ type }) },
  },
};

/** The list of the entities of a type in the order of an indexed attribute, or of those that match conditions. */
const indexedList = {
  title: 'Entities by value', first: 'asc', filters: ['type'],
  parameters: (query) => ({
    type: query.type, ...conditionsOf(query), ...(query.order && !isConditioned(query, query.order) && wholeIndex(query.type, query.order)),
    order: query.dir === 'desc' ? 'desc' : '',
  }),
};

const plurals = { event: 'events', entity: 'entities' };
const nouns = { event: 'event', entity: 'entity' };
const resourceNames = { event: 'Events', entity: 'Entities' };

/** Returns the conditions on attributes in a query, which have the names that they have in the API. */
const conditionsOf = (query) => Object.fromEntries(Object.entries(query).filter(([name]) => name.startsWith(attributePrefix)));

/** Returns the attribute of a condition, and its operator, which is '' for equality. */
const partsOf = (condition) => condition.match(/^attributes\.(.*?)(?:\[(gt|gte|lt|lte|prefix)\])?$/s).slice(1).map((part) => part ?? '');

const isConditioned = (query, order) => Object.keys(conditionsOf(query)).some((name) => attributePrefix + partsOf(name)[0] === order);

/** Returns the condition that all values of an indexed attribute fulfill. */
function wholeIndex(type, order) {
  const valueType = indexes.filter((index) => index.type === type).flatMap((index) => index.attributes).find(({ name }) => attributePrefix + name === order)?.value_type;
  return { [`${order}[gte]`]: valueType === 'number' ? '-9e125' : '' };
}

/** Returns a query with its resource, and with an order that the resource has and that accepts the filters. */
function normalized(query) {
  const resource = Object.hasOwn(lists, query.resource) ? query.resource : 'event';
  const conditions = Object.keys(conditionsOf(query));
  if (resource === 'entity' && query.type && (conditions.length > 0 || query.order?.startsWith(attributePrefix))) {
    return { ...query, resource, order: query.order?.startsWith(attributePrefix) ? query.order : attributePrefix + partsOf(conditions.at(-1))[0] };
  }
  const orders = Object.keys(lists[resource]);
  const takes = (order) => ['type', 'entity_id', 'name', 'to'].every((filter) => !query[filter] || lists[resource][order].filters.includes(filter) || orders.every((o) => !lists[resource][o].filters.includes(filter)));
  return { ...query, resource, order: [query.order, ...orders].find((order) => orders.includes(order) && takes(order)) ?? orders[0] };
}

/** Returns the list of a normalized query. */
const listOf = ({ resource, order }) => lists[resource][order] ?? indexedList;

/** Returns the parameters of a list that a query has, without those that only say which record is open. */
function listQuery(query) {
  const { find, id, of, new: made, for: whose, view, address, workspace, by, thing, ...rest } = query;
  return rest;
}

/** Example requests that create a first record, for the empty states. */
const firstRecords = {
  event: ['create_event', { name: 'order_paid', entity_id: 'customer-1', attributes: { amount: 12.5 } }],
  entity: ['create_entity', { id: 'customer-1', type: 'customer', attributes: { plan: 'pro' } }],
};

/**
 * Returns the state of a new walk through a list. The last element of cursors is
 * the cursor of the current page. The first page has no cursor.
 */
const newWalk = () => ({ until: serviceNow().toISOString(), cursors: [] });

/** Returns the path of a record in the API. */
const recordPath = (resource, id) => `${resource}/${encodeURIComponent(id)}`;

/** Reads a page of a list. If matches are rare, it skips pages without a match. */
async function readPage(resource, parameters, signal, onFailure) {
  for (let skipped = 0; ; skipped++) {
    const { data } = await insist(() => call('GET', withQuery(resource, parameters), { signal, exact: true }), onFailure, signal);
    if (data.data.length > 0 || !data.next_cursor || skipped === mostSkipped) return { records: data.data, next: data.next_cursor };
    parameters = { ...parameters, cursor: data.next_cursor };
  }
}

/** The fields of the page that may be invalid, by their names in the API. */
const fieldNames = { type: 'Type', entity_id: 'Entity id', name: 'Name', from: 'From', created_since: 'From', updated_since: 'From', to: 'Before', id: 'The id', cursor: 'The page number', limit: 'The page size' };

const idRule = 'must be 1 to 128 of the characters A–Z a–z 0–9 . _ : -';
const isID = (text) => /^[A-Za-z0-9._:-]{1,128}$/.test(text) && text !== '.' && text !== '..';
const isTime = (text) => !Number.isNaN(Date.parse(text));

/** Returns what is wrong with the filters of a query, as { field, text }, or undefined. */
function wrongFilter({ entity_id: entity, type, from, to }) {
  if (entity && !isID(entity)) return { field: 'entity_id', text: `Entity id ${idRule}.` };
  if (type && [...type].length > 128) return { field: 'type', text: 'Type must be at most 128 characters.' };
  if (from && !isTime(from)) return { field: 'from', text: 'From is not a time.' };
  if (to && !isTime(to)) return { field: 'to', text: 'Before is not a time.' };
  if (from && to && Date.parse(from) > Date.parse(to)) return { field: 'from', text: 'From must be earlier than Before.' };
  return undefined;
}

/** Returns what the service found wrong with a filter, as { field, text }, or undefined. */
function rejectedFilter(error) {
  if (error.code === 'not_indexed' || error.code === 'index_building') return { field: '', text: error.message };
  if (error.status !== 400 && error.status !== 422) return undefined;
  const { field, detail } = error.errors.find((e) => e.field in fieldNames || e.field.startsWith(attributePrefix)) ?? {};
  return field && { field: field.replace(/^(created|updated)_since$/, 'from'), text: sentence(`${fieldNames[field] ?? field} ${detail}`) };
}
