// The panel for browsing records: lists with filters, page by page, and the open record.

const recordsPerPage = 10; // only a few, because each record counts toward the records limit of the address
const mostSkipped = 20; // maximum number of successive pages that are skipped because no record matches; each page costs a request
const epoch = '1970-01-01T00:00:00Z';

/**
 * The lists, by kind and order. Each list has its texts, its filters, its
 * parameters in the API, and the time that the page shows of each record. The
 * parameter until is the time at which a walk through the list started. It
 * excludes events with later times, which would otherwise come first.
 */
const lists = {
  event: {
    occurred: {
      name: 'Most recent', hint: 'Ordered by time of occurrence, newest first. To see events dated later than now, set Before.',
      filters: ['entity_id', 'from', 'to'], time: (e) => e.occurred_at,
      parameters: ({ entity_id, from, to }, until) => ({ entity_id, from, to: to || until }),
    },
    created: {
      name: 'Latest created', hint: 'Ordered by time of creation, newest first.',
      filters: ['from'], time: (e) => e.created_at,
      parameters: ({ from }) => ({ created_since: from || epoch, order: 'desc' }),
    },
  },
  entity: {
    changed: {
      name: 'Latest changes', hint: 'Ordered by time of the latest change, newest first.',
      filters: ['from'], time: (e) => e.updated_at,
      parameters: ({ from }) => ({ updated_since: from || epoch, order: 'desc' }),
    },
    id: {
      name: 'By id', hint: 'Ordered by id.',
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
 * Returns the given order if lists of the kind have this order and take the
 * filters, otherwise the first order of the kind that takes them.
 */
const orderOf = (kind, order, { type, entity_id: entity } = {}) => {
  const orders = Object.keys(lists[kind]);
  const takes = (name) => (!type || lists[kind][name].filters.includes('type')) && (!entity || lists[kind][name].filters.includes('entity_id'));
  return [order, ...orders].find((name) => orders.includes(name) && takes(name)) ?? orders[0];
};

/**
 * Returns what the URL and the history entry say about the records. Callers
 * compare the results of two calls.
 */
const placeOfRecords = () => JSON.stringify([{ ...readPlace(), address: '' }, history.state]);

/** Reads a page of a list. If matches are rare, it skips pages without a match. */
async function readPage(kind, parameters, signal, onFailure) {
  for (let skipped = 0; ; skipped++) {
    const { data } = await insist(() => call('GET', withQuery(kind, parameters), { signal, exact: true }), onFailure);
    if (data.data.length > 0 || !data.next_cursor || skipped === mostSkipped) return { records: data.data, next: data.next_cursor };
    parameters = { ...parameters, cursor: data.next_cursor };
  }
}

class Records {
  #onSignedOut; #run; #next = null; #shown = ''; #view = new RecordView();

  constructor(onSignedOut) {
    this.#onSignedOut = onSignedOut;
    const form = $('records-form');
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#search();
    });
    for (const input of form.querySelectorAll('[name=kind], [name=order]')) input.addEventListener('change', () => this.#search());
    for (const button of form.querySelectorAll('[data-preset]')) {
      button.addEventListener('click', () => this.#search({ from: presetStart(button.dataset.preset), to: '' }));
    }
    $('open-form').addEventListener('submit', (event) => {
      event.preventDefault();
      const id = $('open-id').value.trim();
      if (id) this.#go({ kind: this.#choice.kind, id });
      else $('open-id').focus();
    });
    $('records-next').addEventListener('click', () => this.#turn((cursors) => [...cursors, this.#next]));
    $('records-previous').addEventListener('click', () => this.#turn((cursors) => cursors.slice(0, -1)));
    $('record-back').addEventListener('click', () => this.#goBack());
    $('records-card').addEventListener('click', (event) => this.#followLink(event));
  }

  // Navigation. Each move changes the URL of the page and then calls the method show, which
  // reads the URL.

  /** Shows the records that the URL describes. */
  show({ focus = false } = {}) {
    const place = readPlace();
    const kind = Object.hasOwn(lists, place.kind) ? place.kind : 'event';
    const order = orderOf(kind, place.order, place);
    this.#fillForm({ ...place, kind, order });
    $('record').hidden = !place.id;
    $('records-list').hidden = Boolean(place.id);
    // A history entry without cursors is the first page of a list. Loading that page
    // starts a new walk through the list.
    if (!place.id && !history.state?.cursors?.length) history.replaceState(newWalk(), '');
    this.#shown = placeOfRecords();
    if (place.id) this.#open(kind, place.id);
    else this.#load({ ...place, kind, order }, history.state, focus);
    if (focus) $(place.id ? 'record-title' : 'records-title').focus();
  }

  /** Shows the records that the URL describes, if it has changed. */
  follow() {
    if (placeOfRecords() !== this.#shown) this.show({ focus: true });
  }

  /** Discards the records that were read. */
  stop() {
    this.#run?.abort();
    this.#shown = '';
    this.#drawRows([]);
  }

  #go(place, walk = null, focus = true) {
    moveTo({ address: readPlace().address, ...place }, walk);
    this.show({ focus });
  }

  /** Starts the list that the form describes. */
  #search(change = {}) {
    const { kind, order, from, to, ...filters } = this.#choice;
    const place = { kind, order: orderOf(kind, order), ...filters, from: toUTC(from), to: toUTC(to), ...change };
    const taken = lists[kind][place.order].filters;
    for (const name of ['type', 'entity_id', 'from', 'to']) if (!taken.includes(name)) delete place[name];
    this.#go(place, newWalk(), false);
  }

  #turn(change) {
    this.#go(readPlace(), { ...history.state, cursors: change(history.state.cursors) });
  }

  /** Returns to the list from which the record was opened, or to a new list. */
  #goBack() {
    if (history.state?.inside) history.back();
    else this.#go({ kind: this.#choice.kind });
  }

  /** Follows a link within the page, unless the click opens another tab. */
  #followLink(event) {
    const link = event.target.closest('a[data-place]');
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.pushState({ inside: true }, '', link.getAttribute('href'));
    this.show({ focus: true });
  }

  // The form

  get #choice() { return Object.fromEntries(new FormData($('records-form'))); }

  #fillForm(place) {
    const form = $('records-form').elements;
    form.kind.value = place.kind;
    form.order.replaceChildren(...Object.entries(lists[place.kind]).map(([value, { name }]) => make('option', { value }, name)));
    form.order.value = place.order;
    form.entity_id.value = place.entity_id ?? '';
    form.type.value = place.type ?? '';
    form.from.value = toLocal(place.from);
    form.to.value = toLocal(place.to);
    const { filters } = lists[place.kind][place.order];
    for (const field of $('records-form').querySelectorAll('[data-filter]')) field.hidden = !filters.includes(field.dataset.filter);
    say($('open-label'), `Open an ${place.kind} by id`);
  }

  // Reading

  /** Runs a task that reads records. It cancels an earlier task. */
  async #read(task) {
    this.#run?.abort();
    const run = this.#run = new AbortController();
    $('records-body').setAttribute('aria-busy', 'true');
    try {
      await task(run.signal, (error) => run.signal.aborted || report('records', error));
      if (run.signal.aborted) return;
      report('records');
    } catch (error) {
      if (run.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#fail(error);
    } finally {
      if (!run.signal.aborted) $('records-body').removeAttribute('aria-busy');
    }
  }

  #fail(error) {
    if (error.status === 401) this.#onSignedOut(error);
    else report('records', error, { stopped: true, retry: error.status === 403 ? undefined : () => this.show() });
  }

  #open(kind, id) {
    return this.#read((signal, onFailure) => this.#view.show(kind, id, signal, onFailure));
  }

  #load(place, walk, focus) {
    const list = lists[place.kind][place.order];
    const parameters = { ...list.parameters(place, walk.until), limit: recordsPerPage };
    say($('records-hint'), `${list.hint} A page costs up to ${recordsPerPage} records.`);
    return this.#read(async (signal, onFailure) => {
      const { records, next } = await readPage(place.kind, { ...parameters, cursor: walk.cursors.at(-1) }, signal, onFailure);
      if (signal.aborted) return;
      this.#next = next;
      this.#drawRows(records.map((r) => recordRow(place.kind, r, list.time(r))), walk.cursors.length, next);
      if (records.length === 0) this.#drawEmpty(...this.#emptyParts(place, walk, next));
      $('records-command').replaceChildren(apiCommand(withQuery(place.kind, parameters)));
      if (focus) announce(`${count(records.length, 'record')} shown`);
    });
  }

  // Drawing

  #drawRows(rows, page = 0, next = null) {
    $('records').replaceChildren(...rows);
    $('records-empty').hidden = true;
    $('records-previous').hidden = page === 0;
    $('records-next').hidden = !next;
    $('records-as-curl').hidden = rows.length === 0;
    say($('records-page'), page > 0 || next ? `Page ${number(page + 1)}` : '');
  }

  #drawEmpty(...parts) {
    $('records-empty').replaceChildren(...parts);
    $('records-empty').hidden = false;
  }

  #emptyParts(place, walk, next) {
    const plural = plurals[place.kind];
    if (next) return [make('p', {}, `No ${plural} here match. The next page may have some.`)];
    if (walk.cursors.length > 0) return [make('p', {}, `There are no more ${plural}.`)];
    if (['type', 'entity_id', 'from', 'to'].some((name) => place[name])) {
      return [make('p', {}, `No ${plural} match these filters.`), makeButton('Clear the filters', () => this.#go({ kind: place.kind, order: place.order }, newWalk()))];
    }
    return [make('p', {}, make('strong', {}, `There are no ${plural} yet.`)), make('p', {}, 'Create the first one:'), apiCommand(...firstRecords[place.kind])];
  }
}
