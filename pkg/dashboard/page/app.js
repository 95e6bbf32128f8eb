import { call } from './api.js';
import { $, announce, describe, say } from './dom.js';
import { Exports } from './exports.js';
import { insist } from './poll.js';
import { Records } from './records.js';
import { Usage } from './usage.js';

// Whether somebody has signed in here. The cookie itself is out of reach, and
// without keys no cookie exists. Storage may be forbidden; then a page that is
// loaded anew offers no way to sign out.
const session = {
  get on() { try { return localStorage.getItem('sluice-session') !== null; } catch { return !$('sign-out').hidden; } },
  set on(yes) {
    $('sign-out').hidden = !yes;
    try { yes ? localStorage.setItem('sluice-session', 'on') : localStorage.removeItem('sluice-session'); } catch { /* not kept */ }
  },
};

const views = ['loading', 'unreachable', 'sign-in', 'app'];

function show(view) {
  for (const id of views) $(id).hidden = id !== view;
  $('own').hidden = view !== 'app';
  $('sign-out').hidden = view !== 'app' || !session.on;
}

const usage = new Usage(denied);
const exports = new Exports(denied);
const records = new Records(denied);

/** Shows what the page is for, or what keeps it from that. */
async function open({ focus = false } = {}) {
  // A page that comes at once needs no sign that it is coming.
  const slow = setTimeout(() => show('loading'), 300);
  try {
    const { data } = await insist(() => call('GET', 'usage'), () => show('loading'));
    clearTimeout(slow);
    say($('own-address'), data.address);
    show('app');
    if (focus) $('main').focus();
    usage.start(data);
    exports.start();
    records.load();
  } catch (error) {
    clearTimeout(slow);
    if (error.status === 401 || error.status === 403) {
      denied(error);
      return;
    }
    say($('unreachable-detail'), describe(error, true).text);
    show('unreachable');
    $('unreachable-title').focus();
  }
}

/** Asks for a key, in place of one that is missing or does not do. */
function denied(error) {
  usage.stop();
  exports.stop();
  const shown = session.on;
  session.on = false;
  show('sign-in');
  if (error.status === 403) say($('key-error'), 'That key has no scope dashboard. Use one that has it.');
  else if (shown) say($('key-error'), 'You have been signed out. Sign in again to go on.');
  $('key').focus();
}

$('sign-in-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = $('sign-in-form').querySelector('button');
  if (button.getAttribute('aria-disabled')) return;
  const key = $('key').value.trim();
  say($('key-error'), key ? '' : 'Enter an API key.');
  $('key').toggleAttribute('aria-invalid', false);
  if (!key) {
    $('key').focus();
    return;
  }
  button.setAttribute('aria-disabled', 'true');
  try {
    await insist(() => call('POST', 'dashboard/session', { body: { key } }), (error) => say($('key-error'), describe(error).text));
    say($('key-error'), '');
    $('key').value = '';
    session.on = true;
    announce('Signed in');
    await open({ focus: true });
  } catch (error) {
    say($('key-error'), wrongKey(error));
    $('key').setAttribute('aria-invalid', 'true');
    $('key').focus();
  } finally {
    button.removeAttribute('aria-disabled');
  }
});

function wrongKey(error) {
  if (error.status === 401) return 'This key is not valid. Check that it is complete and has not been revoked.';
  if (error.code === 'missing_scope') return 'This key has no scope dashboard. Use one that has it.';
  return describe(error, true).text;
}

$('sign-out').addEventListener('click', async () => {
  try {
    await insist(() => call('DELETE', 'dashboard/session'), () => {});
  } catch (error) {
    announce(describe(error, true).text);
    return;
  }
  session.on = false;
  usage.stop();
  exports.stop();
  show('sign-in');
  $('key').focus();
  announce('Signed out');
});

$('unreachable-retry').addEventListener('click', () => open({ focus: true }));

open();
