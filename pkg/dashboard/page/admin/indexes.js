// The view of indexes: those of the caller's workspace, how far they are, and a form that declares one.

const buildInterval = 1000; // milliseconds between two reads while an index is being built or removed
const slowest = 65_000; // milliseconds until all instances of the service list a change
const mostAttributes = 3; // that an index can have

/**
 * Its data is { all, gap, changed }: the indexes, why the caller cannot change them, though it can see
 * them, and the indexes that it has changed lately, by name, as { index, until }.
 */
const indexPanel = new AdminPanel('indexes', async (signal) => {
  const { gap: before, changed = new Map() } = indexPanel.data ?? {};
  const gap = before === '' ? '' : await gapNow(signal);
  const response = await call('GET', 'entity_index', { signal });
  takeIndexes(response.data.data);
  return { ...response, data: { all: withChanges(response.data.data, changed), gap, changed } };
}, () => (indexPanel.data.all.every(({ state }) => state === 'ready') ? usualInterval : buildInterval));

/** Returns indexes with the caller's own changes, which the list may lack for a while. */
function withChanges(all, changed) {
  const lately = [...changed.values()].filter(({ until }) => Date.now() < until).map(({ index }) => index);
  const removed = new Set(lately.filter(({ state }) => state === 'removing').map(indexName));
  const added = lately.filter((index) => index.state !== 'removing' && !all.some((other) => indexName(other) === indexName(index)));
  return [...all.map((index) => (removed.has(indexName(index)) ? { ...index, state: 'removing' } : index)), ...added];
}

/** Sends a change of an index. Resolves to the index, or to undefined if the change failed. */
async function changeIndex(form, path, body) {
  const index = await indexPanel.send(form, path, body);
  if (index) indexPanel.data?.changed.set(indexName(index), { index, until: Date.now() + slowest });
  return index;
}

const valueTypes = { text: 'Text', number: 'Number', boolean: 'True or false' };
const stateNames = { writing: 'Starting', building: 'Building', ready: 'Ready', removing: 'Being removed' };
const stateTexts = {
  writing: 'First, all instances of the service begin to write it, which takes up to three minutes in a deployment. Then what is stored already is added.',
  building: 'What is stored already is being added. Queries can use it when that is done.',
  removing: 'Its entries are being removed. Then it is gone.',
};

/** Returns the name of an index, which is also in the audit trail. */
const indexName = ({ resource, type, attributes }) => (resource === 'event' ? 'events by name' : `${type}.${attributes.map(({ name }) => name).join('+')}`);

const indexTitle = (index) => (index.resource === 'event' ? 'Events by name' : html`<${Stored} text=${indexName(index)} />`);

/** Returns the query for the records that an index finds, in its order if one value need not be given first. */
function queryOfIndex({ resource, type, attributes: [{ name, value_type: valueType }, ...others] }) {
  if (resource === 'event') return { resource };
  return { resource, type, ...(others.length === 0 && valueType !== 'boolean' && { order: `attributes.${name}` }) };
}

const indexCommand = 'sluice indexes add person email';

function IndexesView() {
  const { id, new: making } = readQuery();
  const { all = [], gap } = indexPanel.data ?? {};
  const open = all.find((index) => indexName(index) === id);
  return html`<${AdminView} panel=${indexPanel} needs=${['admin', 'export']} command=${indexCommand}>
    ${making && !gap && html`<${NewIndex} />`}
    ${open && html`<${OpenIndex} key=${id} shown=${open} fixed=${gap} />`}
    ${id && indexPanel.data && !open && html`<p class="notice" data-tone="wait" id="index-missing"><span>There is no index <${Stored} text=${id} /> in your workspace.</span></p>`}
    <${IndexList} all=${all} open=${id} fixed=${gap} />
    ${gap && html`<${Gap} gap=${gap} what="Declaring and removing indexes" needs=${['admin']} command=${indexCommand} />`}
  <//>`;
}

