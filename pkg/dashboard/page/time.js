// Times, in the zone that the user chose: the browser's zone or UTC.

const zoneStore = 'sluice-zone';

/** The zone of all times on the page: "local" or "utc". localStorage keeps it. */
let zone = (() => { try { return localStorage.getItem(zoneStore) === 'utc' ? 'utc' : 'local'; } catch { return 'local'; } })();

let dateTime, timeOnly, dayOnly;

/** Changes the zone of the times that are formatted from now on. */
function setZone(chosen) {
  zone = chosen;
  try { localStorage.setItem(zoneStore, chosen); } catch { /* storage is forbidden */ }
  const options = { hourCycle: 'h23', timeZone: zone === 'utc' ? 'UTC' : undefined };
  dateTime = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium', ...options });
  timeOnly = new Intl.DateTimeFormat('en', { timeStyle: 'medium', ...options });
  dayOnly = new Intl.DateTimeFormat('en-CA', { dateStyle: 'short', timeZone: options.timeZone }); // Canada writes 2026-11-23
}

setZone(zone);

/** Returns the name of the zone, such as Europe/Berlin. */
const zoneName = () => (zone === 'utc' ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone ?? 'the zone of this browser');

const clock = (seconds) => timeOnly.format(new Date(1000 * seconds));

/** Returns an instant as text, and any other text unchanged. */
function instant(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : dateTime.format(date);
}

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const units = [['second', 1], ['minute', 60], ['hour', 3600], ['day', 86_400]];

/** Returns how long ago an instant was if that is less than a week, and otherwise the instant. */
function ago(text) {
  const seconds = (new Date(text) - serviceNow()) / 1000;
  if (!(Math.abs(seconds) < 7 * 86_400)) return instant(text);
  if (Math.abs(seconds) < 10) return 'just now';
  const [unit, length] = units.findLast(([, of]) => Math.abs(seconds) >= of);
  return relative.format(Math.round(seconds / length), unit);
}

/** Returns the date on which an instant falls, such as 2026-11-23. */
const dayOf = (text) => dayOnly.format(new Date(text));

/**
 * Returns the value of a datetime-local input as RFC 3339 in UTC, or '' if it is
 * empty.
 */
function toUTC(value) {
  return value ? new Date(zone === 'utc' ? `${value}Z` : value).toISOString() : '';
}

/**
 * Returns an RFC 3339 time as the value of a datetime-local input, or '' if it
 * is invalid.
 */
function toInput(text) {
  const date = new Date(text);
  if (!text || Number.isNaN(date.getTime())) return '';
  return new Date(date - (zone === 'utc' ? 0 : 60_000 * date.getTimezoneOffset())).toISOString().slice(0, 19).replace(/:00$/, ''); // as browsers write it
}

/** Returns the beginning of the day that is some days from today. */
function dayStart(days) {
  const now = new Date();
  if (zone === 'utc') return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + days));
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + days);
}

/** Returns how many days have passed since Monday. */
const sinceMonday = () => (((zone === 'utc' ? new Date().getUTCDay() : new Date().getDay()) + 6) % 7);

/** Functions that return the two ends of each preset range. An open end is absent. */
const presets = {
  hour: () => [new Date(Date.now() - 3_600_000)],
  today: () => [dayStart(0)],
  days: () => [new Date(Date.now() - 7 * 86_400_000)],
  week: () => [dayStart(-sinceMonday() - 7), dayStart(-sinceMonday())],
  any: () => [],
};

/** Returns a preset range as { from, to }: RFC 3339 in UTC, to the second, or '' for an open end. */
function presetRange(name) {
  const [from, to] = presets[name]().map((date) => date.toISOString().replace(/\.\d+/, ''));
  return { from: from ?? '', to: to ?? '' };
}

const presetNames = { hour: 'Last hour', today: 'Today', days: '7 days', week: 'Last week', any: 'Any time', own: 'Own times' };
