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
const previewValues = 3;

/** The choices of how a file is written, by their names in a description. */
const writings = {
  format: { label: 'Format', options: { csv: 'CSV', ndjson: 'NDJSON', json: 'JSON' } },
  delimiter: { label: 'Between cells', of: ['csv'], options: { '': 'Comma', ';': 'Semicolon', '\t': 'Tab', '|': 'Pipe' } },
  quote: { label: 'Around cells', of: ['csv'], options: { '': 'Double quotes', "'": 'Single quotes', none: 'No quotes' } },
  encoding: { label: 'Encoding', options: {
    '': 'UTF-8', 'windows-1252': 'Western (windows-1252)', 'iso-8859-15': 'Western (iso-8859-15)', 'windows-1250': 'Central European (windows-1250)', 'windows-1251': 'Cyrillic (windows-1251)',
    macintosh: 'Mac (macintosh)', shift_jis: 'Japanese (shift_jis)', gbk: 'Chinese (gbk)', 'utf-16le': 'UTF-16, little-endian', 'utf-16be': 'UTF-16, big-endian',
  } },
};

/** What a file and its columns are. */
class ImportSetup {
  description = {}; columns = [];

  /** Takes a description and the columns of the file with their first values. */
  constructor({ description, columns }) {
    this.description = description;
    const described = Object.fromEntries((description.columns ?? []).map((column) => [column.source, column]));
    this.columns = columns.map(({ source, field, values }) => ({ type: described[source]?.type ?? '', source, values, ...roleOf(field) }));
    for (const { source, field = source, out, type = '' } of this.#unseen) if (description.format !== 'csv') this.columns.push({ source, type, values: [], ...roleOf(out ? '' : field) });
  }

  /** The columns that the description names but the table does not. */
  get #unseen() { return (this.description.columns ?? []).filter(({ source }) => !this.columns.some((column) => column.source === source)); }

  has(role) { return this.columns.some((column) => column.role === role); }

  /** Returns whether a member of the description matters, given the others. */
  matters(name) {
    const { resource, format, mirror } = this.description;
    const replaces = resource === 'entity' && mirror;
    switch (name) {
      case 'delimiter': case 'quote': case 'no_header': return format === 'csv';
      case 'skip_lines': return format !== 'json';
      case 'mirror': return resource === 'entity';
      case 'time': return resource === 'event';
      case 'time_formats': case 'time_zone': return this.has('occurred_at');
      case 'name': return resource === 'event' && !this.has('name');
      case 'type': return resource === 'entity' && (replaces || !this.has('type'));
      default: return true;
    }
  }

  /** Returns the description without its columns. */
  get layout() {
    const { columns, ...layout } = this.description;
    return Object.fromEntries(Object.entries(layout).filter(([name, value]) => this.matters(name) && value && !(Array.isArray(value) && value.length === 0)));
  }

  get whole() {
    return { ...this.layout, columns: [...this.#unseen, ...this.columns.map(({ source, role, name, type }) => {
      if (role === 'out') return { source, out: true };
      if (role !== 'attribute') return { source, field: role };
      return { source, field: attributePrefix + name, ...(type && { type }) };
    })] };
  }

  /** The columns that do not become what their names say. What the others become depends on whether rows replace entities. */
  get chosen() { return this.whole.columns.filter(({ source, field, type }) => type || field !== attributePrefix + source && !(field in mirrorFields)); }

  /** Adds a member of a nested object, such as properties.time, to the columns. */
  addMember(source) {
    if (!source || this.columns.some((column) => column.source === source)) return false;
    this.columns.push({ source, values: [], role: 'attribute', name: source, type: '' });
    return true;
  }
}

/** Returns what a column can become, with the words that the page uses. */
const rolesOf = ({ resource, mirror }) => ({ ...columnFields[resource], ...(mirror && mirrorFields), ...otherRoles });

function roleOf(field) {
  if (!field) return { role: 'out', name: '' };
  return field.startsWith(attributePrefix) ? { role: 'attribute', name: field.slice(attributePrefix.length) } : { role: field, name: '' };
}

/** A choice between texts; a value that is not among them is shown as it is. */
const Choice = ({ options, value = '', onChoose, ...others }) => html`<select ...${others} onChange=${(event) => onChoose(event.target.value)}>
  ${Object.entries(value in options ? options : { ...options, [value]: value }).map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}</select>`;

