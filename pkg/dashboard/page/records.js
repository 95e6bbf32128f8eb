// The view of records: what was found or a list, and beside it the record that is open.

/** Returns what the URL says about the list, without the record that is open. Callers compare the results of two calls. */
const listKey = (query) => JSON.stringify([listQuery(query), query.find, history.state?.cursors, history.state?.until]);

class Records {
  list = { records: [], ready: false }; found = null; query = normalized({}); fault;
  #onSignedOut; #run; #next = null; #shown = ''; #lead = false;

  constructor(onSignedOut, pane) {
    this.#onSignedOut = onSignedOut;
    this.pane = pane;
  }

  // Navigation. Each move changes the URL of the page and then calls show, which reads the
  // URL.

  /** Shows the records that the URL describes. */
  show({ focus = false, again = false } = {}) {
    this.query = normalized(readQuery());
    const { query } = this;
    if (this.list.query?.resource !== query.resource) this.list = { records: [], ready: false };
    // A history entry without cursors is the first page of a list. Loading that page
    // starts a new walk through the list.
    if (!query.find && !history.state?.cursors?.length && !history.state?.until) history.replaceState({ ...history.state, ...newWalk() }, '');
    const key = listKey(query);
    const other = again || key !== this.#shown;
    const closed = this.pane.show(query);
    if (other && !(this.pane.isOpen && covers())) this.#read(key);
    draw();
    if (!focus) return undefined;
    if (this.pane.making) return undefined; // the form has the focus
    if (this.pane.isOpen) return $('record-title')?.focus();
    const row = closed && document.querySelector(`#records th a[href="${CSS.escape(queryLink({ ...query, id: closed, of: undefined }))}"]`);
    return (row || $(query.find ? 'found-title' : 'list-title'))?.focus();
  }

  /** Reads the list again, if it has been shown. */
  refresh() {
    this.#shown = '';
    this.show({ again: true });
  }

  /** Discards the records that were read. */
  stop() {
    this.forget();
    this.pane.clear();
  }

  /** Discards the records of the lists, which may have an erased one, and what was searched for. */
  forget() {
    this.#run?.abort();
    this.#shown = '';
    this.found = null;
    this.list = { records: [], ready: false };
    $('find').value = '';
    say($('announcer'), '');
    drawAll();
  }

  /** Puts a record that has changed into the list; without a record, removes it. */
  replace(id, record) {
    const records = this.list.records.flatMap((r) => (r.id === id ? record ?? [] : r));
    this.list = { ...this.list, records };
    draw();
  }

  go(query, walk = null, focus = true) {
    moveTo(query, walk);
    this.show({ focus });
  }

  /** Starts another list. */
  search(change) {
    const given = Object.entries({ ...listQuery(this.query), page: '', ...change }).filter(([, value]) => value);
    const query = normalized(Object.fromEntries(given));
    const taken = listOf(query).filters;
    for (const name of ['type', 'entity_id', 'name', 'from', 'to']) if (!taken.includes(name)) delete query[name];
    if (!taken.includes('from')) delete query.preset;
    this.go(query, newWalk(), false);
  }

  turn(change) {
    const cursors = change(history.state.cursors, this.#next);
    this.go({ ...listQuery(this.query), page: cursors.length > 0 ? cursors.length + 1 : '' }, { ...history.state, cursors });
  }

  /** Closes the record and returns to the list. */
  close() {
    if (history.state?.inside) history.back();
    else this.go({ ...listQuery(this.query), find: this.query.find }, history.state);
  }

  // Reading

  /** Reads what was searched for, or a page of the list. Cancels what is being read. */
  async #read(key) {
    this.#run?.abort();
    const { signal } = this.#run = new AbortController();
    const { query } = this;
    this.#shown = key;
    this.fault = undefined;
    this.busy = true;
    const onFailure = (error, wait) => signal.aborted || report('records', error, { wait });
    try {
      if (query.find) await this.#find(query.find, signal, onFailure);
      else await this.#load(query, history.state, signal, onFailure);
      if (!signal.aborted) report('records');
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#fail(error);
    } finally {
      if (!signal.aborted) this.busy = false;
      draw();
    }
  }

