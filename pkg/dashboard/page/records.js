// The card that finds records. It shows what was found, the open record, or a page of a list.

/**
 * Returns what the URL and the history entry say about the records. Callers
 * compare the results of two calls.
 */
const queryOfRecords = () => JSON.stringify([{ ...readQuery(), address: '' }, history.state]);

const parts = ['found', 'records-list', 'record'];

class Records {
  #onSignedOut; #run; #next = null; #shown = ''; #view;

  /** See RecordView for exportEvents and onFile. */
  constructor(onSignedOut, exportEvents, onFile) {
    this.#onSignedOut = onSignedOut;
    this.#view = new RecordView(exportEvents, () => this.#forget(), onFile);
    const form = $('records-form');
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#search({ preset: this.#presetOfForm() });
    });
    for (const input of [...form.elements.resource, form.elements.order]) input.addEventListener('change', () => this.#search({ preset: this.#presetOfForm() }));
    for (const button of form.querySelectorAll('[data-preset]')) {
      button.addEventListener('click', () => this.#search({ ...presetRange(button.dataset.preset), preset: button.dataset.preset }));
    }
    $('find-form').addEventListener('submit', (event) => {
      event.preventDefault();
      const text = $('find').value.trim();
      if (text) this.#go({ find: text });
      else $('find').focus();
    });
    $('found-back').addEventListener('click', () => this.#go({}));
    $('records-next').addEventListener('click', () => this.#turn((cursors) => [...cursors, this.#next]));
    $('records-previous').addEventListener('click', () => this.#turn((cursors) => cursors.slice(0, -1)));
    $('record-back').addEventListener('click', () => this.#goBack());
    $('records-card').addEventListener('click', (event) => this.#followLink(event));
  }

  // Navigation. Each move changes the URL of the page and then calls show, which reads the
  // URL.

  /** Shows the records that the URL describes. */
  show({ focus = false } = {}) {
    const query = readQuery();
    const resource = Object.hasOwn(lists, query.resource) ? query.resource : 'event';
    const order = orderOf(resource, query.order, query);
    const part = query.id ? 'record' : query.find ? 'found' : 'records-list';
    this.#fillForm({ ...query, resource, order });
    $('find').value = query.find ?? $('find').value;
    for (const id of parts) $(id).hidden = id !== part;
    // A history entry without cursors is the first page of a list. Loading that page
    // starts a new walk through the list.
    if (part === 'records-list' && !history.state?.cursors?.length) history.replaceState(newWalk(), '');
    this.#shown = queryOfRecords();
    if (query.id) this.#open(resource, query.id);
    else if (query.find) this.#find(query.find);
    else this.#load({ ...query, resource, order }, history.state, focus);
    if (focus) $({ record: 'record-title', found: 'found-title', 'records-list': 'list-title' }[part]).focus();
  }

  /** Shows the records that the URL describes, if it has changed. */
  follow() {
    if (queryOfRecords() !== this.#shown) this.show({ focus: true });
  }

  /** Reads the list again, if it is shown. */
  refresh() {
    if (!$('records-list').hidden) this.show();
  }

  /** Shows the times of the form in the new zone. The service gets the same instants. */
  refill() {
    const query = readQuery();
    for (const name of ['from', 'to']) $('records-form').elements[name].value = toInput(query[name]);
  }

  /** Discards the records that were read. */
  stop() {
    this.#forget();
    this.#shown = '';
    this.#view.clear();
  }

  /** Discards the records of the lists, which may have an erased one, and what was searched for. */
  #forget() {
    this.#run?.abort();
    $('records-body').removeAttribute('aria-busy');
    this.#drawRows([]);
    drawFound('', []);
    $('find').value = '';
    say($('announcer'), '');
  }

  #go(query, walk = null, focus = true) {
    moveTo({ address: readQuery().address, ...query }, walk);
    this.show({ focus });
  }

  /** Starts the list that the form describes. */
  #search(change = {}) {
    const { resource, order, from, to, ...filters } = this.#choice;
    const query = { resource, order: orderOf(resource, order), ...filters, from: toUTC(from), to: toUTC(to), ...change };
    const taken = lists[resource][query.order].filters;
    for (const name of ['type', 'entity_id', 'from', 'to']) if (!taken.includes(name)) delete query[name];
    if (!taken.includes('from')) delete query.preset;
    this.#go(query, newWalk(), false);
  }

  #turn(change) {
    const cursors = change(history.state.cursors);
    this.#go({ ...readQuery(), page: cursors.length > 0 ? cursors.length + 1 : '' }, { ...history.state, cursors });
  }

  /** Returns to the list from which the record was opened, or to a new list. */
  #goBack() {
    if (history.state?.inside) history.back();
    else this.#go({ resource: readQuery().resource });
  }

  /** Follows a link within the page, unless the click opens another tab. */
  #followLink(event) {
    const link = event.target.closest('a[data-query]');
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.pushState({ inside: true }, '', link.getAttribute('href'));
    this.show({ focus: true });
  }

  // The form

  get #choice() { return Object.fromEntries(new FormData($('records-form'))); }

  /** Returns the preset in the URL, or '' if the times in the form have been changed. */
  #presetOfForm() {
    const query = readQuery();
    const { from, to } = $('records-form').elements;
    return from.value === toInput(query.from) && to.value === toInput(query.to) ? query.preset : '';
  }

  #fillForm(query) {
    const form = $('records-form').elements;
    const list = lists[query.resource][query.order];
    form.resource.value = query.resource;
    form.order.replaceChildren(...Object.entries(lists[query.resource]).map(([value, { name }]) => make('option', { value }, name)));
    form.order.value = query.order;
    form.entity_id.value = query.entity_id ?? '';
    form.type.value = query.type ?? '';
    this.refill();
    for (const field of $('records-form').querySelectorAll('[data-filter]')) field.hidden = !list.filters.includes(field.dataset.filter);
    $('records-form').querySelector('[data-preset=week]').hidden = !list.filters.includes('to');
    markPreset($('records-form'), query.preset ?? '');
    if (list.filters.some((name) => query[name])) $('records-filters').open = true;
    say($('list-title'), query.entity_id ? `Events of ${query.entity_id}` : list.title);
    this.#fault();
  }

  /** Marks the filter that is wrong and shows why, given { field, text }. Without an argument, removes the mark and the text. */
  #fault(wrong) {
    say($('records-error'), wrong?.text ?? '');
    for (const name of ['type', 'entity_id', 'from', 'to']) {
      const input = $('records-form').elements[name];
      if (wrong?.field === name) input.setAttribute('aria-invalid', 'true');
      else input.removeAttribute('aria-invalid');
    }
    if (!wrong) return;
    $('records-filters').open = true;
    this.#drawRows([]);
    say($('records-hint'), '');
  }

  // Reading

  /** Cancels any earlier task, and runs a task that reads records. */
  async #read(task) {
    this.#run?.abort();
    const run = this.#run = new AbortController();
    $('records-body').setAttribute('aria-busy', 'true');
    try {
      await task(run.signal, (error, wait) => run.signal.aborted || report('records', error, { wait }));
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
    const wrong = rejectedFilter(error);
    if (error.status === 401) this.#onSignedOut(error);
    else if (wrong) {
      report('records');
      this.#fault(wrong);
    } else report('records', error, { stopped: true, retry: error.status === 403 ? undefined : () => this.show() });
  }

  #open(resource, id) {
    if (!isID(id)) {
      this.#run?.abort();
      return this.#view.refuse(resource, id);
    }
    return this.#read((signal, onFailure) => this.#view.show(resource, id, signal, onFailure));
  }

  #find(text) {
    drawFound(text, []);
    $('found-title').replaceChildren('Looking for ', stored(text), '…');
    $('found-none').hidden = true;
    return this.#read(async (signal, onFailure) => {
      const { found, more } = await findRecords(text, signal, onFailure);
      if (signal.aborted) return;
      showIndexes();
      if (found.length === 1 && !more) {
        history.replaceState(null, '', queryLink({ address: readQuery().address, resource: found[0].resource, id: found[0].record.id }));
        report('records');
        this.show({ focus: true });
        return;
      }
      drawFound(text, found, more);
      announce($('found-title').textContent);
    });
  }

  #load(query, walk, focus) {
    const list = lists[query.resource][query.order];
    const wrong = wrongFilter(query);
    if (wrong) {
      this.#run?.abort();
      $('records-body').removeAttribute('aria-busy');
      report('records');
      return this.#fault(wrong);
    }
    const parameters = { ...list.parameters(query, walk.until), limit: recordsPerPage };
    say($('records-hint'), `${list.hint} A page costs up to ${recordsPerPage} records.`.trim());
    return this.#read(async (signal, onFailure) => {
      const page = (cursors) => readPage(query.resource, { ...parameters, cursor: cursors.at(-1) }, signal, onFailure);
      const cursors = await this.#walkTo(Number(query.page) || 1, walk.cursors, page);
      const { records, next } = await page(cursors);
      if (signal.aborted) return;
      history.replaceState({ ...walk, cursors }, '');
      this.#shown = queryOfRecords();
      this.#next = next;
      this.#drawRows(records.map((r) => recordRow(query.resource, r, list.time(r))), cursors.length, next);
      if (records.length === 0) this.#drawEmpty(...this.#emptyParts(query, cursors, next));
      $('records-command').replaceChildren(apiCommand(withQuery(query.resource, parameters)));
      if (focus) announce(`${count(records.length, 'record')} shown`);
    });
  }

  /** Returns the cursors of a page. A shared link has the number of the page, but no cursors. */
  async #walkTo(number, cursors, page) {
    while (cursors.length + 1 < Math.min(number, mostPages)) {
      const { next } = await page(cursors);
      if (!next) break;
      cursors = [...cursors, next];
    }
    return cursors;
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

  #drawEmpty(...content) {
    $('records-empty').replaceChildren(...content);
    $('records-empty').hidden = false;
  }

  #emptyParts(query, cursors, next) {
    const plural = plurals[query.resource];
    if (next) return [make('p', {}, `No ${plural} here match. The next page may have some.`)];
    if (cursors.length > 0) return [make('p', {}, `There are no more ${plural}.`)];
    if (['type', 'entity_id', 'from', 'to'].some((name) => query[name])) {
      return [make('p', {}, `No ${plural} match these filters.`), makeButton('Clear the filters', () => this.#go({ resource: query.resource, order: query.order }, newWalk()))];
    }
    return [make('p', {}, make('strong', {}, `There are no ${plural} yet.`)), make('p', {}, 'Create the first one:'), apiCommand(...firstRecords[query.resource])];
  }
}