/** The form. */
function SetupForm({ setup, wrong, file }) {
  const { description } = setup;
  const set = (name, value) => importer.describe(name, value);
  const tick = (name, text, { id = `import-${name.replaceAll('_', '-')}`, value = true } = {}) => setup.matters(name) && html`<label class="check field"><input type="checkbox" id=${id} name=${name} checked=${Boolean(description[name])} onChange=${(event) => set(name, event.target.checked && value)} /> <span>${text}</span></label>`;
  const shown = Object.entries(writings).filter(([name]) => setup.matters(name));
  return html`<form id="import-setup" novalidate onSubmit=${(event) => { event.preventDefault(); importer.check(); }}>
    <h2 id="import-title" class="record-title" tabindex="-1"><${Stored} text=${file.name} />: ${bytes(file.size)}</h2>
    <${Segments} name="rows" legend="What the rows are" unseen value=${description.resource} options=${resourceNames} onChange=${(resource) => set('resource', resource)} />
    ${tick('mirror', html`Each row replaces the whole entity, or deletes it if the row says <code>deleted</code>`)}
    <details id="import-layout" class="fold">
      <summary id="import-written">How the file is written: ${shown.map(([name, { options }]) => options[description[name] ?? ''] ?? description[name]).join(', ')}</summary>
      <div class="filters">
        ${shown.map(([name, { label, options }]) => html`<${Field} key=${name} id=${`import-${name}`} label=${label}><${Choice} id=${`import-${name}`} options=${options} value=${description[name]} onChoose=${(value) => set(name, value)} /><//>`)}
        ${setup.matters('skip_lines') && html`<${Field} id="import-skip" label="Lines to skip" type="number" min="0" value=${description.skip_lines ?? ''} onChange=${(event) => set('skip_lines', Number(event.target.value))} />`}
        ${tick('no_header', 'The first row is a record, not a header')}
      </div>
    </details>
    <${ColumnTable} setup=${setup} />
    ${description.format !== 'csv' && html`<${NewMember} />`}
    <p class="field-error" id="import-error" role="alert">${wrong}</p>
    ${tick('time', 'Events without a time occur when they are imported', { id: 'import-now', value: 'now' })}
    ${setup.has('occurred_at') && html`<${TimeFields} description=${description} set=${set} />`}
    ${setup.matters('name') && html`<${Field} id="import-name" label="Name of all events" value=${description.name ?? ''} onChange=${(event) => set('name', event.target.value)} />`}
    ${setup.matters('type') && html`<${Field} id="import-type" label="Type of entities without one, if not “entity”" value=${description.type ?? ''} onChange=${(event) => set('type', event.target.value)}
      hint=${description.mirror ? 'If the file is a list of changes with a filter, the type of that filter: entities that have left it are deleted.' : ''} />`}
    ${tick('escape_ids', 'Replace characters that ids cannot have: a/b becomes a:2Fb')}
    ${!setup.has('id') && html`<p class="hint">Rows get an id from the content of the file and their line, so importing the file again stores nothing twice.</p>`}
    <div class="inline actions">
      <button type="submit" class="primary" id="import-check">Check the file</button>
      <${Button} id="import-save" onClick=${() => importer.saveDescription()}>Save this description<//>
      <label class="button quiet">Use a saved one<input type="file" id="import-saved" class="unseen" accept=".json" onChange=${(event) => importer.useSaved(event.target)} /></label>
      <${Button} onClick=${() => importer.restart()}>Choose another file<//>
    </div>
  </form>`;
}

const ColumnTable = ({ setup: { columns, description } }) => html`<div class="scroll" tabindex="0" role="region" aria-label="Columns of the file">
  <table id="import-columns"><caption class="unseen">The columns, what each becomes, and its first values</caption>
    <thead><tr>${['Column', 'Becomes', 'Attribute', 'Type', 'First values'].map((text) => html`<th scope="col">${text}</th>`)}</tr></thead>
    <tbody>${columns.map((column, i) => {
    const { source, role, name, type, values } = column;
    const change = (part, value) => importer.describeColumn(column, part, value);
    const attribute = role === 'attribute';
    return html`<tr key=${source}><th scope="row"><${Stored} text=${source} /></th>
      <td><${Choice} data-column=${i} data-part="role" aria-label=${`What becomes of the column ${source}`} options=${rolesOf(description)} value=${role} onChoose=${(value) => change('role', value)} /></td>
      <td><input data-column=${i} data-part="name" hidden=${!attribute} aria-label=${`Name of the attribute from the column ${source}`} value=${name} onChange=${(event) => change('name', event.target.value)} ...${plain} /></td>
      <td><${Choice} data-column=${i} data-part="type" hidden=${!attribute} aria-label=${`Type of the column ${source}`} options=${columnTypes} value=${type} onChoose=${(value) => change('type', value)} /></td>
      <td>${values.slice(0, previewValues).flatMap((value, n) => [n > 0 && ' · ', html`<${Stored} text=${value.slice(0, 60)} />`])}</td></tr>`;
  })}</tbody>
  </table>
</div>`;

function NewMember() {
  const add = () => {
    if (importer.addMember($('import-member').value.trim())) $('import-columns').querySelector('tbody tr:last-child select').focus();
    $('import-member').value = '';
  };
  return html`<div class="inline"><label for="import-member">Member of an object</label><input id="import-member" placeholder="properties.time" ...${plain} /><${Button} id="import-member-add" onClick=${add}>Add<//></div>`;
}

const TimeFields = ({ description, set }) => html`<div class="filters" id="import-times">
  <${Field} id="import-time-formats" label="Time formats"><textarea id="import-time-formats" class="mono" rows="2" placeholder="%d.%m.%Y %H:%M" aria-describedby="import-times-hint" ...${plain} value=${(description.time_formats ?? []).join('\n')}
    onChange=${(event) => set('time_formats', event.target.value.split('\n').map((line) => line.trim()).filter(Boolean))} /><//>
  <${Field} id="import-time-zone" label="Time zone" list="import-zones" placeholder="UTC" value=${description.time_zone ?? ''} onChange=${(event) => set('time_zone', event.target.value)} />
  <datalist id="import-zones">${Intl.supportedValuesOf('timeZone').map((value) => html`<option value=${value} />`)}</datalist>
  <p class="hint" id="import-times-hint">Without a format, times are like 2026-01-02T15:04:05Z. unix and unix_ms are seconds and milliseconds since 1970, and rfc3339 is the usual format. With several lines, the first that fits counts.</p>
</div>`;
