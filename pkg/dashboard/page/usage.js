// Compares the usage of an address or API key in the last 60 seconds with its limits.

const usageInterval = 2000;
const restingInterval = 10_000; // while another view is shown
const nearLimit = 0.8; // share of a limit

/** Texts for all actions except limit, the default action. */
const actionTexts = {
  block: 'These requests are blocked. Every one is refused with status 403.',
  unlimited: 'These requests are not limited. Those beyond the limits also pass.',
  observe: 'These requests are observed. Those beyond the limits pass, but are not counted here.',
};

/**
 * The limits. Each has its name in the API (key), its name on the page (name)
 * and a function that returns its usage in one second (of).
 */
const meters = [
  { key: 'records', name: 'Records read', of: (s) => s.records },
  { key: 'imports', name: 'Import calls', of: (s) => s.imports },
  { key: 'requests', name: 'Busiest route', of: (s) => Math.max(0, ...Object.values(s.requests)) },
];

const levelOf = (share) => (share >= 1 ? 'full' : share >= nearLimit ? 'near' : 'far');

/** Returns what was used of a limit per second, as { share, full, text }. */
function useOfLimit({ name, limit, peak, full }) {
  const most = peak > 0 ? `The peak in the last 60 seconds was ${number(peak)} of ${number(limit)} a second (${name}).` : 'Nothing was used in the last 60 seconds.';
  return { share: Math.min(1, peak / limit), full, text: peak >= limit ? `A limit was reached in ${number(full)} of the last 60 seconds (${name}).` : most };
}

/** Returns what was used in a day and a month, which have a limit only if there is a quota. */
const quotasOf = ({ day, month }) => [['Today', day], ['This month', month]].filter(([, period]) => period).flatMap(([when, period]) => [
  { when, noun: 'records read', used: period.records, limit: period.limits.records },
  { when, noun: 'import calls', used: period.imports, limit: period.limits.imports },
]);

/** Returns what was used of a quota. One that is used up matters more than any limit per second. */
function useOfQuota({ when, noun, used, limit }) {
  const of = `${number(limit)} ${noun} ${when.toLowerCase()}`;
  return { share: Math.min(1, used / limit), full: Infinity, text: used >= limit ? `The quota of ${of} is used up.` : `${number(used)} of ${of}.` };
}

/** Returns whose usage is counted, as a user would enter it: an IP address, or key:<id>. */
const nameOf = (usage) => usage.counted.replace(/^address:/, '');

class Usage {
  last = null; of = ''; own = ''; fault = ''; verdict = { level: 'unknown', short: '…', long: '' };
  #poller; #onDenied; #known = new Map(); #level = '';

  /** onDenied receives errors with status 401 and 403. */
  constructor(onDenied) {
    this.#onDenied = onDenied;
    this.identities = new Identities(onDenied);
    this.#poller = new Poller((signal) => this.#load(signal), () => (view.name === 'usage' ? usageInterval : restingInterval), (error, stopped, wait) => this.#report(error, stopped, wait));
  }

  /** Starts with the usage of the caller. */
  start(own) {
    this.own = nameOf(own);
    this.of = this.#wanted();
    if (!this.of) this.#take(own);
    this.#poller.start();
  }

  stop() {
    this.#poller.stop();
    this.identities.stop();
    this.identities.list = null;
  }

  leave() { this.identities.stop(); }

  /** Shows the usage of the IP address or key in the page's URL. */
  show({ focus } = {}) {
    const before = this.of;
    this.of = this.#wanted();
    this.#level = '';
    this.fault = '';
    this.#poller.start();
    this.identities.show();
    draw();
    if (!focus || this.of === before) return;
    announce(`Showing ${this.of || 'your usage'}`);
    scrollTo(0, 0);
    $('usage-title')?.focus({ preventScroll: true });
  }

  /** Returns whose usage the page's URL asks for; '' for the caller's own. */
  #wanted() { return mayWatch() && view.name === 'usage' ? readQuery().address ?? '' : ''; }

