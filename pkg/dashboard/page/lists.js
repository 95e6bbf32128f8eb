// The lists of records: their names, their filters, and how a page of a list is read.

const recordsPerPage = 10; // only a few, because each record counts toward the records limit of the address
const mostSkipped = 20; // maximum number of successive pages that are skipped because no record matches; each page costs a request
const mostPages = 20; // last page that a link can open, because the pages before it must also be read
const epoch = '1970-01-01T00:00:00Z';

/**
 * The lists, by resource and order. Each list has its texts, its filters, its
 * parameters in the API, and the time that the page shows for each record. until
 * is the time at which a walk through the list started. It excludes events with
 * later times, which would otherwise come first.
 */
const lists = {
  event: {
    occurred: {
      name: 'Most recent', title: 'Latest events', hint: 'By time of occurrence, newest first. To see events dated later than now, set Before.',
      filters: ['entity_id', 'from', 'to'], time: (e) => e.occurred_at,
      parameters: ({ entity_id, from, to }, until) => ({ entity_id, from, to: to || until }),
    },
    created: {
      name: 'Latest created', title: 'Latest created events', hint: 'By time of creation, newest first.',
      filters: ['from'], time: (e) => e.created_at,
      parameters: ({ from }) => ({ created_since: from || epoch, order: 'desc' }),
    },
  },
  entity: {
    changed: {
      name: 'Latest changes', title: 'Latest changes', hint: 'By time of the latest change, newest first.',
      filters: ['from'], time: (e) => e.updated_at,
      parameters: ({ from }) => ({ updated_since: from || epoch, order: 'desc' }),
    },
    id: {
      name: 'By id', title: 'Entities by id', hint: '',
      filters: ['type'], time: (e) => e.updated_at,
      parameters: ({ type }) => ({ type }),
    },
  },
};

const plurals = { event: 'events', entity: 'entities' };

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

/**
 * Returns order if it is an order of the resource and accepts the filters. Otherwise, returns
 * the first order of the resource that accepts them.
 */
const orderOf = (resource, order, { type, entity_id: entity } = {}) => {
  const orders = Object.keys(lists[resource]);
  const takes = (name) => (!type || lists[resource][name].filters.includes('type')) && (!entity || lists[resource][name].filters.includes('entity_id'));
  return [order, ...orders].find((name) => orders.includes(name) && takes(name)) ?? orders[0];
};

/** Reads a page of a list. If matches are rare, it skips pages without a match. */
async function readPage(resource, parameters, signal, onFailure) {
  for (let skipped = 0; ; skipped++) {
    const { data } = await insist(() => call('GET', withQuery(resource, parameters), { signal, exact: true }), onFailure, signal);
    if (data.data.length > 0 || !data.next_cursor || skipped === mostSkipped) return { records: data.data, next: data.next_cursor };
    parameters = { ...parameters, cursor: data.next_cursor };
  }
}

/** The fields of the page that may be invalid, by their names in the API. */
const fieldNames = { type: 'Type', entity_id: 'Entity id', name: 'Name', from: 'From', created_since: 'From', updated_since: 'From', to: 'Before', id: 'The id', cursor: 'The page number' };

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
  if (error.status !== 400 && error.status !== 422) return undefined;
  const { field, detail } = error.errors.find((e) => e.field in fieldNames) ?? {};
  return field && { field: field.replace(/^(created|updated)_since$/, 'from'), text: sentence(`${fieldNames[field]} ${detail}`) };
}
