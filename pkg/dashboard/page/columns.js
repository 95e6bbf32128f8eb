// The columns of the table of records: an attribute has its own. The user chooses and orders them,
// and the browser remembers the choice for each type of entities and each name of events.

const columnStore = 'sluice-columns';
const mostDefault = 8; // attributes that have a column unless the user chooses others

/** The columns that all records of a resource have. The first one leads to the record. order is the list that it sorts. */
const fixedColumns = {
  event: [
    { key: 'name', name: 'Name', of: (e) => e.name },
    { key: 'occurred_at', name: 'Occurred', of: (e) => e.occurred_at, order: 'occurred' },
    { key: 'entity_id', name: 'Entity', of: (e) => e.entity_id },
    { key: 'attributes', name: 'All attributes', of: (e) => e.attributes },
    { key: 'created_at', name: 'Created', of: (e) => e.created_at, order: 'created' },
    { key: 'id', name: 'Id', of: (e) => e.id },
  ],
  entity: [
    { key: 'id', name: 'Id', of: (e) => e.id, order: 'id' },
    { key: 'type', name: 'Type', of: (e) => e.type },
    { key: 'attributes', name: 'All attributes', of: (e) => e.attributes },
    { key: 'updated_at', name: 'Changed', of: (e) => e.updated_at, order: 'changed' },
    { key: 'created_at', name: 'Created', of: (e) => e.created_at },
    { key: 'revision', name: 'Revision', of: (e) => e.revision },
  ],
};

const kindOfRecord = { event: (e) => e.name, entity: (e) => e.type };

/** Returns the type, or name, that all of the records have, or '' if there are several. */
function commonType(resource, records) {
  const types = new Set(records.map(kindOfRecord[resource]));
  return types.size === 1 ? [...types][0] : '';
}

/** Returns the columns of attributes, most frequent first, each with how many of the records have it. */
function attributeColumns(records) {
  const counts = new Map();
  for (const { attributes } of records) for (const name of Object.keys(attributes)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a).map(([name, n]) => attributeColumn(name, n / records.length));
}

// A function of its own, so that a column does not keep the records in memory.
const attributeColumn = (name, share) => ({
  key: attributePrefix + name, name, attribute: true, share, of: ({ attributes }) => (Object.hasOwn(attributes, name) ? attributes[name] : undefined),
});

/** Returns { all, shown }: the columns that records can have, and those that the table shows, in order. */
function columnsOf(resource, records) {
  const fixed = fixedColumns[resource];
  const attributes = attributeColumns(records);
  const all = [...fixed, ...attributes];
  const chosen = rememberedColumns()[columnKey(resource, records)];
  if (chosen) return { all, shown: [fixed[0], ...chosen.map((key) => all.find((column) => column.key === key)).filter((column) => column && column !== fixed[0])] };
  const own = attributes.filter(({ share }) => share >= 1 / 3).slice(0, mostDefault);
  const [first, second, third, summary, last] = fixed;
  const rest = own.length < attributes.length ? [summary] : [];
  if (resource === 'event') return { all, shown: [first, second, third, ...own, ...rest] };
  return { all, shown: [first, ...(commonType(resource, records) ? [] : [second]), ...own, ...(own.length < attributes.length ? [third] : []), summary] };
}

const columnKey = (resource, records) => `${caller.workspace} ${resource} ${commonType(resource, records)}`;

function rememberedColumns() {
  try { return parseJSON(localStorage.getItem(columnStore)) ?? {}; } catch { return {}; }
}

/** Remembers the keys of the columns that a table shows. Without keys, it shows the usual ones again. */
function rememberColumns(resource, records, keys) {
  try { localStorage.setItem(columnStore, JSON.stringify({ ...rememberedColumns(), [columnKey(resource, records)]: keys })); } catch { /* storage is forbidden */ }
}

/** The menu that chooses the columns and their order. */
function ColumnMenu({ resource, records }) {
  const { all, shown } = columnsOf(resource, records);
  const keys = shown.map(({ key }) => key);
  const choose = (chosen) => {
    rememberColumns(resource, records, chosen);
    draw();
  };
  const move = (key, by) => {
    const chosen = keys.filter((k) => k !== key);
    chosen.splice(Math.max(1, keys.indexOf(key) + by), 0, key);
    choose(chosen);
  };
  const rows = [...shown.slice(1), ...all.filter((column) => !shown.includes(column))];
  return html`<details class="menu" id="columns">
    <summary class="button quiet"><${Icon} name="columns-3" />Columns</summary>
    <div class="sheet">
      <ol>${rows.map(({ key, name, attribute }) => html`<li key=${key}>
        <label class="check"><input type="checkbox" name=${key} checked=${keys.includes(key)} onChange=${() => choose(keys.includes(key) ? keys.filter((k) => k !== key) : [...keys, key])} />
          <span class=${attribute ? 'mono' : ''}><${Stored} text=${name} /></span></label>
        ${keys.includes(key) && html`<span class="moves">
          <button type="button" class="bare" aria-label=${`Move ${name} to the left`} onClick=${() => move(key, -1)}><${Icon} name="chevron-up" /></button>
          <button type="button" class="bare" aria-label=${`Move ${name} to the right`} onClick=${() => move(key, 1)}><${Icon} name="chevron-down" /></button></span>`}
      </li>`)}</ol>
      <${Button} onClick=${() => choose(undefined)}>Usual columns<//>
    </div>
  </details>`;
}