const IndexList = ({ all, open, fixed }) => html`<section class="list" aria-labelledby="indexes-title">
  <div class="bar spread"><h2 id="indexes-title" tabindex="-1">${all.length === 1 ? '1 index' : `${number(all.length)} indexes`}</h2>
    ${!fixed && html`<${Button} id="new-index" icon="plus" style="primary" onClick=${() => openIn({ new: 'index' })}>New index<//>`}</div>
  ${all.length === 0 ? html`<${Empty} id="indexes-empty" icon="list-tree" title="No indexes yet"><p>An index finds entities by the values of up to three attributes, and sorts by them, or finds events by name.</p><//>`
    : html`<${Table} id="indexes-table" caption="Indexes" rows=${all} keyOf=${indexName} open=${open} columns=${[
      { name: 'Index', of: (index) => html`<${Link} query=${{ ...readQuery(), new: '', id: indexName(index) }}>${indexTitle(index)}<//>` },
      { name: 'Values', of: attributeTexts },
      { name: 'State', of: (index) => html`<${IndexState} index=${index} /> <${IndexProgress} index=${index} />` },
      { name: 'Records', of: (index) => (index.state === 'ready' ? html`<${Link} query=${queryOfIndex(index)}>Show<span class="unseen"> what ${indexTitle(index)} finds</span><//>` : html`<${None} />`) },
    ]} />`}
</section>`;

const attributeTexts = ({ attributes }) => attributes.map(({ name, value_type: valueType, fold }, i) => html`${i > 0 && ', '}<span class="mono"><${Stored} text=${name} /></span> ${valueTypes[valueType].toLowerCase()}${fold && ' in any case'}`);

const IndexState = ({ index: { state } }) => html`<span class="badge" data-state=${state}>${stateNames[state]}</span>`;

const IndexProgress = ({ index: { state, done } }) => state === 'building' && html`<span class="progressing"><progress max="1" value=${done} aria-label="Progress" /> ${Math.floor(100 * done)} %</span>`;

/** One index. fixed says that the caller cannot remove it. */
const OpenIndex = ({ shown: index, fixed }) => html`<${Sheet} id="open-index" title=${indexTitle(index)} onClose=${() => openIn({})}>
  <dl class="facts">
    <${Fact} name="Finds">${index.resource === 'event' ? 'events' : html`entities of the type <${Stored} text=${index.type} />`}<//>
    <${Fact} name="By">${attributeTexts(index)}<//>
    <${Fact} name="State"><${IndexState} index=${index} /><//>
  </dl>
  <${IndexProgress} index=${index} />
  ${stateTexts[index.state] && html`<p class="hint">${stateTexts[index.state]}</p>`}
  <div class="inline actions">
    ${index.state === 'ready' && html`<${Link} class="button quiet" id="index-records" query=${queryOfIndex(index)}><${Icon} name="table-2" />Show the records<//>`}
    ${!fixed && html`<${Link} class="button quiet" query=${{ view: 'audit', thing: `index:${indexName(index)}` }}><${Icon} name="scroll-text" />What was changed<//>`}
  </div>
  ${!fixed && index.state !== 'removing' && html`<${IndexRemoval} index=${index} />`}
<//>`;

function IndexRemoval({ index: { resource, type, attributes } }) {
  const submit = async (event) => {
    event.preventDefault();
    const body = resource === 'event' ? { resource } : { resource, type, attributes: attributes.map(({ name }) => name) };
    if (!await changeIndex('remove', 'remove_entity_index', body)) return;
    announce('The index is being removed');
    $('open-index-title')?.focus();
  };
  return html`<details class="fold" id="index-remove"><summary>Remove this index</summary>
    <form novalidate onSubmit=${submit}>
      <p>What uses it gets an error at once: queries and lists in its order. No record is changed, and it can be declared again.</p>
      <button type="submit" class="danger" aria-disabled=${indexPanel.busy ? 'true' : undefined}>Remove the index</button>
      <${Failure} panel=${indexPanel} form="remove" />
    </form></details>`;
}

