// The values of attributes: what kind they are, how they are shown, and how they are written.
// Numbers are kept with all their digits, as call with exact returns them.

const isNumber = (value) => typeof value === 'number' || Boolean(JSON.isRawJSON?.(value));

/** Returns the kind of a value: null, boolean, number, time, text or json. */
function kindOf(value) {
  if (value === null) return 'null';
  if (isNumber(value)) return 'number';
  if (typeof value === 'boolean') return 'boolean';
  if (typeof value === 'object') return 'json';
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(value) && isTime(value) ? 'time' : 'text';
}

const kindNames = { text: 'Text', number: 'Number', boolean: 'True or false', time: 'Time', json: 'JSON', null: 'Null' };

/** Returns a value as the text that a user edits. */
const textOfValue = (value, kind = kindOf(value)) => ({ number: JSON.stringify, boolean: String, json: (v) => JSON.stringify(v, null, 2), null: () => '' }[kind] ?? String)(value);

/** Returns the value of a text that a user has entered. Throws an Error whose message says what is wrong. */
function valueOfText(kind, text) {
  switch (kind) {
    case 'null': return null;
    case 'boolean': return text === 'true';
    case 'number':
      if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim())) throw new Error('is not a number, such as 12.50');
      return JSON.parse(text, keepDigits);
    case 'time':
      if (!isTime(text)) throw new Error('is not a time, such as 2026-01-02T15:04:05Z');
      return text;
    case 'json':
      try {
        return JSON.parse(text, keepDigits);
      } catch {
        throw new Error('is not JSON');
      }
    default: return text;
  }
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** One value as a table or a record shows it. align is the number of decimal places of its column. */
function Value({ value, align }) {
  switch (kindOf(value)) {
    case 'null': return html`<span class="null">null</span>`;
    case 'boolean': return html`<span class=${`flag ${value}`}>${String(value)}</span>`;
    case 'number': return textOfValue(value) + padding(textOfValue(value), align);
    case 'time': return html`<${Time} at=${value} />`;
    case 'json': return html`<code><bdi>${visibleJSON(value)}</bdi></code>`;
    default: return html`<${Stored} text=${value} />`;
  }
}

const decimals = (text) => (/^-?\d+(\.\d+)?$/.test(text) ? text.length - 1 - (`${text}.`.indexOf('.')) : 0);

/** Returns the spaces that put the decimal point of a number below those of its column. */
function padding(text, align = 0) {
  const own = Math.max(0, decimals(text));
  return own >= align ? '' : `${own === 0 ? '\u2008' : ''}${'\u2007'.repeat(align - own)}`;
}

/** Returns the merge patch (RFC 7396) that turns one object into another. */
function patchOf(from, to) {
  const patch = {};
  for (const name of Object.keys(from)) if (!Object.hasOwn(to, name)) patch[name] = null;
  for (const [name, value] of Object.entries(to)) {
    if (Object.hasOwn(from, name) && same(from[name], value)) continue;
    patch[name] = isObject(value) && isObject(from[name]) ? patchOf(from[name], value) : value;
  }
  return patch;
}

const isObject = (value) => kindOf(value ?? null) === 'json' && !Array.isArray(value);

/** Returns whether a merge patch can turn an object into another: it cannot store null. */
const isPatchable = (from, to) => Object.entries(to).every(([name, value]) => same(from[name], value) || !hasNull(value));

const hasNull = (value) => value === null || (isObject(value) && Object.values(value).some(hasNull));

/** Returns what differs between two objects, as { name, before, after }; a missing value is undefined. */
function changesBetween(before, after) {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .map((name) => ({ name, before: before[name], after: after[name] }))
    .filter((change) => !same(change.before, change.after));
}
