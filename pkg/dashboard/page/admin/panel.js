// What the views of administration share: how they read and change, and what they say if the service
// has no administration, or if the key may not use it.

const usualInterval = 30_000; // milliseconds between two reads

/** The state of a view of administration. */
class AdminPanel {
  data = null;
  gap = ''; // why there is no data: '', 'off' or 'scope'
  busy = false;
  failure = null; // { form, text, fields } of the last change that failed, by the name of its form
  #poller;

  /**
   * read receives an AbortSignal, resolves to the last result of call, and has what was read in data
   * of that result. interval returns the milliseconds until the next read.
   */
  constructor(name, read, interval = () => usualInterval) {
    this.name = name;
    this.#poller = new Poller((signal) => this.#load(signal, read), interval, (error, stopped, wait) => this.#report(error, stopped, wait));
  }

  show() {
    this.failure = null;
    this.#poller.start();
    draw();
  }

  leave() { this.#poller.stop(); }

  stop() {
    this.#poller.stop();
    Object.assign(this, { data: null, gap: '', failure: null });
    draw();
  }

  async #load(signal, read) {
    const response = await read(signal);
    Object.assign(this, { data: response.data, gap: '' });
    draw();
    return response;
  }

  #report(error, stopped, wait) {
    if (error?.status === 401) denied(error);
    else if (error && gapOf(error)) {
      Object.assign(this, { data: null, gap: gapOf(error) });
      report(this.name);
    } else report(this.name, error, { stopped, wait, retry: stopped ? () => this.#poller.start() : undefined });
  }

  /**
   * Sends a change, and reads again. Resolves to the response's data, or to undefined if the change
   * failed: then failure says why, for the form of that name. A change that must not be made twice is
   * once, and is not repeated if its response is lost.
   */
  async send(form, path, body, { once = false } = {}) {
    if (this.busy) return undefined;
    this.#set({ busy: true, failure: null });
    const wait = (error, milliseconds) => this.#set({ failure: { form, text: failureText(error, false, milliseconds), fields: {} } });
    try {
      const { data } = await insist(() => call('POST', path, { body }), wait, undefined, once ? 1 : undefined);
      this.failure = null;
      this.#poller.start();
      return data;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401) denied(error);
      else this.failure = failureOf(form, error, once);
      return undefined;
    } finally {
      this.#set({ busy: false });
    }
  }

  #set(values) {
    Object.assign(this, values);
    draw();
  }

  /** Returns what is wrong with a field of a form, or undefined. */
  fault(form, field) { return this.failure?.form === form ? this.failure.fields[field] : undefined; }
}

/** Returns what is missing according to an error: 'off', 'scope' or '' if that is not what is wrong. */
const gapOf = ({ status, code }) => (status === 404 ? 'off' : code === 'missing_scope' ? 'scope' : '');

/** Returns why the caller cannot administer its workspace: 'off', 'scope' or '' if it can. */
async function gapNow(signal) {
  try {
    await call('GET', 'audit?limit=1', { signal });
    return '';
  } catch (error) {
    if (gapOf(error)) return gapOf(error);
    throw error;
  }
}

/** Returns why a change failed: what is wrong with its fields, and otherwise a text. */
function failureOf(form, error, once) {
  if (once && error.away && error.status !== 503) return { form, fields: {}, text: 'There was no response, so it may have been done. Look at the list below before you try again.' };
  if (once && error.status === 429) return { form, fields: {}, text: 'Your limit is used up for the moment. Try again in a second.' };
  const fields = Object.fromEntries(error.errors.map(({ field, detail }) => [field.split(/[./]/)[0], sentence(`${field.replaceAll(/[_/]/g, ' ')} ${detail}`)]));
  return { form, fields, text: finalText(error) };
}

/** Focuses the first field that is wrong. Call it after a change that failed. */
const focusFault = (id) => document.querySelector(`#${id} [aria-invalid]`)?.focus();

/** Why a change of a form failed. */
const Failure = ({ panel, form }) => panel.failure?.form === form && html`<div class="notice" data-tone="error" role="alert"><bdi>${panel.failure.text}</bdi></div>`;

