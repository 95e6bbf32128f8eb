// The table of records.

/** Returns which order a click on a column's head leads to, or '' if the list has no such order. */
function orderOfColumn(query, { key, order, attribute }) {
  if (order) return Object.keys(conditionsOf(query)).length === 0 && (order === 'id' || !query.type) ? order : '';
  if (!attribute || query.resource !== 'entity' || !query.type) return '';
  const given = new Set(Object.keys(conditionsOf(query)).map((name) => partsOf(name)).filter(([, operator]) => !operator).map(([name]) => name));
  const serves = ({ type, attributes }) => {
    const at = attributes.findIndex(({ name }) => attributePrefix + name === key);
    return type === query.type && at >= 0 && attributes[at].value_type !== 'boolean' && attributes.slice(0, at).every(({ name }) => given.has(name));
  };
  return indexes.some(serves) ? key : '';
}

/** The head of a column, with a button if the list can be sorted by it. */
function Head({ query, column, numeric, sortBy }) {
  const order = orderOfColumn(query, column);
  const dir = query.dir ?? listOf(query).first;
  const active = order && order === query.order;
  const name = html`<${Stored} text=${column.name} />`;
  return html`<th scope="col" class=${classes(column, numeric)} aria-sort=${active ? `${dir}ending` : undefined}>
    ${order ? html`<button type="button" class="sort" onClick=${() => sortBy(order, active && order !== 'id' && dir === listOf(query).first ? otherDir(dir) : '')}>${name}${active && html`<${Icon} name=${dir === 'asc' ? 'arrow-up' : 'arrow-down'} />`}</button>` : name}
  </th>`;
}

const otherDir = (dir) => (dir === 'asc' ? 'desc' : 'asc');

const classes = ({ key, attribute }, numeric) => [attribute ? 'attribute' : `of-${key}`, numeric && 'numeric'].filter(Boolean).join(' ');

/** The content of a cell. */
function Cell({ query, column: { key, of }, record, align }) {
  const value = of(record);
  if (value === undefined || value === '') return html`<span class="none" aria-label="none">–</span>`;
  if (key === 'entity_id') return value === null ? html`<span class="none" aria-label="none">–</span>` : html`<${Link} keep query=${{ ...query, id: value, of: 'entity' }}><${Stored} text=${value} /><//>`;
  if (key.endsWith('_at')) return html`<${Time} at=${value} />`;
  return html`<${Value} value=${value} align=${align} />`;
}

/** A table of records. It is drawn again only if something that it shows has changed. */
class RecordTable extends Component {
  shouldComponentUpdate(next) { return Object.keys(next).some((name) => name !== 'sortBy' && next[name] !== this.props[name]); }

  render({ query, records, shown, open, sortBy }) {
    const columns = shown.map((column) => {
      const values = records.map(column.of).filter((value) => value !== undefined && value !== null);
      const numeric = values.length > 0 && values.every(isNumber);
      return { column, numeric, align: numeric ? Math.min(6, Math.max(...values.map((value) => decimals(textOfValue(value))))) : 0 };
    });
    const [{ column: first }, ...others] = columns;
    return html`<table id="records" onKeyDown=${moveBetweenRows}>
      <caption class="unseen">${resourceNames[query.resource]}</caption>
      <thead><tr>${columns.map(({ column, numeric }) => html`<${Head} key=${column.key} query=${query} column=${column} numeric=${numeric} sortBy=${sortBy} />`)}</tr></thead>
      <tbody>${records.map((record) => html`<tr key=${record.id} class=${record.id === open ? 'open' : ''} onClick=${openRow}>
        <th scope="row"><strong><${Link} keep query=${{ ...query, id: record.id, of: undefined }} aria-current=${record.id === open ? 'true' : undefined}><${Stored} text=${first.of(record)} /><//></strong></th>
        ${others.map(({ column, numeric, align }) => html`<td key=${column.key} class=${classes(column, numeric)}><${Cell} query=${query} column=${column} record=${record} align=${align} /></td>`)}
      </tr>`)}</tbody>
    </table>`;
  }
}

/** Opens the record of a row on which the user clicks, unless the click selects text or is on something else. */
function openRow(event) {
  if (event.target.closest('a, button') || String(getSelection())) return;
  event.currentTarget.querySelector('th a').click();
}

/** The arrow keys lead from row to row. */
function moveBetweenRows(event) {
  const row = event.target.closest('tbody tr');
  const next = row && { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
  if (!next) return;
  event.preventDefault();
  next.querySelector('th a').focus();
}

/** What is shown while the first page of a list is read. */
const Skeleton = ({ rows = 12 }) => html`<div class="skeleton" aria-hidden="true">${Array.from({ length: rows }, () => html`<span />`)}</div>`;