  choose(text) {
    const other = text === this.own ? '' : text;
    if (other !== this.of) moveTo({ ...readQuery(), address: other });
    this.show();
    announce(`Showing ${other || 'your usage'}`);
  }

  async #load(signal) {
    const query = this.of.startsWith('key:') ? { key: this.of.slice('key:'.length) } : { address: this.of };
    const response = await call('GET', withQuery('usage', query), { signal });
    this.#take(response.data);
    return response;
  }

  #report(error, stopped, wait) {
    if (error?.status === 401 || error?.status === 403) {
      this.#onDenied(error);
    } else if (error?.status === 400 && error.errors.some((e) => e.field === 'address' || e.field === 'key')) {
      this.fault = 'This is not an IPv4 or IPv6 address, or key: and the id of a key.';
      draw();
      $('address')?.focus();
    } else {
      if (error?.status === 429) this.#judge('full', 'Yes', 'You have used up your limit of requests for these figures.');
      else if (error) this.#judge('unknown', 'Unknown', 'These figures could not be read.');
      report('usage', error, { stopped, wait, retry: stopped ? () => this.#poller.start() : undefined });
    }
  }

  #take(usage) {
    this.last = { ...usage, seconds: this.#collect(usage) };
    const { seconds, limits } = this.last;
    const uses = [
      ...quotasOf(usage).filter(({ limit }) => limit).map(useOfQuota),
      ...meters.map(({ key, name, of }) => useOfLimit({ name: name.toLowerCase(), limit: limits[key], ...summary(seconds.map(of), limits[key]) })),
    ];
    const top = uses.toSorted((a, b) => b.share - a.share || b.full - a.full)[0];
    const level = levelOf(top.share);
    this.#judge(level, { full: 'Yes', near: 'Close', far: 'No' }[level], `${nameOf(usage) === this.own ? '' : `${nameOf(usage)}: `}${top.text}`);
    draw();
  }

  /** Returns the last 60 seconds. Of a key, the service keeps only the last few, so the page collects them. */
  #collect({ counted, seconds }) {
    if (this.last?.counted !== counted) this.#known.clear();
    for (const s of seconds) this.#known.set(s.second, s);
    const last = seconds.at(-1).second;
    for (const second of this.#known.keys()) if (second <= last - 60 || second > last) this.#known.delete(second);
    return Array.from({ length: 60 }, (_, i) => {
      const second = last - 59 + i;
      return this.#known.get(second) ?? { second, records: 0, imports: 0, requests: {} };
    });
  }

  /** Says how close the peak usage came to a limit. */
  #judge(level, short, long) {
    this.verdict = { level, short, long };
    if (this.#level && level !== this.#level && (level === 'near' || level === 'full')) announce(`Near the limit: ${long}`);
    this.#level = level;
  }
}

