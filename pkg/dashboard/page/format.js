const numbers = new Intl.NumberFormat('en');
const dateTime = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });
const timeOnly = new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' });

export const count = (n, noun) => `${numbers.format(n)} ${noun}${n === 1 ? '' : 's'}`;
export const number = (n) => numbers.format(n);
export const instant = (text) => dateTime.format(new Date(text));
export const clock = (seconds) => timeOnly.format(new Date(1000 * seconds));

/** A file's size, in units of 1,000 bytes. */
export function bytes(n) {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  for (; n >= 999.5 && i < units.length - 1; i++) n /= 1000;
  return `${i > 0 && n < 9.95 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

/** The time between two instants, roughly. */
export function duration(from, to) {
  const s = Math.max(0, Math.round((new Date(to) - new Date(from)) / 1000));
  if (s < 1) return 'less than a second';
  if (s < 120) return count(s, 'second');
  if (s < 7200) return count(Math.round(s / 60), 'minute');
  return count(Math.round(s / 3600), 'hour');
}

/** Text as a sentence. */
export function sentence(text) {
  const s = text.trim();
  return s.charAt(0).toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? '' : '.');
}
