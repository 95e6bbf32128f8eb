// The view of API keys.

const keysPerPage = 200;
const mostKeys = 1000; // that the view reads

const keyPanel = new AdminPanel('keys', async (signal) => {
  const { workspace } = readQuery();
  const plans = await readPlans(signal);
  for (let all = [], cursor; ;) {
    const response = await call('GET', withQuery('api_key', { workspace: manages() && workspace, limit: keysPerPage, cursor }), { signal });
    all = all.concat(response.data.data);
    cursor = response.data.next_cursor;
    if (cursor && all.length < mostKeys) continue;
    const data = { keys: all.toSorted((a, b) => b.created_at.localeCompare(a.created_at)), more: Boolean(cursor), plans };
    return { ...response, data };
  }
});

/** Returns whether the caller manages all workspaces, plans and limits. */
const manages = () => caller.scopes.includes('admin') && caller.scopes.includes('operator');

/** Returns the plans, or none if the caller may not see them. */
async function readPlans(signal) {
  if (!manages()) return [];
  const { data } = await call('GET', 'limit', { signal });
  return data.data.filter(({ plan }) => plan);
}

function KeysView() {
  const { id, new: making, workspace } = readQuery();
  const open = keyPanel.data?.keys.find((key) => key.id === id);
  return html`<${AdminView} panel=${keyPanel} needs=${['admin']} command="sluice keys create --workspace acme --scope import --scope export">
    ${keysOff() && html`<p class="notice" data-tone="wait" id="keys-off">API keys are off: nobody needs one, and plans have no effect. To require keys, start the service with AUTH_MODE=api-key.</p>`}
    ${making && html`<${NewKey} />`}
    ${open && html`<${OpenKey} key=${id} shown=${open} />`}
    ${id && keyPanel.data && !open && html`<p class="notice" data-tone="wait" id="key-missing">There is no key ${id} here.</p>`}
    <${KeyList} workspace=${workspace} open=${id} />
  <//>
  <${Secret} />`;
}

function KeyList({ workspace = '', open }) {
  const [ended, setEnded] = useState(false);
  const { keys, more } = keyPanel.data;
  const shown = keys.filter((key) => ended || key.status === 'active');
  const all = manages();
  const filter = (event) => {
    event.preventDefault();
    openIn({ workspace: $('keys-workspace').value.trim() });
  };
  const columns = [
    { name: 'Name', of: (key) => html`<${Link} query=${{ ...readQuery(), new: '', id: key.id }}><${Stored} text=${key.name || 'no name'} /><//>` },
    { name: 'Id', of: ({ id }) => html`<code>${id}</code>` },
    ...(all ? [{ name: 'Workspace', of: (key) => html`<${Stored} text=${key.workspace} />` }, { name: 'Plan', of: ({ plan }) => plan || html`<${None} />` }] : []),
    { name: 'Scopes', of: ({ scopes }) => scopes.join(', ') },
    { name: 'Status', of: ({ status }) => html`<span class="badge" data-state=${status}>${status}</span>` },
    { name: 'Created', of: (key) => html`<${Time} at=${key.created_at} />` },
    { name: 'Expires', of: (key) => (key.expires_at ? html`<${Time} at=${key.expires_at} />` : 'never') },
  ];
  return html`<section class="list" aria-labelledby="keys-title">
    <div class="bar spread"><h2 id="keys-title" tabindex="-1">${count(shown.length, 'key')}${more ? ' of more' : ''}</h2>
      <div class="inline">
        ${all && html`<form class="inline" novalidate onSubmit=${filter}><label for="keys-workspace">Workspace</label>
          <input id="keys-workspace" key=${workspace} defaultValue=${workspace} placeholder="all" ...${plain} /></form>`}
        <label class="check"><input id="keys-ended" type="checkbox" checked=${ended} onChange=${() => setEnded(!ended)} /> Revoked and expired too</label>
        <${Button} id="new-key" icon="plus" style="primary" onClick=${() => openIn({ new: 'key' })}>${all ? 'New customer or key' : 'New key'}<//>
      </div></div>
    ${shown.length === 0 ? html`<${Empty} id="keys-empty" icon="key-round" title="No keys here" />`
    : html`<${Table} id="keys-table" caption="API keys" columns=${columns} rows=${shown} keyOf=${({ id }) => id} open=${open} />`}
    ${more && html`<p class="hint">Only ${number(mostKeys)} keys are read. Choose a workspace to see all of its keys.</p>`}
  </section>`;
}

