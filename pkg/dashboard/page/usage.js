import { call } from './api.js';
import { Chart } from './chart.js';
import { $, announce, describe, make, notice, say } from './dom.js';
import { clock, number } from './format.js';
import { Poller } from './poll.js';

const interval = 2000;

/** What is said of an address whose requests are not simply limited. */
const actions = {
  block: 'This address is blocked: every request gets 403.',
  unlimited: 'This address is not limited: what goes beyond the lines passes, too.',
  observe: 'This address is observed: requests beyond the lines pass, and are not counted here.',
};

/** The charts of an address's last 60 seconds. */
export class Usage {
  #poller; #onDenied; #address = ''; #own = ''; #last; #main; #routes = new Map();

  /** onDenied is told of the errors 401 and 403. */
  constructor(onDenied) {
    this.#onDenied = onDenied;
    this.#poller = new Poller((signal) => this.#load(signal), () => interval, (r) => this.#report(r));
    $('usage-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#show($('address').value.trim());
    });
    $('usage-own').addEventListener('click', () => {
      this.#show('');
      $('address').focus();
    });
    $('usage-details').addEventListener('toggle', () => this.#fill());
  }

  /** Takes over the caller's own usage, and goes on from there. */
  start(own) {
    this.#own = own.address;
    this.#address = '';
    $('address').value = own.address;
    this.#draw(own);
    this.#poller.start();
  }

  stop() { this.#poller.stop(); }

  #show(address) {
    this.#address = address === this.#own ? '' : address;
    this.#fault('');
    $('address').value = this.#address || this.#own;
    $('usage-own').hidden = this.#address === '';
    this.#poller.start();
    announce(`Showing ${this.#address || 'your address'}`);
  }

  async #load(signal) {
    const query = this.#address ? `?${new URLSearchParams({ address: this.#address })}` : '';
    const answer = await call('GET', `usage${query}`, { signal });
    this.#draw(answer.data);
    return answer;
  }

  #report({ error, stopped }) {
    if (!error) {
      notice($('usage-notice'));
    } else if (error.status === 401 || error.status === 403) {
      this.#onDenied(error);
    } else if (error.status === 400 && error.errors.some((e) => e.field === 'address')) {
      this.#fault('This is not an IPv4 or IPv6 address.');
    } else {
      notice($('usage-notice'), describe(error, stopped), stopped && (() => this.#poller.start()));
    }
  }

  #fault(text) {
    say($('address-error'), text);
    $('address').toggleAttribute('aria-invalid', false);
    if (text) {
      $('address').setAttribute('aria-invalid', 'true');
      $('address').focus();
    }
  }

  #draw(usage) {
    this.#last = usage;
    const { seconds, limits, action } = usage;
    $('usage-action').hidden = !(action in actions);
    say($('usage-action'), actions[action] ?? '');
    const series = (value) => seconds.map((s) => [s.second, value(s)]);
    if (!this.#main) {
      this.#main = { records: new Chart('Records read', seconds.length), imports: new Chart('Import calls', seconds.length) };
      $('usage-charts').append(this.#main.records.element, this.#main.imports.element);
    }
    this.#main.records.update(series((s) => s.records), limits.records);
    this.#main.imports.update(series((s) => s.imports), limits.imports);

    const names = [...new Set(seconds.flatMap((s) => Object.keys(s.requests)))].sort();
    const shown = names.map((name) => {
      let chart = this.#routes.get(name);
      if (!chart) {
        chart = new Chart(name, seconds.length, true);
        chart.item = make('li', {}, chart.element);
        this.#routes.set(name, chart);
      }
      chart.update(series((s) => s.requests[name] ?? 0), limits.requests);
      return chart.item;
    });
    if (shown.length !== $('usage-routes').children.length || shown.some((item, i) => item !== $('usage-routes').children[i])) {
      $('usage-routes').replaceChildren(...shown);
    }
    $('usage-empty').hidden = names.length > 0;
    this.#fill();
  }

  /** Fills the table, if it is open. */
  #fill() {
    if (!$('usage-details').open || !this.#last) return;
    const { seconds } = this.#last;
    const names = [...new Set(seconds.flatMap((s) => Object.keys(s.requests)))].sort();
    const head = (text) => make('th', { scope: 'col' }, text);
    const cell = (n) => make('td', {}, number(n));
    $('usage-table').tHead.replaceChildren(make('tr', {}, ...['Second', 'Records', 'Imports', ...names].map(head)));
    $('usage-table').tBodies[0].replaceChildren(...seconds.toReversed().map((s) => make('tr', {},
      make('th', { scope: 'row' }, clock(s.second)), cell(s.records), cell(s.imports), ...names.map((name) => cell(s.requests[name] ?? 0)))));
  }
}
