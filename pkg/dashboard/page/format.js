// Formats numbers and commands as text.

const numbers = new Intl.NumberFormat('en');

const number = (n) => numbers.format(n);
const count = (n, noun) => `${number(n)} ${noun}${n === 1 ? '' : 's'}`;

/** Returns a file size as text, such as 1.5 MB. A kB is 1,000 bytes. */
function bytes(n) {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  for (; n >= 999.5 && i < units.length - 1; i++) n /= 1000;
  return `${i > 0 && n < 9.95 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

/** Returns the rounded time between two instants as text. */
function duration(from, to) {
  const s = Math.max(0, Math.round((new Date(to) - new Date(from)) / 1000));
  if (s < 1) return 'less than a second';
  if (s < 120) return count(s, 'second');
  if (s < 7200) return count(Math.round(s / 60), 'minute');
  return count(Math.round(s / 3600), 'hour');
}

/** Returns text with a capital first letter and, if needed, a period at the end. */
function sentence(text) {
  const s = text.trim();
  return s.charAt(0).toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? '' : '.');
}

/**
 * Returns a curl command for a POSIX shell. keyed tells whether the service
 * requires an API key.
 */
function curlCommand(path, { body, keyed } = {}) {
  const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const parts = [`curl ${quote(new URL(path, document.baseURI).href)}`];
  if (keyed) parts.push('-H "Authorization: Bearer $KEY"');
  if (body) parts.push(`-H 'Content-Type: application/json'`, `-d ${quote(JSON.stringify(body))}`);
  return parts.join(' \\\n  ');
}
