// The view of plans and limits: the rows that override the defaults, for plans, API keys and addresses.

const limitPanel = new AdminPanel('limits', (signal) => call('GET', 'limit', { signal }).then((response) => ({ ...response, data: response.data.data })));

/** The limits per second and the quotas, by their names in the API. */
const perSecond = { records: 'Records', imports: 'Import calls', requests: 'Requests to each route' };
const quotaNames = { records_per_day: 'Records a day', records_per_month: 'Records a month', imports_per_day: 'Import calls a day', imports_per_month: 'Import calls a month' };

const rowName = ({ plan, key_id: key, cidr }) => (plan ? `plan:${plan}` : key ? `key:${key}` : cidr);
const rowKind = ({ plan, key_id: key }) => (plan ? 'plan' : key ? 'key' : 'address');

const actionNames = { limit: 'Limit', block: 'Block', unlimited: 'Unlimited', observe: 'Observe' };
const actionHints = {
  limit: 'Requests beyond the limits get 429.',
  block: 'Every request gets 403.',
  unlimited: 'Requests are counted, but none is refused.',
  observe: 'No request is refused. The metrics say which would have been.',
};

/** Returns the limits that a form has, as the API takes them; what is empty or not a number is left out or sent as it is, for the service to judge. */
function limitsIn(values) {
  const limits = {};
  for (const name of Object.keys({ ...perSecond, ...quotaNames })) {
    const text = (values.get(name) ?? '').replaceAll(/[\s,]/g, '');
    if (text) limits[name] = Number.isNaN(Number(text)) ? text : Number(text);
  }
  if (values.get('export_jobs')) limits.export_jobs = true;
  return limits;
}

/** The fields of limits in a form. quotas says whether there can be quotas, which addresses do not have. */
function LimitFields({ panel, form, row = {}, quotas }) {
  const field = (name, label) => html`<${Field} key=${name} id=${`limit-${name}`} name=${name} label=${label} inputmode="numeric" defaultValue=${row[name] ?? ''} fault=${panel.fault(form, name)} />`;
  return html`
    <div class="numbers"><p>A second</p>${Object.entries(perSecond).map(([name, label]) => field(name, label))}</div>
    <p class="hint">What is empty is as usual on this service.</p>
    ${quotas && html`<div class="numbers"><p>Quotas</p>${Object.entries(quotaNames).map(([name, label]) => field(name, label))}</div>
      <p class="hint">Days and months begin at midnight UTC. What is empty has no quota.</p>
      <label class="check field"><input type="checkbox" name="export_jobs" value="on" defaultChecked=${row.export_jobs} /> <span>Export jobs, which are outside the quota of records</span></label>`}`;
}

function LimitsView() {
  const { id, new: making } = readQuery();
  const rows = limitPanel.data;
  const open = rows?.find((row) => rowName(row) === id);
  return html`<${AdminView} panel=${limitPanel} needs=${['admin', 'operator']} command="sluice plans set pro --records 1000 --records-per-month 5000000">
    ${keysOff() && html`<p class="notice" data-tone="wait" id="keys-off">API keys are off, so plans and the limits of keys have no effect.</p>`}
    ${making && html`<${RowForm} key=${making} kind=${making} row=${{}} />`}
    ${open && html`<${RowForm} key=${id} kind=${rowKind(open)} row=${open} />`}
    ${id && rows && !open && html`<p class="notice" data-tone="wait" id="row-missing"><span>There is no row <${Stored} text=${id} />.</span></p>`}
    <${PlanList} rows=${rows?.filter(({ plan }) => plan)} open=${id} />
    <${RowList} rows=${rows?.filter(({ plan }) => !plan)} open=${id} />
  <//>`;
}

const nameColumn = (name, text) => ({ name, of: (row) => html`<${Link} query=${{ ...readQuery(), new: '', id: rowName(row) }}><${Stored} text=${text(row)} /><//>` });

const usual = ({ action }) => (action === 'limit' || action === 'observe' ? html`<span class="none">usual</span>` : html`<${None} />`);

const limitColumns = [
  ...Object.entries({ records: 'Records/s', imports: 'Imports/s', requests: 'Requests/s' }).map(([key, name]) => ({ name, numeric: true, of: (row) => (row[key] ? number(row[key]) : usual(row)) })),
  ...Object.entries(quotaNames).map(([key, name]) => ({ name, numeric: true, of: (row) => (row[key] ? number(row[key]) : html`<${None} />`) })),
];

const noteColumn = { name: 'Note', of: ({ note }) => html`<${Stored} text=${note ?? ''} />` };

const PlanList = ({ rows, open }) => html`<section class="list" aria-labelledby="plans-title">
  <div class="bar spread"><h2 id="plans-title" tabindex="-1">Plans</h2><${Button} id="new-plan-row" icon="plus" style="primary" onClick=${() => openIn({ new: 'plan' })}>New plan<//></div>
  ${rows.length === 0 ? html`<${Empty} id="plans-empty" icon="layers" title="No plans yet"><p>A plan limits each of the API keys that have it: a second, a day and a month.</p><//>`
    : html`<${Table} id="plans-table" caption="Plans" rows=${rows} keyOf=${rowName} open=${open} columns=${[
      nameColumn('Plan', ({ plan }) => plan), ...limitColumns, { name: 'Export jobs', of: (row) => (row.export_jobs || !hasRecordQuota(row) ? 'yes' : 'no') }, noteColumn]} />`}
