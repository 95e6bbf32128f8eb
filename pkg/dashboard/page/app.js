// Starts the page. It shows one of the views, or the reason why it cannot show any.

const awayInterval = 30_000; // milliseconds between attempts to reach the service

// session.on tells whether a user has signed in with this browser. The page keeps this in
// localStorage, because scripts cannot read the cookie. A successful request does not
// prove a sign-in, because a service without API keys accepts requests without a cookie.
// If the browser forbids storage, the sign-out button is missing after a reload.
const session = {
  here: false,
  /** Whether the service could accept a request: API keys are off, or a user may have signed in. */
  get possible() {
    if (document.documentElement.dataset.keys === 'off') return true;
    try { return localStorage.getItem('sluice-session') !== null; } catch { return true; }
  },
  get on() { try { return localStorage.getItem('sluice-session') !== null; } catch { return this.here; } },
  set on(yes) {
    this.here = yes;
    try { yes ? localStorage.setItem('sluice-session', 'on') : localStorage.removeItem('sluice-session'); } catch { /* storage is forbidden */ }
  },
};

const usage = new Usage(denied);
const exporter = new Exports(denied);
const records = new Records(denied, new RecordPane(denied));
const importer = new Importer(denied);

/**
 * A view whose script the browser loads when the view is opened for the first time. While another
 * view is shown, its element is empty, because these views have fields with the same ids.
 */
function later(name) {
  let loaded, shown = false;
  const panel = {
    async show(options) {
      shown = true;
      draw();
      try {
        loaded ??= (await import('./admin.js')).adminViews[name];
      } catch {
        report(name, new ApiError({ detail: 'this part of the page could not be loaded' }), { stopped: true, retry: () => location.reload() }); // a browser does not load a script again that has failed
        return;
      }
      if (view.panel === panel) loaded.panel.show(options);
    },
    leave() {
      loaded?.panel.leave();
      shown = false;
      draw();
    },
    stop: () => loaded?.panel.stop(),
  };
  return { name, panel, admin: true, needs: 'dashboard', component: () => shown && (loaded ? html`<${loaded.component} />` : html`<${Notice} of=${name} /><${Skeleton} rows=${8} />`) };
}

/**
 * The views, by their names in the URL. Each has a panel with the methods show, which shows what the
 * URL says, and stop, which discards everything; leave is called when another view is shown. needs
 * is the scope without which the view is hidden. Those of administration share an entry in the
 * navigation.
 */
const views = [
  { name: 'records', title: 'Records', icon: 'table-2', needs: 'export', panel: records, component: RecordsView },
  { name: 'import', title: 'Import', icon: 'upload', needs: 'import', panel: importer, component: ImportView },
  { name: 'exports', title: 'Exports', icon: 'download', needs: 'export', panel: exporter, component: ExportsView },
  { name: 'usage', title: 'Usage', icon: 'gauge', needs: 'dashboard', panel: usage, component: UsageView },
  { title: 'API keys', ...later('keys') },
  { title: 'Plans and limits', ...later('limits') },
  { title: 'Indexes', ...later('indexes') },
  { title: 'Audit trail', ...later('audit') },
];

/** The view that is shown. */
let view = views[0];

const allowed = () => views.filter(({ needs }) => caller.scopes.includes(needs));

/** Shows what the URL says. */
function follow({ focus = true } = {}) {
  const possible = allowed();
  const wanted = readQuery().view;
  const next = possible.find(({ name }) => name === wanted) ?? (wanted && views.some(({ name }) => name === wanted) ? possible.findLast(({ admin }) => !admin) : possible[0]);
  const other = next !== view;
  if (other) view.panel.leave?.();
  view = next;
  for (const { name } of views) $(`view-${name}`).hidden = name !== view.name;
  document.title = `${view.title} · Sluice`;
  draw();
  if (other && focus) $(`title-${view.name}`).focus();
  view.panel.show({ focus: focus && !other });
}

/** Adds the element of a view to the page: its title, and what its component shows. */
function addView({ name, title, component }) {
  const heading = Object.assign(document.createElement('h1'), { id: `title-${name}`, tabIndex: -1, textContent: title });
  const element = Object.assign(document.createElement('div'), { id: `view-${name}`, className: 'view', hidden: true });
  const body = Object.assign(document.createElement('div'), { className: 'body' });
  element.append(heading, body);
  $('app').append(element);
  fill(body, component);
}

/** The entries of the navigation. */
const entries = () => [...allowed().filter(({ admin }) => !admin), { name: 'keys', title: 'Admin', icon: 'key-round', admin: true }];

/** Returns the query of a link to a view. */
const viewQuery = (name) => ({ view: name === 'records' ? '' : name });

