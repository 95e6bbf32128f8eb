// The view of the audit trail: who changed what, newest first, with what was there before and after.

const trailPage = 50; // records that are read at once
const mostEmpty = 20; // successive pages that are skipped because no record on them matches

/** The filters in the URL, as parameters of GET /audit. */
function trailFilters() {
  const { by, thing, workspace } = readQuery();
  return { by, of: thing, workspace: manages() && workspace };
}

/** Its data is { key, records, next }: the filters, the records that were read, and the cursor of those that follow. */
const auditPanel = new AdminPanel('audit', async (signal) => {
  const filters = trailFilters(), key = JSON.stringify(filters);
  const { response, records, next } = await readTrail(filters, '', signal);
  const before = auditPanel.data?.key === key ? auditPanel.data : { records: [] };
  const last = before.records.findIndex(({ id }) => id === records.at(-1)?.id);
  const older = last < 0 ? [] : before.records.slice(last + 1);
  return { ...response, data: { key, records: [...records, ...older], next: older.length > 0 ? before.next : next } };
});

/** Reads a page of the trail that is not empty, if there is one. */
async function readTrail(filters, cursor, signal) {
  for (let empty = 0; ; empty++) {
    const response = await call('GET', withQuery('audit', { ...filters, limit: trailPage, cursor }), { signal });
    const { data: records, next_cursor: next } = response.data;
    if (records.length > 0 || !next || empty === mostEmpty) return { response, records, next };
    cursor = next;
  }
}

let readingOlder = false;

async function showOlder() {
  const { next } = auditPanel.data;
  if (readingOlder) return;
  readingOlder = true;
  draw();
  try {
    const older = await insist(() => readTrail(trailFilters(), next), (error, wait) => report('audit', error, { wait }));
    report('audit');
    if (auditPanel.data?.next !== next) return; // the list is another one
    const { length } = auditPanel.data.records;
    auditPanel.data = { ...auditPanel.data, records: [...auditPanel.data.records, ...older.records], next: older.next };
    draw();
    $('trail-table')?.rows[length + 1]?.querySelector('a').focus();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) denied(error);
    else report('audit', error, { stopped: true, retry: showOlder });
  } finally {
    readingOlder = false;
    draw();
  }
}

const actionTexts = {
  'create-api-key': () => 'made a key',
  'revoke-api-key': () => 'revoked a key',
  'set-api-key-plan': () => 'changed the plan of a key',
  'set-limit': ({ of, old }) => `${old ? 'changed' : 'made'} ${/^plan:/.test(of) ? 'a plan' : 'a limit'}`,
  'remove-limit': ({ of }) => `removed ${/^plan:/.test(of) ? 'a plan' : 'a limit'}`,
  'create-entity-index': () => 'declared an index',
  'remove-entity-index': () => 'removed an index',
};

const actionText = (change) => actionTexts[change.action]?.(change) ?? change.action;

/** Returns the query of the view that shows what a change is of. */
function queryOfThing({ action, of }) {
  if (action.endsWith('-limit')) return { view: 'limits', id: of };
  const [, kind, name] = of.match(/^(key|index):(.*)$/s) ?? [];
  return { view: kind === 'index' ? 'indexes' : 'keys', id: name };
}

function AuditView() {
  const { id } = readQuery();
  const { key, records = [] } = auditPanel.data ?? {};
  const filters = JSON.stringify(trailFilters());
  const open = records.find((change) => change.id === id);
  return html`<${AdminView} panel=${auditPanel} needs=${['admin']} command="sluice audit">
    ${keysOff() && html`<p class="notice" data-tone="wait" id="keys-off">API keys are off, so the trail calls everybody “anyone”. To require keys, start the service with AUTH_MODE=api-key.</p>`}
    ${open && html`<${OpenChange} key=${id} change=${open} />`}
    ${id && key === filters && !open && html`<p class="notice" data-tone="wait" id="change-missing">This change is not among those below. It may be older.</p>`}
    <${TrailFilters} key=${filters} />
    <${Trail} ready=${key === filters} open=${id} />
  <//>`;
}

/** A link that filters the trail by a value that one of its records has. */
const FilterLink = ({ filter, text }) => html`<${Link} query=${{ ...readQuery(), id: '', ...filter }} title="Show only these" onClick=${() => $('trail-title').focus()}><${Stored} text=${text} /><//>`;