  #fail(error) {
    const wrong = rejectedFilter(error);
    if (error.status === 401) this.#onSignedOut(error);
    else if (wrong) {
      report('records');
      this.#refuse(wrong);
    } else report('records', error, { stopped: true, retry: error.status === 403 ? undefined : () => this.refresh() });
  }

  /** Shows which filter is wrong, and why, instead of records. */
  #refuse(wrong) {
    this.fault = wrong;
    this.list = { records: [], ready: true, query: this.query };
    draw();
  }

  async #find(text, signal, onFailure) {
    this.found = { text, found: [], ready: false };
    draw();
    const result = await findRecords(text, signal, onFailure);
    if (signal.aborted) return;
    if (result.found.length === 1 && !result.more) {
      const [{ resource, record }] = result.found;
      this.found = null;
      history.replaceState(null, '', queryLink({ resource, id: record.id }));
      report('records');
      this.show({ focus: true });
      return;
    }
    this.found = { text, ...result, ready: true };
    draw();
    announce($('found-title')?.textContent ?? '');
    if (document.activeElement === document.body) $('found-title')?.focus();
  }

  async #load(query, walk, signal, onFailure) {
    this.found = null;
    const wrong = wrongFilter(query);
    if (wrong) return this.#refuse(wrong);
    const limit = pageSizes.includes(Number(query.limit)) ? Number(query.limit) : pageSizes[0];
    if (query.resource === 'entity' && query.type) await readIndexes(onFailure, signal);
    const parameters = { ...listOf(query).parameters(query, walk.until), limit };
    const page = (cursors) => readPage(query.resource, { ...parameters, cursor: cursors.at(-1) }, signal, onFailure);
    const cursors = await this.#walkTo(Number(query.page) || 1, walk.cursors, page);
    const { records, next } = await page(cursors);
    if (signal.aborted) return;
    history.replaceState({ ...history.state, until: walk.until, cursors }, '');
    this.#shown = listKey(query);
    this.#next = next;
    this.list = { records, next, query, parameters, limit, page: cursors.length, ready: true };
    if (this.#lead) announce(`${count(records.length, 'record')} shown`);
    this.#lead = true;
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
}

/** Returns whether an open record covers the list, because the window is narrow. */
const covers = () => matchMedia('(max-width: 64rem)').matches;

/** The view of records. */
const RecordsView = () => {
  const { pane, found, busy } = records;
  return html`<div class=${`split ${pane.isOpen ? 'opened' : ''}`}>
    <div class="list" aria-busy=${String(Boolean(busy))}>
      <${Notice} of="records" />
      ${found ? html`<${Found} ...${found} />` : html`<${List} />`}
    </div>
    ${pane.isOpen && html`<${Pane} pane=${pane} />`}
  </div>`;
};

