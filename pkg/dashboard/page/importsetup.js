// The form that says what an imported file is and what its columns become. Its content is a
// description of the file, in the form that "sluice import --save-as" also writes.

/** What a column can become, by resource, besides an attribute, with the words that the page uses. */
const columnFields = {
  event: { id: 'Id', name: 'Name', entity_id: 'Entity id', occurred_at: 'Time' },
  entity: { id: 'Id', type: 'Type' },
};
const mirrorFields = { deleted: 'Whether it is deleted', reason: 'Why a list of changes lacks it' };
const otherRoles = { attribute: 'Attribute', attributes: 'All attributes, as JSON', out: 'Left out' };
const columnTypes = { '': 'By the values', text: 'Text', number: 'Number', boolean: 'True or false', json: 'JSON' };
const attributePrefix = 'attributes.';

class ImportSetup {
  #description = {}; #columns = []; #onChange; #onLayout;

  /** onChange is called when the description has changed, and onLayout with the description if the file must also be read again to find its columns. */
  constructor(onChange, onLayout) {
    this.#onChange = onChange;
    this.#onLayout = onLayout;
    $('import-zones').replaceChildren(...Intl.supportedValuesOf('timeZone').map((value) => make('option', { value })));
    $('import-setup').addEventListener('change', ({ target }) => {
      if (target.id === 'import-saved' || target.id === 'import-member') return;
      if (target.dataset.column) this.#setColumn(this.#columns[target.dataset.column], target);
      this.#arrange();
      if (target.name === 'resource' || $('import-layout').contains(target)) this.#onLayout(this.layout);
      else if (target.name === 'mirror') this.#onLayout({ ...this.layout, columns: this.#chosen });
      else this.#onChange();
    });
    $('import-member-add').addEventListener('click', () => {
      this.#addMember($('import-member').value.trim());
      $('import-member').value = '';
    });
  }

  get #inputs() { return [...$('import-setup').elements].filter((input) => input.name && input.type !== 'radio'); }
  get resource() { return document.querySelector('#import-setup [name=resource]:checked').value; }