/** The view of usage. */
function UsageView() {
  const { last, verdict } = usage;
  const [byRoute, setByRoute] = useState(false);
  const [asTable, setAsTable] = useState(false);
  if (!last) return html`<${Notice} of="usage" /><${Skeleton} rows=${8} />`;
  const { seconds, limits, action, counted } = last;
  const [by, name] = counted.split(/:(.*)/);
  const routes = [...new Set(seconds.flatMap((s) => Object.keys(s.requests)))].sort();
  return html`
    <${Notice} of="usage" />
    <section class="card verdict" data-level=${verdict.level} aria-labelledby="usage-title">
      <h2 id="usage-title" tabindex="-1">Am I near my limit?</h2>
      <p id="verdict" data-level=${verdict.level}><strong id="verdict-short">${verdict.short}</strong> <span id="verdict-long">${verdict.long}</span></p>
      <p id="usage-counted" class="hint">${by === 'key' ? `Counted: requests with the key ${name}, from every address.` : `Counted: requests from the address ${name}.`}</p>
      ${action in actionTexts && html`<p id="usage-action" class="hint">${actionTexts[action]}</p>`}
      ${mayWatch() && html`<${WhoseUsage} key=${usage.of} />`}
    </section>
    ${mayWatch() && html`<${WhoUsesTheMost} identities=${usage.identities} />`}
    ${last.month && html`<${Quotas} usage=${last} />`}
    <section class="card" aria-labelledby="minute-title">
      <h2 id="minute-title">The last 60 seconds</h2>
      <div id="usage-charts" class="charts">${meters.map(({ key, name: title, of }) => html`<${Chart} key=${key} name=${title} series=${seconds.map((s) => [s.second, of(s)])} limit=${limits[key]} />`)}</div>
      <details id="usage-by-route" class="fold" onToggle=${(event) => setByRoute(event.target.open)}>
        <summary>Requests by route</summary>
        ${byRoute && (routes.length === 0 ? html`<p id="usage-empty" class="hint">There was no request in the last 60 seconds.</p>`
    : html`<ul id="usage-routes" class="routes" aria-label="Requests by route">${routes.map((route) => html`<li key=${route}><${Chart} small name=${route} series=${seconds.map((s) => [s.second, s.requests[route] ?? 0])} limit=${limits.requests} /></li>`)}</ul>`)}
      </details>
      <details id="usage-details" class="fold" onToggle=${(event) => setAsTable(event.target.open)}>
        <summary>Figures as a table</summary>
        ${asTable && html`<${Figures} seconds=${seconds} routes=${routes} />`}
        <p class="hint">Refused requests cost nothing and are not counted. In a second that reached its limit, any number of requests may have been refused.</p>
      </details>
      <${Zone} />
    </section>`;
}

/** Asks for the usage of another address or key. */
function WhoseUsage() {
  const submit = (event) => {
    event.preventDefault();
    usage.choose($('address').value.trim());
  };
  return html`<form id="usage-form" class="inline" novalidate onSubmit=${submit}>
    <label for="address">Usage of</label>
    <input id="address" class="mono" aria-describedby="address-error" aria-invalid=${usage.fault ? 'true' : undefined} defaultValue=${usage.of || usage.own} placeholder="address or key:ID" ...${plain} />
    <button type="submit" class="quiet">Show</button>
    ${usage.of && html`<${Button} id="usage-own" onClick=${() => usage.choose('')}>My usage<//>`}
    <p class="field-error" id="address-error" role="alert">${usage.fault}</p>
  </form>`;
}

/** What was used today and this month, with the quotas if there are any. */
const Quotas = ({ usage: sums }) => html`<section class="card" id="usage-sums" aria-labelledby="quotas-title">
  <h2 id="quotas-title">Today and this month</h2>
  <div class="quotas">${quotasOf(sums).map(({ when, noun, used, limit }) => {
    const share = limit ? used / limit : 0;
    return html`<div class="quota" data-level=${levelOf(share)}>
      <p><span>${when}</span> <strong>${number(used)}</strong> ${limit ? `of ${number(limit)} ${noun}` : noun}</p>
      ${limit && html`<progress max="100" value=${Math.min(100, 100 * share)} aria-label=${`${when}: ${noun}`} />`}
    </div>`;
  })}</div>
  <p class="hint">Days and months begin at midnight UTC.</p>
</section>`;

const Figures = ({ seconds, routes }) => html`<div class="scroll" tabindex="0" role="region" aria-label="Figures of the last 60 seconds">
  <table id="usage-table"><caption class="unseen">Counters by second, newest first</caption>
    <thead><tr>${['Second', 'Records', 'Imports', ...routes].map((text) => html`<th scope="col">${text}</th>`)}</tr></thead>
    <tbody>${seconds.toReversed().map((s) => html`<tr key=${s.second}><th scope="row">${clock(s.second)}</th>${[s.records, s.imports, ...routes.map((route) => s.requests[route] ?? 0)].map((n) => html`<td class="numeric">${number(n)}</td>`)}</tr>`)}</tbody>
  </table>
</div>`;
