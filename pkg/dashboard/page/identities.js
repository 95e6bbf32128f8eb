// Lists the addresses and API keys that use the most, for operators.

const periods = { minute: 'Last minute', day: 'Today', month: 'This month' };

/** Milliseconds between two requests. A day and a month cost a read unit for each key. */
const listIntervals = { minute: 10_000, day: 60_000, month: 60_000 };

/** The columns by which the service sorts. Those with minute are unknown of a day and a month. */
const usageColumns = [
  { key: 'share', name: 'Of limit' },
  { key: 'records', name: 'Records' },
  { key: 'imports', name: 'Imports' },
  { key: 'requests', name: 'Requests', minute: true },
  { key: 'refused', name: 'Refused', minute: true },
];

const columnsOfPeriod = (period) => usageColumns.filter(({ minute }) => !minute || period === 'minute');

class Identities {
  list = null;
  #poller; #shown = '';

  /** onDenied receives errors with status 401. */
  constructor(onDenied) {
    this.#poller = new Poller((signal) => this.#load(signal), () => listIntervals[this.period], (error, stopped, wait) => {
      if (error?.status === 401) onDenied(error);
      else report('identities', error, { stopped, wait, retry: stopped ? () => this.#poller.start() : undefined });
    });
  }

  /** What is listed, according to the page's URL. */
  get period() { return Object.hasOwn(periods, readQuery().identities) ? readQuery().identities : 'minute'; }

  get sort() { return columnsOfPeriod(this.period).find(({ key }) => key === readQuery().sort)?.key ?? 'share'; }

  show() {
    const wanted = `${this.period} ${this.sort}`;
    if (!mayWatch() || wanted === this.#shown) return;
    this.#shown = wanted;
    if (this.list?.period !== this.period) this.list = null;
    this.#poller.start();
  }

  stop() {
    this.#shown = '';
    this.#poller.stop();
  }

  choose(change) {
    moveTo({ ...readQuery(), ...change });
    this.show();
    draw();
  }

  async #load(signal) {
    const response = await call('GET', withQuery('usage', { identities: this.period, sort: this.sort }), { signal });
    this.list = response.data.identities;
    draw();
    return response;
  }
}

/** The list, with its period. */
function WhoUsesTheMost({ identities }) {
  const { list, period } = identities;
  return html`<section class="card" aria-labelledby="identities-title">
    <div class="bar titled">
      <h2 id="identities-title">Who uses the most</h2>
      <${Segments} name="identities" legend="Period" unseen value=${period} options=${periods} onChange=${(chosen) => identities.choose({ identities: chosen })} />
    </div>
    <${Notice} of="identities" />
    ${!list ? !troubles.has('identities') && html`<${Skeleton} rows=${4} />` : !list.data ? html`<${NotListed} query=${list.refusals_query} />`
    : list.data.length === 0 ? html`<${Empty} id="identities-empty" title="Nothing was used">${period !== 'minute' && html`<p>Days and months list the API keys that have limits of their own.</p>`}<//>` : html`<${IdentityTable} identities=${identities} />`}
    ${list?.data && period !== 'minute' && list.refusals_query && html`<p class="hint"><${SavedQuery} query=${list.refusals_query} /></p>`}
    ${list?.left_out > 0 && html`<p class="hint">${count(list.left_out, 'other')} used something too.</p>`}
    ${list?.complete === false && html`<p class="hint">Some keys are missing here, because there are too many to read them all.</p>`}
  </section>`;
}

const SavedQuery = ({ query: { name, url } }) => html`Refused requests are in the log: the saved query <code><${Stored} text=${name} /></code> in <a href=${url}>CloudWatch Logs Insights</a> counts them.`;

/** Says why there is no list of a minute. */
const NotListed = ({ query }) => html`<${Empty} id="identities-elsewhere" title="There is no list of the last minute">
  <p>No process of this service has the counters of all addresses, and reading the whole table of counters would cost too much. Today and This month list API keys.</p>
  ${query && html`<p><${SavedQuery} query=${query} /></p>`}
<//>`;

function IdentityTable({ identities }) {
  const { list, period, sort } = identities;
  const columns = columnsOfPeriod(period);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Addresses and API keys">
    <table id="identities"><caption class="unseen">Usage, highest first</caption>
      <thead><tr><th scope="col">Address or key</th>${columns.map(({ key, name }) => html`<th key=${key} scope="col" class="numeric" aria-sort=${key === sort ? 'descending' : undefined}>
        <button type="button" class="sort" onClick=${() => identities.choose({ sort: key })}>${name}${key === sort && html`<${Icon} name="arrow-down" />`}</button></th>`)}</tr></thead>
      <tbody>${list.data.map((u) => html`<tr key=${u.counted} data-level=${levelOf(u.share ?? 0)}>
        <th scope="row"><${Identity} of=${u} /></th>
        <td class="numeric">${u.share === null ? html`<span class="none" aria-label="no quota">–</span>` : html`${percent(u.share)}<progress max="1" value=${Math.min(1, u.share)} aria-hidden="true" />`}</td>
        ${columns.slice(1).map(({ key }) => html`<td key=${key} class=${key === 'refused' && u.refused > 0 ? 'numeric chart-full' : 'numeric'}>${number(u[key])}</td>`)}
      </tr>`)}</tbody>
    </table>
  </div>`;
}

const limitActions = { block: 'blocked', unlimited: 'not limited', observe: 'observed' };

/** The link to the usage of an address or key, and what is known of a key. */
function Identity({ of: u }) {
  const name = nameOf(u);
  const about = [u.name && name, u.workspace, u.plan, limitActions[u.action]].filter(Boolean).join(' · ');
  return html`<${Link} query=${{ ...readQuery(), address: name === usage.own ? '' : name }} aria-current=${name === (usage.of || usage.own) ? 'true' : undefined}><${Stored} text=${u.name || name} /><//>
    ${about && html`<span class="hint"><${Stored} text=${about} /></span>`}`;
}

/** Returns a share as text; 100 % only if it is reached. */
const percent = (share) => `${share > 0 && share < 0.01 ? '<1' : number(Math.floor(100 * share + 1e-9))} %`;