  /** Shows a description and the columns of the file with their first values. */
  show({ description, columns }) {
    this.#description = description;
    document.querySelector(`#import-setup [value=${description.resource}]`).checked = true;
    for (const input of this.#inputs) this.#fill(input, description[input.name]);
    const described = Object.fromEntries((description.columns ?? []).map((column) => [column.source, column]));
    this.#columns = columns.map(({ source, field, values }) => ({ type: described[source]?.type, source, values, ...roleOf(field) }));
    for (const { source, field = source, out, type } of this.#unseen) if (description.format !== 'csv') this.#columns.push({ source, type, values: [], ...roleOf(out ? '' : field) });
    $('import-columns').tBodies[0].replaceChildren(...this.#columns.map((column, i) => this.#row(column, i)));
    this.#arrange();
  }

  /** The columns that the description names but the table does not. */
  get #unseen() { return (this.#description.columns ?? []).filter(({ source }) => !this.#columns.some((column) => column.source === source)); }

  /** Adds a member of a nested object, such as properties.time, to the columns. */
  #addMember(source) {
    if (!source || this.#columns.some((column) => column.source === source)) return;
    this.#columns.push({ source, values: [], role: 'attribute', name: source });
    const row = this.#row(this.#columns.at(-1), this.#columns.length - 1);
    $('import-columns').tBodies[0].append(row);
    this.#arrange();
    this.#onChange();
    row.querySelector('select').focus();
  }

  #fill(input, value = '') {
    const text = Array.isArray(value) ? value.join('\n') : String(value);
    if (input.options && ![...input.options].some((option) => option.value === text)) input.append(make('option', { value: text }, text));
    if (input.type === 'checkbox') input.checked = Boolean(value);
    else input.value = text;
  }

  /** Returns the description without its columns. */
  get layout() {
    const description = { ...this.#description, resource: this.resource };
    delete description.columns;
    for (const input of this.#inputs) {
      const value = valueOf(input);
      if (value && isShown(input)) description[input.name] = value;
      else delete description[input.name];
    }
    return description;
  }

  get description() {
    return { ...this.layout, columns: [...this.#unseen, ...this.#columns.map(({ source, role, name, type }) => {
      if (role === 'out') return { source, out: true };
      if (role !== 'attribute') return { source, field: role };
      return { source, field: attributePrefix + name, ...(type && { type }) };
    })] };
  }

  /** The columns that do not become what their names say. What the others become depends on whether rows replace entities. */
  get #chosen() { return this.description.columns.filter(({ source, field, type }) => type || field !== attributePrefix + source && !(field in mirrorFields)); }

  #row(column, i) {
    const choose = (part, options, label) => {
      const select = make('select', { 'data-column': i, 'data-part': part, 'aria-label': `${label} ${column.source}` }, ...Object.entries(options).map(([value, text]) => make('option', { value }, text)));
      select.value = column[part] ?? select.options[0].value;
      return select;
    };
    const name = make('input', { 'data-column': i, 'data-part': 'name', 'aria-label': `Name of the attribute from the column ${column.source}`, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none' });
    name.value = column.name;
    return make('tr', {}, make('th', { scope: 'row' }, stored(column.source)),
      make('td', {}, choose('role', rolesOf(this.#description), 'What becomes of the column')),
      make('td', {}, name),
      make('td', {}, choose('type', columnTypes, 'Type of the column')),
      make('td', {}, ...column.values.slice(0, previewValues).flatMap((value, n) => [n > 0 ? ' · ' : '', stored(value.slice(0, 60))])));
  }

  #setColumn(column, { dataset, value }) { column[dataset.part] = value; }

  /** Shows only the inputs that matter. */
  #arrange() {
    const { resource } = this;
    const format = $('import-format').value;
    for (const part of document.querySelectorAll('#import-setup [data-for]')) part.hidden = !part.dataset.for.split(' ').some((word) => word === format || word === resource);
    for (const [i, column] of this.#columns.entries()) {
      for (const input of document.querySelectorAll(`[data-column="${i}"]:not([data-part=role])`)) input.hidden = column.role !== 'attribute';
    }
    const written = [...document.querySelectorAll('#import-layout select')].filter((select) => isShown(select)).map((select) => select.selectedOptions[0].text);
    say($('import-written'), `How the file is written: ${written.join(', ')}`);
    const roles = this.#columns.map((column) => column.role);
    $('import-times').hidden = !roles.includes('occurred_at');
    const replaces = resource === 'entity' && $('import-mirror').checked;
    $(`import-${resource === 'event' ? 'name' : 'type'}-field`).hidden = !replaces && roles.includes(resource === 'event' ? 'name' : 'type');
    say($('import-type-hint'), replaces ? 'If the file is a list of changes with a filter, the type of that filter: entities that have left it are deleted.' : '');
    say($('import-ids'), roles.includes('id') ? '' : 'Rows get an id from the content of the file and their line, so importing the file again stores nothing twice.');
  }
}

/** Returns what a column can become, with the words that the page uses. */
const rolesOf = ({ resource, mirror }) => ({ ...columnFields[resource], ...(mirror && mirrorFields), ...otherRoles });

function roleOf(field) {
  if (!field) return { role: 'out', name: '' };
  return field.startsWith(attributePrefix) ? { role: 'attribute', name: field.slice(attributePrefix.length) } : { role: field, name: '' };
}

const isShown = (input) => !input.closest('#import-setup [hidden]');

function valueOf(input) {
  if (input.type === 'checkbox') return input.checked && (input.getAttribute('value') ?? true);
  if (input.type === 'number') return Number(input.value);
  if (input.dataset.lines === undefined) return input.value;
  const lines = input.value.split('\n').map((line) => line.trim()).filter(Boolean);
  return lines.length > 0 && lines;
}
