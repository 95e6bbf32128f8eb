// Formats numbers, times and commands as text.

const numbers = new Intl.NumberFormat('en');
const dateTime = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });
const timeOnly = new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' });

const number = (n) => numbers.format(n);
const count = (n, noun) => `${number(n)} ${noun}${n === 1 ? '' : 's'}`;
const clock = (seconds) => timeOnly.format(new Date(1000 * seconds));

/**
 * Returns an instant in the time zone of the browser. If the argument is not an
 * instant, the function returns it unchanged.
 */
function instant(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : dateTime.format(date);
}

/** Returns the size of a file, in units of 1,000 bytes. */
function bytes(n) {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  for (; n >= 999.5 && i < units.length - 1; i++) n /= 1000;
  return `${i > 0 && n < 9.95 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

/** Returns the rounded time between two instants. */
function duration(from, to) {
  const s = Math.max(0, Math.round((new Date(to) - new Date(from)) / 1000));
  if (s < 1) return 'less than a second';
  if (s < 120) return count(s, 'second');
  if (s < 7200) return count(Math.round(s / 60), 'minute');
  return count(Math.round(s / 3600), 'hour');
}

/** Returns text as a sentence. */
function sentence(text) {
  const s = text.trim();
  return s.charAt(0).toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? '' : '.');
}

/**
 * Returns the value of a datetime-local input as RFC 3339 in UTC, or '' if it is
 * empty.
 */
function toUTC(local) {
  return local ? new Date(local).toISOString() : '';
}

/**
 * Returns an RFC 3339 time as the value of a datetime-local input, or '' if it
 * is invalid.
 */
function toLocal(text) {
  const date = new Date(text);
  if (!text || Number.isNaN(date.getTime())) return '';
  return new Date(date - 60_000 * date.getTimezoneOffset()).toISOString().slice(0, 19);
}

/** Functions that return the start of each preset range. */
const presets = {
  hour: () => new Date(Date.now() - 3_600_000),
  today: () => new Date(new Date().setHours(0, 0, 0, 0)),
  week: () => new Date(Date.now() - 7 * 86_400_000),
  any: () => null,
};

/**
 * Returns the start of a preset range as RFC 3339 in UTC, to the second, or ''
 * for any time.
 */
function presetStart(name) {
  return presets[name]()?.toISOString().replace(/\.\d+/, '') ?? '';
}

/**
 * Returns the command line of a request for a POSIX shell. keyed tells whether
 * the service requires an API key.
 */
function curlCommand(path, { body, keyed } = {}) {
  const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const parts = [`curl ${quote(new URL(path, document.baseURI).href)}`];
  if (keyed) parts.push('-H "Authorization: Bearer $KEY"');
  if (body) parts.push(`-H 'Content-Type: application/json'`, `-d ${quote(JSON.stringify(body))}`);
  return parts.join(' \\\n  ');
}
