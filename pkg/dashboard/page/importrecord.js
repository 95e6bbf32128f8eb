// Makes records from rows, and finds what the service would reject.

/** What a column can become, by resource, with the words that the page uses. */
const columnRoles = {
  event: { id: 'Id', name: 'Name', entity_id: 'Entity id', occurred_at: 'Time', attribute: 'Attribute', attributes: 'All attributes, as JSON', out: 'Left out' },
  entity: { id: 'Id', type: 'Type', attribute: 'Attribute', attributes: 'All attributes, as JSON', out: 'Left out' },
};

const setByService = ['revision', 'created_at', 'updated_at'];

/** Returns what a column becomes by default, according to its name. */
function roleOf(resource, column) {
  if (setByService.includes(column)) return 'out';
  return column !== 'attribute' && column !== 'out' && Object.hasOwn(columnRoles[resource], column) ? column : 'attribute';
}

const attributeName = (column) => column.replace(/^attributes\./, '');

const mostRecordBytes = 256 << 10;
const deepest = 32; // levels of nesting in attributes

/**
 * Makes records from rows. columns is a list of { name, role }. common is the name
 * or type of all records if no column has it.
 */
class RecordMaker {
  constructor({ resource, columns, common, format, seed, sha256 }) {
    Object.assign(this, { resource, columns, common, format, seed, sha256 });
    this.commonField = resource === 'event' ? 'name' : 'type';
    this.hasTime = columns.some((c) => c.role === 'occurred_at');
  }

  /** Returns the record of a row as { json }, or what is wrong with it as { fault }. */
  make(row) {
    if (row.fault) return { fault: row.fault };
    const { fields, attributes, fault } = this.format === 'csv' ? this.#ofCells(row.cells) : this.#ofObject(row.value);
    if (fault) return { fault };
    if (this.common && fields[this.commonField] === undefined) fields[this.commonField] = this.common;
    const wrong = this.#wrong(fields);
    if (wrong) return { fault: wrong };
    fields.id ??= seededID(this.sha256, this.seed, row.line);
    const members = Object.entries(fields).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
    if (attributes) members.push(`"attributes":${attributes}`);
    const json = `{${members.join(',')}}`;
    if (json.length > mostRecordBytes / 3 && new TextEncoder().encode(json).length > mostRecordBytes) return { fault: 'the record is larger than 256 KB' };
    return { json };
  }

  #ofCells(cells) {
    if (cells.length !== this.columns.length) return { fault: `the row has ${cells.length} cells, but the header has ${this.columns.length}` };
    const fields = {}, members = [];
    let whole;
    for (const [i, { name, role }] of this.columns.entries()) {
      const cell = { quoted: cells[i].quoted, text: restoreFormulas(cells[i].text) };
      if (role === 'out' || (cell.text === '' && !(role === 'attribute' && cell.quoted))) continue;
      if (role === 'attribute') members.push(`${JSON.stringify(attributeName(name))}:${attributeJSON(cell)}`);
      else if (role === 'attributes') whole = cell.text;
      else fields[role] = cell.text;
    }
    if (whole !== undefined && !isObject(parseJSON(whole))) return { fault: 'attributes must be a JSON object' };
    return { fields, attributes: whole ?? (members.length > 0 ? `{${members.join(',')}}` : '') };
  }

  #ofObject(value) {
    const fields = {}, members = [];
    let whole;
    for (const [name, content] of Object.entries(value)) {
      const role = this.columns.find((c) => c.name === name)?.role;
      if (!role) return { fault: `${name} is not one of the columns above, which are those of the first rows` };
      if (role === 'out' || (content === null && role !== 'attribute')) continue;
      if (role === 'attribute') members.push(`${JSON.stringify(attributeName(name))}:${JSON.stringify(content)}`);
      else if (role === 'attributes' && !isObject(content)) return { fault: 'attributes must be a JSON object' };
      else if (role === 'attributes') whole = content;
      else if (typeof content !== 'string') return { fault: `${role} must be a string` };
      else fields[role] = content;
    }
    if (whole !== undefined && levels(whole) > deepest) return { fault: `attributes is nested deeper than ${deepest} levels` };
    return { fields, attributes: whole !== undefined ? JSON.stringify(whole) : members.length > 0 ? `{${members.join(',')}}` : '' };
  }

  /** Returns what is wrong with the fields of a record, in the words of the service, or '' if nothing is. */
  #wrong({ id, name, type, entity_id: entity, occurred_at: time }) {
    const fits = (text) => [...text].length >= 1 && [...text].length <= 128;
    if (id !== undefined && !isID(id)) return `id ${idRule}`;
    if (this.resource === 'entity') return type !== undefined && !fits(type) ? 'type must be 1 to 128 characters' : '';
    if (name === undefined) return 'name is required: 1 to 128 characters';
    if (!fits(name)) return 'name must be 1 to 128 characters';
    if (entity !== undefined && !isID(entity)) return `entity_id ${idRule}`;
    if (time === undefined) return this.hasTime && this.format === 'csv' ? 'the time is empty; for events that occur now, leave the column out' : '';
    return isDateTime(time) ? '' : 'occurred_at is not an RFC 3339 date-time such as 2026-01-02T15:04:05Z';
  }
}

const isObject = (value) => Boolean(value) && typeof value === 'object' && !Array.isArray(value) && !JSON.isRawJSON(value);

const levels = (value) => (value && typeof value === 'object' && !JSON.isRawJSON(value) ? 1 + Math.max(0, ...Object.values(value).map(levels)) : 0);

/** Returns whether a text is an RFC 3339 date-time on a day that exists. */
function isDateTime(text) {
  const match = /^(\d{4})-(\d\d)-(\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/.exec(text);
  if (!match) return false;
  const [year, month, day] = match.slice(1, 4).map(Number);
  return month >= 1 && month <= 12 && day >= 1 && day <= new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
}

/**
 * Returns the id of a record that has none in the file: a UUIDv8 (RFC 9562) made
 * from the seed, which is the SHA-256 of the file, and the number of the row's first
 * line. "sluice import" uses its journal's id as the seed, but the page has no journal.
 */
function seededID(sha256, seed, line) {
  const b = sha256.create().update(new Uint8Array(16)).update(`${seed} ${line}`).array().slice(0, 16);
  b[6] = (b[6] & 0x0f) | 0x80;
  b[8] = (b[8] & 0x3f) | 0x80;
  return b.map((n, i) => ([4, 6, 8, 10].includes(i) ? '-' : '') + n.toString(16).padStart(2, '0')).join('');
}