/** A list of records with its filters and pages. */
function List() {
  const { list, query, fault } = records;
  const { all, shown } = columnsOf(query.resource, list.records);
  const others = { ...listQuery(query), resource: query.resource };
  const ready = list.ready && list.records.length > 0;
  return html`<div id="records-list">
    <div class="bar">
      <h2 id="list-title" class="unseen" tabindex="-1">${query.entity_id ? `Events of ${query.entity_id}` : listOf(query).title}</h2>
      <${Segments} name="resource" legend="Kind of records" unseen value=${query.resource} options=${resourceNames} onChange=${(resource) => records.go({ resource }, newWalk(), false)} />
      <${Filters} key=${JSON.stringify([others, zone])} query=${query} fault=${fault} />
      <span class="fill" />
      ${ready && html`<${ColumnMenu} resource=${query.resource} records=${list.records} />`}
      ${mayImport() && html`<${Link} keep class="button primary" id="new-record" query=${{ ...others, new: query.resource, for: query.entity_id }}><${Icon} name="plus" />New<span class="wide-only"> ${nouns[query.resource]}</span><//>`}
    </div>
    <p class="field-error" id="records-error" role="alert">${fault?.text}</p>
    ${!list.ready && !troubles.has('records') && html`<${Skeleton} />`}
    ${ready && html`<div class="scroll" tabindex="0" role="region" aria-label="Records">
      <${RecordTable} query=${query} records=${list.records} shown=${keep(shown)} open=${query.id} sortBy=${sortBy} zone=${zone} tick=${minute()} indexed=${indexesAt} />
    </div>`}
    ${list.ready && list.records.length === 0 && !fault && html`<${NoRecords} query=${query} list=${list} />`}
    ${list.ready && (list.records.length > 0 || list.page > 0 || list.next) && html`<${Pages} list=${list} query=${query} />`}
  </div>`;
}

const sortBy = (order, dir) => records.search({ order, dir });

/** Returns the columns as they were before if none has changed, so that the table is not drawn again. */
const keep = (() => {
  let last = [];
  return (columns) => {
    if (columns.map(({ key }) => key).join('\n') !== last.map(({ key }) => key).join('\n')) last = columns;
    return last;
  };
})();

/** Returns the number of the current minute; times are shown relative to it. */
const minute = () => Math.floor(Date.now() / 60_000);

/** Which page is shown, how to turn it, and how to read it with a command. */
function Pages({ list, query }) {
  return html`<div class="pages">
    ${list.page > 0 && html`<${Button} id="records-previous" icon="chevron-left" onClick=${() => records.turn((cursors) => cursors.slice(0, -1))}>Previous page<//>`}
    ${list.next && html`<${Button} id="records-next" icon="chevron-right" onClick=${() => records.turn((cursors, next) => [...cursors, next])}>Next page<//>`}
    <span class="hint" id="records-page">${list.page > 0 || list.next ? `Page ${number(list.page + 1)}` : ''}</span>
    <label class="hint">Rows <select id="records-limit" onChange=${(event) => records.search({ limit: event.target.value })}>${pageSizes.map((n) => html`<option value=${n} selected=${n === (list.limit ?? pageSizes[0])}>${n}</option>`)}</select></label>
    <span class="fill hint zone">Times are in ${zoneName()}. Each row counts against the records limit. ${listOf(query).hint}</span>
    ${list.parameters && html`<details class="menu above" id="records-as-curl"><summary class="button quiet"><${Icon} name="terminal" />curl</summary><div class="sheet wide-sheet"><${ApiCommand} path=${withQuery(query.resource, list.parameters)} /></div></details>`}
  </div>`;
}

/** What is shown instead of a list without records. */
function NoRecords({ query, list }) {
  const plural = plurals[query.resource];
  if (list.next) return html`<${Empty} id="records-empty" title=${`No ${plural} here match.`}><p>The next page may have some.</p><//>`;
  if (list.page > 0) return html`<${Empty} id="records-empty" title=${`There are no more ${plural}.`} />`;
  if (Object.keys(query).some((name) => ['type', 'entity_id', 'name', 'from', 'to'].includes(name) || name.startsWith(attributePrefix))) {
    return html`<${Empty} id="records-empty" icon="funnel" title=${`No ${plural} match these filters.`}><${Button} onClick=${() => records.go({ resource: query.resource }, newWalk())}>Clear the filters<//><//>`;
  }
  return html`<${Empty} id="records-empty" title=${`There are no ${plural} yet.`}>
    ${mayImport() && html`<p>Create the first one here, <${Link} query=${{ view: 'import' }}>import a file<//>, or use the API:</p>`}
    <${ApiCommand} path=${firstRecords[query.resource][0]} body=${firstRecords[query.resource][1]} />
  <//>`;
}