const Navigation = () => html`
  <ul>${entries().map(({ name, title, icon, admin }) => html`<li key=${name}><${Link} id=${`nav-${admin ? 'admin' : name}`} query=${viewQuery(name)} aria-current=${name === view.name ? 'page' : admin && view.admin ? 'true' : undefined}>
    <${Icon} name=${icon} /><span>${title}</span>${name === 'usage' && usage.verdict.level !== 'far' && usage.verdict.level !== 'unknown' && html`<span class="dot" data-level=${usage.verdict.level}><span class="unseen">${usage.verdict.level === 'full' ? 'limit reached' : 'near the limit'}</span></span>`}<//></li>`)}</ul>`;

const FindHint = () => findHint();

/** Says which views are hidden because of the caller's scopes. */
function HiddenParts() {
  if (mayRead()) return null;
  return html`<p id="hidden-parts" class="notice" data-tone="wait">Records and exports are hidden, because this key lacks the scope export. To see them, sign in with a key that has it.</p>`;
}

const states = ['loading', 'unreachable', 'sign-in', 'app'];

/** Shows the views, or one of the reasons why there are none. */
function showState(state) {
  for (const id of states) $(id).hidden = id !== state;
  const shown = state === 'app';
  $('nav').hidden = $('account').hidden = !shown;
  $('find-form').hidden = !shown || !mayRead();
  document.body.dataset.state = state;
  if (!shown) drawAll();
  if (!shown) document.title = state === 'sign-in' ? 'Sign in · Sluice' : 'Sluice dashboard';
  draw();
}

let reopening;

/** Shows the views, or the reason why it cannot show them. */
async function open({ focus = false } = {}) {
  clearTimeout(reopening);
  if (!session.possible) {
    showState('sign-in');
    $('key').focus();
    return;
  }
  try {
    const { data } = await insist(() => call('GET', 'usage'), undefined, undefined, 4); // only 4 tries, because the page shows nothing meanwhile
    caller = { ...data.caller, address: data.address };
    showState('app');
    usage.start(data);
    follow({ focus: false });
    if (focus) $(`title-${view.name}`).focus();
    if (mayRead()) offerIndexes();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401 || error.status === 403) denied(error);
    else showUnreachable(error);
  }
}

/** Reads which attributes are indexed, and names them at the search box. If that fails, the box still finds ids. */
async function offerIndexes() {
  try {
    await readIndexes();
    draw();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

function showUnreachable(error) {
  say($('unreachable-detail'), finalText(error));
  if ($('unreachable').hidden) {
    showState('unreachable');
    $('unreachable-title').focus();
  }
  // Status 0 means that the service cannot be reached. Another attempt then costs the
  // service nothing.
  if (error.status === 0) reopening = setTimeout(open, awayInterval);
}

/** Discards everything, and asks for an API key. */
function ask(text) {
  for (const { panel } of views) panel.stop();
  usage.last = null;
  troubles.clear();
  session.on = false;
  say($('key-error'), text);
  showState('sign-in');
  $('key').focus();
}

/** Asks for an API key, because the current one is missing or not sufficient. */
function denied(error) {
  if (error.status === 403) ask('That key lacks the scope dashboard. Use a key that has it.');
  else ask(session.on ? 'You have been signed out. Sign in again to continue.' : '');
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

async function signOut() {
  try {
    await insist(() => call('DELETE', 'dashboard/session'));
  } catch (error) {
    announce(finalText(error));
    return;
  }
  ask('');
  announce('Signed out');
}

$('unreachable-retry').addEventListener('click', () => open({ focus: true }));

$('find-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = $('find').value.trim();
  if (!text) return $('find').focus();
  moveTo({ find: text });
  follow();
  if (view === views[0]) $('found-title')?.focus();
});

// The key / leads to the search box, from everywhere but a field.
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || $('find-form').hidden || event.target.closest?.('input, select, textarea')) return;
  event.preventDefault();
  $('find').focus();
  $('find').select();
});

// The user went back or forward in the history. A link to a part of the page, such as
// "Skip to content", also triggers this event, but requires no action.
window.addEventListener('popstate', () => {
  if (!$('app').hidden && !location.hash) follow();
});

followLinks(follow);
closeMenus();
// Remove parameters that the page does not use from the URL, such as retry, the number of
// automatic reloads, which the service adds when it refuses the page.
amendQuery({});
$('find').value = readQuery().find ?? '';
views.forEach(addView);
for (const [id, component] of [['nav', Navigation], ['account', Account], ['find-hint', FindHint], ['notices', () => html`<${Waiting} /><${HiddenParts} />`]]) fill($(id), component);
setInterval(draw, 60_000); // times are shown relative to now
open();

// What admin.js uses.
export {
  $, ApiError, Button, Command, Copy, Empty, Fact, Field, Icon, Link, Notice, Poller, Segments, Skeleton, Stored, Time, Value, Zone,
  amendQuery, announce, call, caller, changesBetween, commandOf, count, curlCommand, denied, draw, failureText, finalText, follow, html, insist, instant,
  moveTo, number, plain, readQuery, report, sentence, session, takeIndexes, toInput, toUTC, troubles, useLayoutEffect, useRef, useState, view, viewQuery, views, visibleJSON, withQuery,
};
