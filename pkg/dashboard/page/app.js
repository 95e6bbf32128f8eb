// Starts the page. It shows the panels, or the reason why it cannot show them.

const awayInterval = 30_000; // milliseconds between attempts to reach the service

// session.on tells whether a user has signed in with this browser. The page keeps this in
// localStorage, because scripts cannot read the cookie. A successful request does not
// prove a sign-in, because a service without API keys accepts requests without a cookie.
// If the browser forbids storage, the sign-out button is missing after a reload.
const session = {
  /** Whether the service could accept a request: API keys are off, or a user may have signed in. */
  get possible() {
    if (document.documentElement.dataset.keys === 'off') return true;
    try { return localStorage.getItem('sluice-session') !== null; } catch { return true; }
  },
  get on() { try { return localStorage.getItem('sluice-session') !== null; } catch { return !$('sign-out').hidden; } },
  set on(yes) {
    $('sign-out').hidden = !yes;
    try { yes ? localStorage.setItem('sluice-session', 'on') : localStorage.removeItem('sluice-session'); } catch { /* storage is forbidden */ }
  },
};

const views = ['loading', 'unreachable', 'sign-in', 'app'];

function showView(view) {
  for (const id of views) $(id).hidden = id !== view;
  $('about').hidden = $('zones').hidden = view !== 'app';
  $('sign-out').hidden = view !== 'app' || !session.on;
}

const usage = new Usage(denied);
const exports = new Exports(denied);
const records = new Records(denied, (id) => exports.exportEvents(id), (job) => exports.take(job));
const importer = new Importer(denied, () => mayRead() && records.refresh());
const panels = [usage, exports, records, importer];
let reopening;

/** Shows the panels, or the reason why the page cannot show them. */
async function open({ focus = false } = {}) {
  clearTimeout(reopening);
  if (!session.possible) {
    showView('sign-in');
    $('key').focus();
    return;
  }
  try {
    const { data } = await insist(() => call('GET', 'usage'), undefined, undefined, 4); // only 4 tries, because the page shows no panels meanwhile
    showCaller(data);
    showParts();
    showView('app');
    if (focus) $('main').focus();
    usage.start(data);
    if (!mayRead()) return;
    records.show();
    exports.start();
    offerIndexes();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401 || error.status === 403) denied(error);
    else showUnreachable(error);
  }
}

/** Reads which attributes are indexed, and names them at the search box. If that fails, the box still finds ids. */
async function offerIndexes() {
  showIndexes();
  try {
    await readIndexes();
    showIndexes();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

/** Hides the parts of the page that the caller's key may not use, and says which parts are hidden. */
function showParts() {
  for (const id of ['exports-part', 'records-card']) $(id).hidden = !mayRead();
  $('import-card').hidden = !mayImport();
  notice($('hidden-parts'), mayRead() ? '' : 'Records and exports are hidden, because this key lacks the scope export. To see them, sign in with a key that has it.');
}

function showUnreachable(error) {
  say($('unreachable-detail'), finalText(error));
  if ($('unreachable').hidden) {
    showView('unreachable');
    $('unreachable-title').focus();
  }
  // Status 0 means that the service cannot be reached. Another attempt then costs the
  // service nothing.
  if (error.status === 0) reopening = setTimeout(open, awayInterval);
}

/** Asks for an API key, because the current one is missing or not sufficient. */
function denied(error) {
  for (const panel of panels) panel.stop();
  const shown = session.on;
  session.on = false;
  showView('sign-in');
  if (error.status === 403) say($('key-error'), 'That key lacks the scope dashboard. Use a key that has it.');
  else if (shown) say($('key-error'), 'You have been signed out. Sign in again to continue.');
  $('key').focus();
}

$('sign-in-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = $('sign-in-form').querySelector('button');
  if (button.getAttribute('aria-disabled')) return;
  const key = $('key').value.trim();
  say($('key-error'), key ? '' : 'Enter an API key.');
  $('key').removeAttribute('aria-invalid');
  if (!key) {
    $('key').focus();
    return;
  }
  button.setAttribute('aria-disabled', 'true');
  try {
    await insist(() => call('POST', 'dashboard/session', { body: { key } }), (error, wait) => say($('key-error'), failureText(error, false, wait)));
    say($('key-error'), '');
    $('key').value = '';
    session.on = true;
    announce('Signed in');
    await open({ focus: true });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say($('key-error'), wrongKey(error));
    $('key').setAttribute('aria-invalid', 'true');
    $('key').focus();
  } finally {
    button.removeAttribute('aria-disabled');
  }
});

function wrongKey(error) {
  if (error.status === 401) return 'This key is not valid. Check that it is complete and has not been revoked.';
  if (error.code === 'missing_scope') return 'This key lacks the scope dashboard. Use a key that has it.';
  return finalText(error);
}

$('sign-out').addEventListener('click', async () => {
  try {
    await insist(() => call('DELETE', 'dashboard/session'));
  } catch (error) {
    announce(finalText(error));
    return;
  }
  session.on = false;
  for (const panel of panels) panel.stop();
  showView('sign-in');
  $('key').focus();
  announce('Signed out');
});

$('unreachable-retry').addEventListener('click', () => open({ focus: true }));

for (const input of document.querySelectorAll('[name=zone]')) {
  input.checked = input.value === zone;
  input.addEventListener('change', () => {
    exports.rezone(() => setZone(input.value));
    records.refill();
    showZone();
    announce(`Times are in ${zoneName()}`);
  });
}

// The user went back or forward in the history. A link to a part of the page, such as
// "Skip to content", also triggers this event, but requires no action.
window.addEventListener('popstate', () => {
  if ($('app').hidden || location.hash) return;
  usage.follow();
  if (mayRead()) records.follow();
});

// Remove parameters that the page does not use from the URL, such as retry, the number of
// automatic reloads, which the service adds when it refuses the page.
amendQuery({});
showZone();
open();
