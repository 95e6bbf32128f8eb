import { call } from './api.js';
import { $, announce, describe, make, notice, say } from './dom.js';
import { instant } from './format.js';
import { insist } from './poll.js';

const shown = 10;

const kinds = {
  event: {
    path: 'event', noun: 'events', order: 'The newest events by the time they occurred',
    time: (r) => r.occurred_at, name: (r) => r.name, about: (r) => r.entity_id ?? '',
  },
  entity: {
    path: 'entity', noun: 'entities', order: 'The first entities by id',
    time: (r) => r.updated_at, name: (r) => r.id, about: (r) => r.type,
  },
};

/**
 * The recent records. They cost the address records of its limit, so they are
 * read when somebody asks and not again and again.
 */
export class Records {
  #onSignedOut; #run;

  constructor(onSignedOut) {
    this.#onSignedOut = onSignedOut;
    $('records-refresh').addEventListener('click', () => this.load(true));
    $('records-kind').addEventListener('change', () => this.load(true));
  }

  async load(asked = false) {
    this.#run?.abort();
    const run = this.#run = new AbortController();
    const kind = kinds[document.querySelector('input[name=kind]:checked').value];
    say($('records-hint'), `${kind.order}. Reading them costs this address up to ${shown} records.`);
    $('records-refresh').setAttribute('aria-disabled', 'true');
    try {
      const read = () => call('GET', `${kind.path}?limit=${shown}`, { signal: run.signal, exact: true });
      const { data } = await insist(read, (error) => run.signal.aborted || notice($('records-notice'), describe(error)));
      if (run.signal.aborted) return;
      notice($('records-notice'));
      this.#draw(kind, data.data);
      if (asked) announce(`${data.data.length} ${kind.noun} shown`);
    } catch (error) {
      if (run.signal.aborted) return;
      if (error.status === 401) this.#onSignedOut(error);
      $('records').replaceChildren();
      $('records-empty').hidden = error.status !== 403;
      if (error.status === 403) {
        notice($('records-notice'));
        say($('records-empty'), 'This key cannot read records. Sign in with one that also has the scope export to see them here.');
      } else {
        notice($('records-notice'), describe(error, true), () => this.load(true));
      }
    } finally {
      if (!run.signal.aborted) $('records-refresh').removeAttribute('aria-disabled');
    }
  }

  #draw(kind, records) {
    $('records-empty').hidden = records.length > 0;
    if (records.length === 0) say($('records-empty'), `There are no ${kind.noun} yet.`);
    $('records').replaceChildren(...records.map((r) => make('li', {}, make('details', {},
      make('summary', {}, make('time', { datetime: kind.time(r) }, instant(kind.time(r))), make('strong', {}, kind.name(r)), make('span', {}, kind.about(r)), make('code', {}, JSON.stringify(r.attributes))),
      make('pre', {}, JSON.stringify(r, null, 2))))));
  }
}