/** The links to the views of administration. */
const Tabs = () => html`<ul class="tabs" aria-label="Administration">${views.filter(({ admin }) => admin).map(({ name, title }) => html`<li key=${name}>
  <${Link} id=${`tab-${name}`} query=${viewQuery(name)} aria-current=${name === view.name ? 'page' : undefined}>${title}<//></li>`)}</ul>`;

const keysOff = () => caller.key_id === null;

/** A view of administration, or why it cannot be shown: which of the scopes in needs the key lacks, or that administration is off and which command does the same. */
const AdminView = ({ panel, needs, command, children }) => html`
  <${Tabs} />
  <${Notice} of=${panel.name} />
  ${panel.gap ? html`<${Gap} gap=${panel.gap} needs=${needs} command=${command} />` : panel.data ? children : !troubles.has(panel.name) && html`<${Skeleton} rows=${8} />`}`;

function Gap({ gap, what = 'This', needs, command }) {
  if (gap === 'scope') {
    return html`<${Empty} id="admin-gap" icon="key-round" title=${`${what} needs a key with ${needs.length > 1 ? 'the scopes' : 'the scope'} ${needs.join(' and ')}`}>
      <p>Sign in with such a key. Whoever can reach the data of the service makes one with this command:</p>
      <${Command} text=${`sluice keys create --workspace ${caller.workspace} --scope dashboard ${needs.map((scope) => `--scope ${scope}`).join(' ')}`} /><//>`;
  }
  return html`<${Empty} id="admin-gap" icon="key-round" title="Administration over HTTP is off">
    <p>${keysOff() ? 'It needs API keys, unless the service can be reached from its own machine only. ' : ''}Start the service with:</p>
    <${Command} text=${`${keysOff() ? 'AUTH_MODE=api-key ' : ''}ADMIN_ROUTES=on sluice serve`} />
    <p>In a deployment, set the parameter <code>AdminRoutes=on</code>. Without it, use commands such as:</p>
    <${Command} text=${command} /><//>`;
}

/** Opens or closes what the query says, such as { id } or { new }, and shows it. */
function openIn(query) {
  moveTo({ ...readQuery(), id: '', new: '', ...query });
  follow();
}

/** A card beside or above a list, with a title that gets the focus when it opens, and a button that closes it. Escape closes it too. The focus then returns to where it was. */
function Sheet({ id, title, onClose, children }) {
  const heading = useRef();
  useLayoutEffect(() => {
    const before = document.activeElement;
    heading.current.focus();
    return () => { // the elements are still there
      if (!heading.current.closest('section').contains(document.activeElement)) return;
      (before === document.body || !before.isConnected ? $(`title-${view.name}`) : before).focus();
    };
  }, []);
  const keys = (event) => { if (event.key === 'Escape' && !event.defaultPrevented) onClose(); };
  return html`<section class="card" id=${id} aria-labelledby=${`${id}-title`} onKeyDown=${keys}>
    <div class="bar spread"><h2 id=${`${id}-title`} tabindex="-1" ref=${heading}>${title}</h2>
      <button type="button" class="bare" aria-label="Close" onClick=${onClose}><${Icon} name="x" /></button></div>
    ${children}
  </section>`;
}

/** A table: columns are { name, of, numeric }, of returning a cell. The first cell is the head of its row. Beside narrow windows it scrolls. */
const Table = ({ id, caption, columns, rows, keyOf, open }) => html`<div class="scroll tall" tabindex="0" role="region" aria-label=${`${caption}, as a table`}>
  <table id=${id} class="plain"><caption class="unseen">${caption}</caption>
    <thead><tr>${columns.map(({ name, numeric }) => html`<th key=${name} scope="col" class=${numeric ? 'numeric' : ''}>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${keyOf(row)} class=${keyOf(row) === open ? 'open' : ''}>
      ${columns.map(({ name, of, numeric }, i) => (i === 0 ? html`<th key=${name} scope="row">${of(row)}</th>` : html`<td key=${name} class=${numeric ? 'numeric' : ''}>${of(row)}</td>`))}
    </tr>`)}</tbody>
  </table></div>`;

const None = () => html`<span class="none" aria-label="none">–</span>`;