/** One key, with what can be done with it. */
function OpenKey({ shown: key }) {
  const madeBy = (maker) => keyPanel.data.keys.filter((other) => other.made_by === maker);
  const made = madeBy(key.id);
  const link = (id) => html`<${Link} query=${{ ...readQuery(), id }}><code>${id}</code><//>`;
  return html`<${Sheet} id="open-key" title=${html`<${Stored} text=${key.name || key.id} />`} onClose=${() => openIn({})}>
    <dl class="facts">
      <${Fact} name="Id"><code>${key.id}</code> <${Copy} text=${key.id} what="the id" /><//>
      <${Fact} name="Status"><span class="badge" data-state=${key.status}>${key.status}</span>${key.revoked_at && html` <${Time} at=${key.revoked_at} />`}<//>
      <${Fact} name="Workspace"><${Stored} text=${key.workspace} /><//>
      <${Fact} name="Scopes">${key.scopes.join(', ')}<//>
      <${Fact} name="Accepted from">${key.from.join(', ') || 'any address'}<//>
      <${Fact} name="Created"><${Time} exact at=${key.created_at} /><//>
      <${Fact} name="Expires">${key.expires_at ? html`<${Time} exact at=${key.expires_at} />` : 'never'}<//>
      <${Fact} name="Made by">${key.made_by ? link(key.made_by) : 'a command'}<//>
      <${Fact} name="Counted as">${key.counted_as ? link(key.counted_as) : 'itself'}<//>
    </dl>
    ${made.length > 0 && html`<p class="hint" id="key-made">It made ${made.map(({ id }, i) => html`${i > 0 && ', '}${link(id)}`)}.</p>`}
    <div class="inline">
      ${manages() && html`<${Link} class="button quiet" query=${{ view: 'usage', address: `key:${key.counted_as || key.id}` }}><${Icon} name="gauge" />Usage<//>`}
      <${Link} class="button quiet" query=${{ view: 'audit', thing: `key:${key.id}` }}><${Icon} name="scroll-text" />What was changed<//>
    </div>
    ${manages() && !key.counted_as && key.status === 'active' && html`<${PlanOfKey} shown=${key} />`}
    ${key.status !== 'revoked' && html`<${Revocation} shown=${key} made=${made.filter(({ status }) => status === 'active')} />`}
  <//>`;
}

const PlanOptions = ({ chosen, none }) => html`<option value="" selected=${!chosen}>${none}</option>
  ${chosen && !keyPanel.data.plans.some(({ plan }) => plan === chosen) && html`<option value=${chosen} selected>${chosen}, which does not exist</option>`}
  ${keyPanel.data.plans.map(({ plan }) => html`<option key=${plan} value=${plan} selected=${plan === chosen}>${plan}</option>`)}`;

function PlanOfKey({ shown: { id, plan } }) {
  const submit = async (event) => {
    event.preventDefault();
    const chosen = $('key-plan').value;
    if (await keyPanel.send('plan', 'set_api_key_plan', { id, plan: chosen || null })) announce(chosen ? `The key has the plan ${chosen}` : 'The key has no plan');
  };
  return html`<form class="fold" id="plan-form" novalidate onSubmit=${submit}>
    <div class="inline"><label for="key-plan">Plan</label>
      <select id="key-plan"><${PlanOptions} chosen=${plan} none="none: counted by address" /></select>
      <button type="submit" class="quiet" id="plan-save" aria-disabled=${keyPanel.busy ? 'true' : undefined}>Change the plan</button></div>
    <p class="hint">What the key has used stays counted. A change takes effect within 60 seconds.</p>
    <${Failure} panel=${keyPanel} form="plan" />
  </form>`;
}

function Revocation({ shown: { id, name }, made }) {
  const submit = async (event) => {
    event.preventDefault();
    const others = Boolean($('revoke-made')?.checked);
    const revoked = await keyPanel.send('revoke', 'revoke_api_key', { id, ...(others && { made: true }) });
    if (!revoked) return;
    announce(`Revoked ${count(1 + (revoked.made?.length ?? 0), 'key')}`);
    $('open-key-title')?.focus();
  };
  return html`<details class="fold" id="revoke"><summary>Revoke this key</summary>
    <form novalidate onSubmit=${submit}>
      <p>All requests with <${Stored} text=${name || id} /> get 401, within 60 seconds. Nobody can take that back.</p>
      ${made.length > 0 && html`<label class="check field"><input type="checkbox" id="revoke-made" defaultChecked /> <span>Also revoke the ${count(made.length, 'valid key')} that it made, and those that these made</span></label>`}
      <button type="submit" class="danger" id="revoke-key" aria-disabled=${keyPanel.busy ? 'true' : undefined}>Revoke for good</button>
      <${Failure} panel=${keyPanel} form="revoke" />
    </form></details>`;
}
