// The caller, which is the sender of the page's requests.

/** The caller as GET /usage returns it: { workspace, key_id, scopes }, with the address. */
let caller = { address: '', workspace: '', key_id: null, scopes: [] };

/** Returns whether the caller may read records and export jobs. */
const mayRead = () => caller.scopes.includes('export');

/** Returns whether the caller may see the usage of other addresses and keys. */
const mayWatch = () => caller.scopes.includes('operator');

/** Returns whether the caller may store records. */
const mayImport = () => caller.scopes.includes('import');

/** Returns whether the caller may erase an entity with its events. */
const mayErase = () => mayImport() && caller.scopes.includes('erase');

/** Returns a curl command for a request by the caller. */
const commandOf = (path, body) => curlCommand(path, { body, keyed: caller.key_id !== null });

/** Who the caller is, in the header of the page. */
function Account() {
  const { address, workspace, key_id: key, scopes } = caller;
  const id = (text, what) => html`<code><${Stored} text=${text} /></code> <${Copy} text=${text} what=${what} />`;
  return html`<details class="menu" id="about">
    <summary class="button quiet" id="about-summary"><${Icon} name="user" /><span class="wide-only">Workspace </span><${Stored} text=${workspace} /></summary>
    <div class="sheet">
      <dl class="caller">
        <div><dt>Workspace</dt><dd><${Stored} text=${workspace} /></dd></div>
        <div><dt>Your address</dt><dd>${id(address, 'your address')}</dd></div>
        <div><dt>API key</dt><dd>${key === null ? 'keys are off' : id(key, 'the id of your key')}</dd></div>
        <div><dt>Scopes</dt><dd>${scopes.join(', ')}</dd></div>
      </dl>
      <div id="zones"><${Segments} name="zone" legend="Times are in" value=${zone} options=${{ local: 'Local time', utc: 'UTC' }} onChange=${changeZone} /></div>
      ${session.on && html`<${Button} id="sign-out" icon="log-out" onClick=${signOut}>Sign out<//>`}
      <p class="hint"><a href="openapi.yaml">API description</a></p>
    </div>
  </details>`;
}

function changeZone(chosen) {
  setZone(chosen);
  draw();
  announce(`Times are in ${zoneName()}`);
}