const newAttribute = (key = 0) => ({ key, name: '', value_type: 'text', fold: false });

function NewIndex() {
  const [resource, setResource] = useState('entity');
  const [attributes, setAttributes] = useState([newAttribute()]);
  const change = (key, values) => setAttributes(attributes.map((attribute) => (attribute.key === key ? { ...attribute, ...values } : attribute)));
  const remove = (key) => {
    setAttributes(attributes.filter((attribute) => attribute.key !== key));
    $('index-name-0').focus();
  };
  const submit = async (event) => {
    event.preventDefault();
    const of = {
      type: $('index-type')?.value.trim(),
      attributes: attributes.map(({ name, value_type, fold }) => ({ name: name.trim(), value_type, ...(fold && value_type === 'text' && { fold }) })),
    };
    const made = await changeIndex('new', 'create_entity_index', { resource, ...(resource === 'entity' && of) });
    if (!made) return focusFault('new-index-form');
    announce('The index is declared');
    return openIn({ id: indexName(made) });
  };
  const fault = indexPanel.fault('new', 'attributes');
  return html`<${Sheet} id="new-index-sheet" title="New index" onClose=${() => openIn({})}>
    <form id="new-index-form" class="narrow" novalidate onSubmit=${submit}>
      <${Segments} name="index-of" legend="It finds" value=${resource} options=${{ entity: 'Entities', event: 'Events by name' }} onChange=${setResource} />
      ${resource === 'entity' && html`
        <${Field} id="index-type" label="Type of the entities" placeholder="person" fault=${indexPanel.fault('new', 'type')} />
        ${attributes.map((attribute, i) => html`<${IndexAttribute} key=${attribute.key} i=${i} attribute=${attribute} fault=${fault} change=${(values) => change(attribute.key, values)} remove=${attributes.length > 1 && (() => remove(attribute.key))} />`)}
        <p class="field-error" id="index-attributes-error">${fault}</p>
        ${attributes.length > 1 && html`<p class="hint">A query gives one value of each attribute but the last that it names. So the first is the one that is always given.</p>`}
        ${attributes.length < mostAttributes && html`<div class="actions"><${Button} id="add-attribute" icon="plus" onClick=${() => setAttributes([...attributes, newAttribute(Math.max(...attributes.map(({ key }) => key)) + 1)])}>Another attribute<//></div>`}`}
      <p class="hint actions">It is of the workspace <${Stored} text=${caller.workspace} />. Each index makes storing what it covers cost a write more.</p>
      <button type="submit" class="primary wide" id="declare" aria-disabled=${indexPanel.busy ? 'true' : undefined}>Declare the index</button>
      <${Failure} panel=${indexPanel} form="new" />
    </form>
  <//>`;
}

function IndexAttribute({ i, attribute: { name, value_type: valueType, fold }, fault, change, remove }) {
  const label = i === 0 ? 'Attribute' : `Attribute ${i + 1}`;
  return html`<fieldset class="index-attribute"><legend class="unseen">${label}</legend>
    <${Field} id=${`index-name-${i}`} label=${label}><input id=${`index-name-${i}`} value=${name} placeholder="email" aria-invalid=${fault ? 'true' : undefined} aria-describedby="index-attributes-error" onInput=${(event) => change({ name: event.target.value })} ...${plain} /><//>
    <${Field} id=${`index-values-${i}`} label="Its values"><select id=${`index-values-${i}`} onChange=${(event) => change({ value_type: event.target.value })}>${Object.entries(valueTypes).map(([key, text]) => html`<option value=${key} selected=${key === valueType}>${text}</option>`)}</select><//>
    ${remove && html`<button type="button" class="bare" aria-label=${`Remove ${label}`} onClick=${remove}><${Icon} name="trash-2" /></button>`}
    ${valueType === 'text' && html`<label class="check"><input type="checkbox" checked=${fold} onChange=${() => change({ fold: !fold })} /> <span>Upper and lower case are the same</span></label>`}
  </fieldset>`;
}
