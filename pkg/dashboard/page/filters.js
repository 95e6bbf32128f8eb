// The filters of a list of records: those that its order has and, for entities of a type, conditions
// on the attributes that are indexed.

/** The operators of conditions, by the type of the values. */
const operators = {
  text: { '': 'is', prefix: 'begins with', gte: 'is or comes after', lt: 'comes before' },
  number: { '': 'is', gte: 'at least', lte: 'at most', gt: 'more than', lt: 'less than' },
  boolean: { '': 'is' },
};

/** Returns the indexed attributes of a type, as { name, valueType, alone }; alone says whether a condition on others is not needed. */
function indexedAttributes(type) {
  const found = new Map();
  for (const { attributes } of indexes.filter((index) => index.type === type)) {
    attributes.forEach(({ name, value_type: valueType }, i) => found.set(name, { name, valueType, alone: i === 0 && attributes.length === 1 || found.get(name)?.alone }));
  }
  return [...found.values()];
}

/** The filters of a list: those in force, each with a button that removes it, and a menu that changes them. */
function Filters({ query, fault }) {
  const { filters } = listOf(query);
  const inForce = [...['type', 'entity_id', 'name', 'from', 'to'].filter((name) => query[name]), ...Object.keys(conditionsOf(query))];
  const remove = (name) => records.search({ [name]: '', preset: '', ...(name === 'type' && Object.fromEntries(Object.keys(conditionsOf(query)).map((condition) => [condition, '']))) });
  return html`
    ${inForce.map((name) => html`<span class="chip" key=${name}><span>${chipText(name, query[name])}</span><button type="button" class="bare" aria-label=${`Remove the filter ${name}`} onClick=${() => remove(name)}><${Icon} name="x" /></button></span>`)}
    <details class="menu" id="records-filters" open=${Boolean(fault)}>
      <summary class="button quiet"><${Icon} name="funnel" />Filter</summary>
      <${FilterForm} query=${query} filters=${filters} fault=${fault} />
    </details>`;
}

function chipText(name, value) {
  if (name === 'from' || name === 'to') return `${fieldNames[name]} ${instant(value)}`;
  if (!name.startsWith(attributePrefix)) return html`${fieldNames[name]} <${Stored} text=${value} />`;
  const [attribute, operator] = partsOf(name);
  return html`<${Stored} text=${attribute} /> ${{ gte: '≥', lte: '≤', gt: '>', lt: '<', prefix: 'begins with' }[operator] ?? 'is'} <${Stored} text=${value} />`;
}

function FilterForm({ query, filters, fault }) {
  const [type, setType] = useState(query.type ?? '');
  const form = useRef();
  const search = (change = {}) => {
    const given = new FormData(form.current);
    const times = Object.fromEntries(['from', 'to'].map((name) => [name, given.has(name) ? toUTC(given.get(name)) : query[name]]));
    const preset = times.from === toUTC(toInput(query.from)) && times.to === toUTC(toInput(query.to)) ? query.preset : '';
    records.search({ ...formQuery(given, type, query), ...times, preset, ...change });
    document.querySelector('#records-filters > summary').focus();
  };
  const of = (name) => ({ id: `records-${{ entity_id: 'entity' }[name] ?? name}`, name, defaultValue: query[name] ?? '', fault: fault?.field === name ? fault.text : '' });
  const typing = { from: toInput(query.from), to: toInput(query.to) };
  return html`<form id="records-form" class="sheet" aria-label="Filters" novalidate ref=${form} onSubmit=${(event) => { event.preventDefault(); search(); }}>
    ${query.resource === 'entity' && html`<${Field} ...${of('type')} label="Type" list="known-types" onInput=${(event) => setType(event.target.value)} />
      <datalist id="known-types">${[...new Set([...indexes.map((index) => index.type), ...records.list.records.map((r) => r.type)])].filter(Boolean).map((name) => html`<option value=${name} />`)}</datalist>
      ${type && indexedAttributes(type).map((attribute) => html`<${Condition} key=${attribute.name} attribute=${attribute} query=${query} />`)}
      ${indexedAttributes(type).length === 0 && html`<p class="hint">${type ? 'No attribute of this type is indexed.' : 'Choose a type to filter by its indexed attributes.'}</p>`}`}
    ${filters.includes('entity_id') && html`<${Field} ...${of('entity_id')} label="Entity id" />`}
    ${filters.includes('name') && (namesIndexed || query.name
      ? html`<${Field} ...${of('name')} label="Name" hint="Instead of an entity id." />`
      : html`<p class="hint">Events are not indexed by name. An operator does that with: <code>sluice indexes add --events name</code></p>`)}
    ${filters.includes('from') && html`<${Field} ...${of('from')} label="From" type="datetime-local" step="1" defaultValue=${typing.from} />`}
    ${filters.includes('to') && html`<${Field} ...${of('to')} label="Before" type="datetime-local" step="1" defaultValue=${typing.to} />`}
    ${filters.includes('from') && html`<${Presets} names=${filters.includes('to') ? Object.keys(presets) : ['hour', 'today', 'days', 'any']} chosen=${query.preset ?? ''} onChoose=${(name) => search({ ...presetRange(name), preset: name })} />`}
    <button type="submit" class="primary wide" id="records-show">Show</button>
  </form>`;
}

/** A condition on an indexed attribute. */
function Condition({ attribute: { name, valueType, alone }, query }) {
  const given = Object.entries(conditionsOf(query)).find(([condition]) => partsOf(condition)[0] === name);
  const [, operator] = given ? partsOf(given[0]) : ['', valueType === 'text' && alone ? 'prefix' : ''];
  return html`<fieldset class="condition">
    <legend><${Stored} text=${name} /></legend>
    <select name=${`operator ${name}`} aria-label=${`How to compare ${name}`}>${Object.entries(operators[valueType]).map(([value, text]) => html`<option value=${value} selected=${value === operator}>${text}</option>`)}</select>
    <input name=${`condition ${name}`} aria-label=${`Value of ${name}`} defaultValue=${given?.[1] ?? ''} inputmode=${valueType === 'number' ? 'decimal' : undefined} ...${plain} />
  </fieldset>`;
}

/** Returns what a form says, but for its times. */
function formQuery(given, type, query) {
  const change = Object.fromEntries(Object.keys(conditionsOf(query)).map((name) => [name, '']));
  for (const name of ['type', 'entity_id', 'name']) if (given.has(name)) change[name] = given.get(name).trim();
  for (const [key, value] of given) {
    if (!key.startsWith('condition ') || !value) continue;
    const name = key.slice('condition '.length);
    const operator = given.get(`operator ${name}`);
    change[`${attributePrefix}${name}${operator && `[${operator}]`}`] = value;
  }
  if (query.resource === 'entity' && (change.type !== query.type || Object.keys(conditionsOf(change)).length > 0)) change.order = '';
  return change;
}