</section>`;

const hasRecordQuota = (row) => Boolean(row.records_per_day || row.records_per_month);

const RowList = ({ rows, open }) => html`<section class="list" aria-labelledby="rows-title">
  <div class="bar spread"><h2 id="rows-title" tabindex="-1">Addresses and single keys</h2>
    <div class="inline"><${Button} id="new-address-row" icon="plus" onClick=${() => openIn({ new: 'address' })}>Address<//><${Button} id="new-key-row" icon="plus" onClick=${() => openIn({ new: 'key' })}>Key<//></div></div>
  ${rows.length === 0 ? html`<${Empty} id="rows-empty" icon="gauge" title="All have the usual limits"><p>An address, a block of addresses or an API key can have limits of its own, or be blocked.</p><//>`
    : html`<${Table} id="rows-table" caption="Addresses and single keys" rows=${rows} keyOf=${rowName} open=${open} columns=${[
      nameColumn('Whose', rowName), { name: 'Action', of: ({ action }) => html`<span class="badge" data-state=${action}>${actionNames[action]}</span>` }, ...limitColumns,
      { name: 'Ends', of: ({ expires_at: at }) => (at ? html`<${Time} at=${at} />` : 'never') }, noteColumn]} />`}
</section>`;

const kindTitles = { plan: 'New plan', key: 'Limits of a key', address: 'Limits of addresses' };
const nameFields = {
  plan: { field: 'plan', label: 'Name', placeholder: 'pro' },
  key: { field: 'key_id', label: 'Id of the key', placeholder: '7m3kq2xw9abc' },
  address: { field: 'cidr', label: 'Address or block', placeholder: '192.0.2.0/24' },
};

/** Makes or changes a row, which is replaced as a whole, or removes it. */
function RowForm({ kind, row }) {
  const [action, setAction] = useState(row.action ?? 'limit');
  const form = useRef();
  const { field, label, placeholder } = nameFields[kind];
  const name = rowName(row);
  const submit = async (event) => {
    event.preventDefault();
    const values = new FormData(form.current);
    const text = (key) => (values.get(key) ?? '').trim();
    const sent = {
      [field]: row[field] ?? text(field), ...(kind !== 'plan' && { action }), ...(action !== 'block' && limitsIn(values)), note: text('note'),
      ...(text('expires_at') && { expires_at: toUTC(text('expires_at')) }),
    };
    const stored = await limitPanel.send('row', 'set_limit', sent);
    if (!stored) return focusFault('row-form');
    announce(`Stored ${rowName(stored)}. It takes effect within 60 seconds.`);
    openIn({});
    return $(kind === 'plan' ? 'plans-title' : 'rows-title').focus();
  };
  return html`<${Sheet} id="row-sheet" title=${name ? html`<${Stored} text=${name} />` : kindTitles[kind]} onClose=${() => openIn({})}>
    <form id="row-form" class="narrow" ref=${form} novalidate onSubmit=${submit}>
      ${!name && html`<${Field} id="row-name" name=${field} label=${label} placeholder=${placeholder} fault=${limitPanel.fault('row', field)} />`}
      ${kind !== 'plan' && html`<div class="field"><${Segments} name="action" legend="Action" value=${action} options=${actionNames} onChange=${setAction} /><p class="hint">${actionHints[action]}</p></div>`}
      ${action !== 'block' && html`<${LimitFields} panel=${limitPanel} form="row" row=${row} quotas=${kind !== 'address'} />`}
      <${Field} id="row-note" name="note" label="Note" optional defaultValue=${row.note ?? ''} fault=${limitPanel.fault('row', 'note')} />
      ${kind !== 'plan' && html`<${Field} id="row-expires" name="expires_at" label="Ends" optional type="datetime-local" defaultValue=${toInput(row.expires_at)} fault=${limitPanel.fault('row', 'expires_at')} />`}
      <button type="submit" class="primary wide" id="row-save" aria-disabled=${limitPanel.busy ? 'true' : undefined}>${name ? 'Change' : 'Store'}</button>
      <${Failure} panel=${limitPanel} form="row" />
    </form>
    ${name && html`<${RemoveRow} kind=${kind} row=${row} />`}
  <//>`;
}

function RemoveRow({ kind, row }) {
  const submit = async (event) => {
    event.preventDefault();
    const { field } = nameFields[kind];
    if (!await limitPanel.send('remove', 'remove_limit', { [field]: row[field] })) return;
    announce(`Removed ${rowName(row)}`);
    openIn({});
    $(kind === 'plan' ? 'plans-title' : 'rows-title').focus();
  };
  return html`<details class="fold" id="row-remove"><summary>Remove</summary>
    <form novalidate onSubmit=${submit}>
      <p>${kind === 'plan' ? 'A plan that keys have stays: give them another one first.' : 'The usual limits then apply, within 60 seconds.'}</p>
      <button type="submit" class="danger" aria-disabled=${limitPanel.busy ? 'true' : undefined}>Remove ${rowName(row)}</button>
      <${Failure} panel=${limitPanel} form="remove" />
    </form></details>`;
}