function TrailFilters() {
  const query = readQuery();
  const form = useRef();
  const submit = (event) => {
    event.preventDefault();
    openIn(Object.fromEntries([...new FormData(form.current)].map(([name, value]) => [name, value.trim()])));
    $('trail-title').focus();
  };
  const showAll = () => {
    openIn({ by: '', thing: '', workspace: '' });
    $('trail-title').focus();
  };
  const field = (name, label, placeholder) => html`<${Field} id=${`trail-${name}`} name=${name} label=${label} placeholder=${placeholder} maxlength="600" defaultValue=${query[name] ?? ''} />`;
  return html`<form id="trail-filters" class="filters" role="search" aria-label="Filter the changes" novalidate ref=${form} onSubmit=${submit}>
    ${field('by', 'Who', 'command: or key:7m3k')}${field('thing', 'Thing', 'plan:pro')}${manages() && field('workspace', 'Workspace', 'all')}
    <div class="inline"><button type="submit" class="quiet"><${Icon} name="funnel" />Filter</button>
      ${(query.by || query.thing || query.workspace) && html`<${Button} id="trail-all" icon="x" onClick=${showAll}>Show all<//>`}</div>
  </form>`;
}

function Trail({ ready, open }) {
  const { records, next } = auditPanel.data;
  const filtered = Object.values(trailFilters()).some(Boolean);
  const columns = [
    { name: 'When', of: (change) => html`<${Link} query=${{ ...readQuery(), id: change.id }}><${Time} at=${change.at} /><span class="unseen">, ${actionText(change)}</span><//>` },
    { name: 'Who', of: ({ by }) => html`<${FilterLink} filter=${{ by }} text=${by} />` },
    { name: 'What', of: actionText },
    { name: 'Thing', of: (change) => html`<span class="thing"><${FilterLink} filter=${{ thing: change.of }} text=${change.of} />
      <${Link} class="button bare" aria-label=${`Open ${change.of}`} title="Open it" query=${queryOfThing(change)}><${Icon} name="link" /><//></span>` },
    ...(manages() ? [{ name: 'Workspace', of: ({ workspace }) => (workspace ? html`<${FilterLink} filter=${{ workspace }} text=${workspace} />` : html`<${None} />`) }] : []),
    { name: 'From', of: ({ from }) => html`<${Stored} text=${from} />` },
    { name: 'Result', of: ({ result, error }) => html`<span class="badge" data-state=${result}>${result}</span>${error && html` <span class="muted"><${Stored} text=${error} /></span>`}` },
  ];
  return html`<section class="list" aria-labelledby="trail-title">
    <h2 id="trail-title" tabindex="-1">${ready ? `${count(records.length, 'change')}${next ? ' of more' : ''}` : 'Changes'}</h2>
    ${!ready ? html`<${Skeleton} rows=${8} />`
      : records.length > 0 ? html`<${Table} id="trail-table" caption="Changes" columns=${columns} rows=${records} keyOf=${({ id }) => id} open=${open} />`
        : html`<${Empty} id="trail-empty" icon="scroll-text" title=${filtered ? 'No change is like this' : 'No changes yet'}><p>${next ? 'The search ended early.' : 'The trail has the changes of keys, plans, limits and indexes of a year, over HTTP or with commands.'}</p><//>`}
    ${ready && next && html`<${Button} id="trail-older" busy=${readingOlder} onClick=${showOlder}>Show older<//>`}
    <${Zone} />
  </section>`;
}

/** One change, with what was there before and after. */
function OpenChange({ change }) {
  const { at, by, from, of, workspace, result, error } = change;
  const [first, ...rest] = actionText(change);
  const byKey = by.match(/^key:(.*)$/s)?.[1];
  return html`<${Sheet} id="open-change" title=${`${first.toUpperCase()}${rest.join('')}`} onClose=${() => openIn({})}>
    <dl class="facts">
      <${Fact} name="When"><${Time} exact at=${at} /><//>
      <${Fact} name="Who">${byKey ? html`<${Link} query=${{ view: 'keys', id: byKey }}><${Stored} text=${by} /><//>` : html`<${Stored} text=${by} />`}<//>
      <${Fact} name="Thing"><${Link} query=${queryOfThing(change)}><${Stored} text=${of} /><//><//>
      ${workspace && html`<${Fact} name="Workspace"><${Stored} text=${workspace} /><//>`}
      <${Fact} name="From"><${Stored} text=${from} /><//>
      <${Fact} name="Result"><span class="badge" data-state=${result}>${result}</span><//>
    </dl>
    ${result === 'failed' && html`<p class="notice" data-tone="error"><${Stored} text=${sentence(error ?? 'it failed')} /></p>`}
    ${result === 'intended' && html`<p class="notice" data-tone="wait">What made this change was stopped before it could say what became of it. Look whether it was made.</p>`}
    <${Comparison} change=${change} />
    <div class="inline actions">
      <${Link} class="button quiet" query=${{ view: 'audit', thing: of }}>All changes of <${Stored} text=${of} /><//>
      <${Link} class="button quiet" query=${{ view: 'audit', by }}>All by <${Stored} text=${by} /><//>
    </div>
  <//>`;
}

/** Old and new side by side: first what differs. Only a change that was made has a new side. */
function Comparison({ change: { old, new: now, result } }) {
  const before = old ?? {}, after = result === 'done' ? now ?? {} : before;
  const changes = changesBetween(before, after);
  const others = Object.keys(before).filter((name) => changes.every((row) => row.name !== name)).map((name) => ({ name, before: before[name] }));
  return html`
    ${changes.length > 0 ? html`<${Values} id="changed" caption="What has changed" rows=${changes} sides=${{ before: 'Before', after: 'After' }} />` : result === 'done' && html`<p class="hint">Nothing is different from before.</p>`}
    ${others.length > 0 && html`<details class="fold" open=${result !== 'done'}><summary>${result === 'done' ? `${count(others.length, 'field')} as before` : 'What it was before'}</summary>
      <${Values} id="unchanged" caption="What has not changed" rows=${others} sides=${{ before: 'Value' }} /></details>`}`;
}

const Values = ({ id, caption, rows, sides }) => html`<${Table} id=${id} caption=${caption} rows=${rows} keyOf=${({ name }) => name} columns=${[
  { name: 'Field', of: ({ name }) => html`<span class="mono"><${Stored} text=${name} /></span>` },
  ...Object.entries(sides).map(([side, name]) => ({ name, of: (row) => ([undefined, null, ''].includes(row[side]) ? html`<${None} />` : html`<${Value} value=${row[side]} />`) })),
]} />`;
