// Compares the usage of an address or API key in the last 60 seconds with its limits.

const usageInterval = 2000;
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

/** Returns whose usage is counted, as a user would enter it: an IP address, or key:<id>. */
const nameOf = (usage) => usage.counted.replace(/^address:/, '');

/** Says what was used in a period: { start, records, imports }. */
const sumOf = (name, { records, imports }) => `${name}: ${number(records)} records read, ${number(imports)} import calls.`;

class Usage {
  #poller; #onDenied; #known = new Map(); #of = ''; #own = ''; #last; #charts = new Map(); #routes = new Map(); #level = '';

  /** onDenied receives errors with status 401 and 403. */
  constructor(onDenied) {
    this.#onDenied = onDenied;
    this.#poller = new Poller((signal) => this.#load(signal), () => usageInterval, (error, stopped, wait) => this.#report(error, stopped, wait));
    $('usage-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#choose($('address').value.trim());
    });
    $('usage-own').addEventListener('click', () => {
      this.#choose('');
      $('address').focus();
    });
    for (const details of [$('usage-details'), $('usage-by-route')]) details.addEventListener('toggle', () => this.#drawDetails());
  }

  /** Starts with the usage of the caller. */
  start(own) {
    this.#own = nameOf(own);
    $('usage-form').hidden = !mayWatch();
    if (readQuery().address) $('usage').open = true;
    this.show();
    if (!this.#of) this.#draw(own);
  }

  stop() { this.#poller.stop(); }

  /** Shows the usage of the IP address or key in the page's URL. */
  show() {
    this.#of = this.#wanted();
    $('address').value = this.#of || this.#own;
    $('usage-own').hidden = this.#of === '';
    this.#level = '';
    this.#markAddress('');
    this.#poller.start();
  }

  /** Shows the usage of the IP address or key in the page's URL, if it has changed. */
  follow() {
    if (this.#wanted() !== this.#of) this.show();
  }

  /** Returns whose usage the page's URL asks for; '' for the caller's own. */
  #wanted() {
    return mayWatch() ? readQuery().address ?? '' : '';
  }

  #choose(text) {
    const other = text === this.#own ? '' : text;
    if (other !== this.#of) moveTo({ ...readQuery(), address: other }, history.state);
    this.show();
    announce(`Showing ${other || 'your usage'}`);
  }

  async #load(signal) {
    const query = this.#of.startsWith('key:') ? { key: this.#of.slice('key:'.length) } : { address: this.#of };
    const response = await call('GET', withQuery('usage', query), { signal });
    this.#draw(response.data);
    return response;
  }

  #report(error, stopped, wait) {
    if (error?.status === 401 || error?.status === 403) {
      this.#onDenied(error);
    } else if (error?.status === 400 && error.errors.some((e) => e.field === 'address' || e.field === 'key')) {
      this.#markAddress('This is not an IPv4 or IPv6 address, or key: and the id of a key.');
    } else {
      if (error?.status === 429) this.#sayVerdict('full', 'Yes', 'You have used up your limit of requests for these figures.');
      else if (error) this.#sayVerdict('unknown', 'Unknown', 'These figures could not be read.');
      report('usage', error, { stopped, wait, retry: stopped ? () => this.#poller.start() : undefined });
    }
  }

  /** Shows what is wrong with the IP address or key that the user entered. */
  #markAddress(text) {
    say($('address-error'), text);
    $('address').removeAttribute('aria-invalid');
    if (!text) return;
    $('address').setAttribute('aria-invalid', 'true');
    $('address').focus();
  }

  #draw(usage) {
    usage = { ...usage, seconds: this.#collect(usage) };
    this.#last = usage;
    const { seconds, limits, action } = usage;
    this.#drawVerdict(usage);
    const [by, name] = usage.counted.split(/:(.*)/);
    say($('usage-counted'), by === 'key' ? `Counted: requests with the key ${name}, from every address.` : `Counted: requests from the address ${name}.`);
    $('usage-sums').hidden = !usage.month;
    if (usage.month) say($('usage-sums'), `${sumOf('Today', usage.day)} ${sumOf('This month', usage.month)} Days and months begin at midnight UTC.`);
    $('usage-action').hidden = !(action in actionTexts);
    say($('usage-action'), actionTexts[action] ?? '');
    for (const { key, name, of } of meters) {
      if (!this.#charts.has(key)) {
        const chart = new Chart(name, seconds.length);
        this.#charts.set(key, chart);
        $('usage-charts').append(chart.element);
      }
      this.#charts.get(key).update(seconds.map((s) => [s.second, of(s)]), limits[key]);
      say($(`limit-${key}`), number(limits[key]));
    }
    this.#drawDetails();
  }

  /** Returns the last 60 seconds. Of a key, the service keeps only the last few, so the page collects them. */
  #collect({ counted, seconds }) {
    if (this.#last?.counted !== counted) this.#known.clear();
    for (const s of seconds) this.#known.set(s.second, s);
    const last = seconds.at(-1).second;
    for (const second of this.#known.keys()) if (second <= last - 60 || second > last) this.#known.delete(second);
    return Array.from({ length: 60 }, (_, i) => {
      const second = last - 59 + i;
      return this.#known.get(second) ?? { second, records: 0, imports: 0, requests: {} };
    });
  }

  /** Shows how close the peak usage came to a limit. */
  #drawVerdict(usage) {
    const { seconds, limits } = usage;
    const uses = meters.map(({ key, name, of }) => ({ name: name.toLowerCase(), limit: limits[key], ...summary(seconds.map(of), limits[key]) }));
    const share = (use) => Math.min(1, use.peak / use.limit);
    const top = uses.toSorted((a, b) => share(b) - share(a) || b.full - a.full)[0];
    const level = share(top) === 1 ? 'full' : share(top) >= nearLimit ? 'near' : 'far';
    const most = `The peak in the last 60 seconds was ${number(top.peak)} of ${number(top.limit)} a second (${top.name}).`;
    const [short, long] = {
      full: ['Yes', `A limit was reached in ${number(top.full)} of the last 60 seconds (${top.name}).`],
      near: ['Close', most],
      far: ['No', top.peak > 0 ? most : 'Nothing was used in the last 60 seconds.'],
    }[level];
    this.#sayVerdict(level, short, `${nameOf(usage) === this.#own ? '' : `${nameOf(usage)}: `}${long}`);
  }

  #sayVerdict(level, short, long) {
    $('verdict').dataset.level = level;
    say($('verdict-short'), short);
    say($('verdict-long'), long);
    if (this.#level && level !== this.#level && (level === 'near' || level === 'full')) announce(`${short}: ${long}`);
    this.#level = level;
  }

  /** Draws the details if they are open. */
  #drawDetails() {
    if (!this.#last) return;
    const names = [...new Set(this.#last.seconds.flatMap((s) => Object.keys(s.requests)))].sort();
    if ($('usage-by-route').open) this.#drawRoutes(names);
    if ($('usage-details').open) this.#drawTable(names);
  }

  #drawRoutes(names) {
    const { seconds, limits } = this.#last;
    const items = names.map((name) => {
      if (!this.#routes.has(name)) {
        const chart = new Chart(name, seconds.length, true);
        this.#routes.set(name, { chart, item: make('li', {}, chart.element) });
      }
      const { chart, item } = this.#routes.get(name);
      chart.update(seconds.map((s) => [s.second, s.requests[name] ?? 0]), limits.requests);
      return item;
    });
    const list = $('usage-routes');
    if (items.length !== list.children.length || items.some((item, i) => item !== list.children[i])) list.replaceChildren(...items);
    $('usage-empty').hidden = names.length > 0;
  }

  #drawTable(names) {
    const head = (text) => make('th', { scope: 'col' }, text);
    const cell = (n) => make('td', {}, number(n));
    const table = $('usage-table');
    table.tHead.replaceChildren(make('tr', {}, ...['Second', 'Records', 'Imports', ...names].map(head)));
    table.tBodies[0].replaceChildren(...this.#last.seconds.toReversed().map((s) => make('tr', {},
      make('th', { scope: 'row' }, clock(s.second)), cell(s.records), cell(s.imports), ...names.map((name) => cell(s.requests[name] ?? 0)))));
  }
}
