// The form that makes an API key and, for a new customer, a plan; and the dialog that shows the key.

const scopeTexts = {
  import: 'store records', export: 'read records, and make files of them', erase: 'with import: erase entities with their events',
  dashboard: 'sign in to this page', admin: 'manage the keys and indexes of the workspace', operator: 'with admin: manage all workspaces, plans and limits',
};

/** The key that was made last, with its secret, until its dialog is closed. */
let secret = null;

const newPlan = '*'; // not the name of a plan

function NewKey() {
  const all = manages();
  const [plan, setPlan] = useState('');
  const form = useRef();
  const able = Object.keys(scopeTexts).filter((scope) => caller.scopes.includes(scope) && (all || !['admin', 'operator'].includes(scope)));
  const submit = async (event) => {
    event.preventDefault();
    const values = new FormData(form.current);
    const value = (name) => (values.get(name) ?? '').trim();
    let chosen = plan;
    if (plan === newPlan) {
      const row = await keyPanel.send('new', 'set_limit', { plan: value('plan-name'), ...limitsIn(values) });
      if (!row) return focusFault('new-key-form');
      chosen = row.plan;
    }
    const key = {
      name: value('name'), scopes: values.getAll('scope'), ...(all && { workspace: value('workspace') || caller.workspace }), ...(all && chosen && { plan: chosen }),
      ...(value('from') && { from: value('from').split(/[\s,]+/) }), ...(value('expires') && { expires_at: toUTC(value('expires')) }),
    };
    const made = await keyPanel.send('new', 'create_api_key', key, { once: true });
    if (made) {
      openIn({});
      secret = made;
      draw();
    } else {
      if (plan === newPlan) setPlan(chosen); // it exists now
      focusFault('new-key-form');
    }
  };
  const field = (name, fault = name) => ({ id: `new-${name}`, name, fault: keyPanel.fault('new', fault) });
  return html`<${Sheet} id="new-key-sheet" title=${all ? 'New customer or key' : 'New key'} onClose=${() => openIn({})}>
    <form id="new-key-form" class="narrow" ref=${form} novalidate onSubmit=${submit}>
      ${all && html`<${Field} ...${field('workspace')} label="Workspace" defaultValue=${readQuery().workspace ?? ''} placeholder=${caller.workspace} hint="The records of a workspace are apart from all others. A new name makes a new workspace, which a new customer needs." />`}
      ${all && html`<div class="field"><label for="new-plan">Plan</label>
        <select id="new-plan" aria-invalid=${keyPanel.fault('new', 'plan') ? 'true' : undefined} onChange=${(event) => setPlan(event.target.value)}>
          <${PlanOptions} chosen=${plan === newPlan ? '' : plan} none="none: counted by address" /><option value=${newPlan} selected=${plan === newPlan}>a new plan…</option></select>
        <p class="field-error">${keyPanel.fault('new', 'plan')}</p></div>`}
      ${plan === newPlan && html`<fieldset class="group"><legend>The new plan</legend>
        <${Field} ...${field('plan-name', 'plan')} label="Name of the plan" placeholder="pro" />
        <${LimitFields} panel=${keyPanel} form="new" quotas /></fieldset>`}
      <${Field} ...${field('name')} label="Name of the key" optional hint="Says whose it is, or what it is for." />
      <fieldset class="field" id="new-scopes"><legend>The key may</legend>
        ${able.map((scope) => html`<label class="check" key=${scope}><input type="checkbox" name="scope" value=${scope} defaultChecked=${['import', 'export'].includes(scope)} /> <span>${scopeTexts[scope]} <code>${scope}</code></span></label>`)}
        <p class="field-error">${keyPanel.fault('new', 'scopes')}</p></fieldset>
      <details class="fold"><summary>Addresses and expiry</summary>
        <${Field} ...${field('from')} label="Accepted from" optional placeholder="192.0.2.0/24, 2001:db8::/48" hint="Addresses or CIDR blocks." />
        <${Field} ...${field('expires', 'expires_at')} label="Expires" optional type="datetime-local" /></details>
      <button type="submit" class="primary wide" id="make-key" aria-disabled=${keyPanel.busy ? 'true' : undefined}>Make the key</button>
      <${Failure} panel=${keyPanel} form="new" />
    </form>
  <//>`;
}

/** Shows the key that was made, once. Escape closes the dialog only after the key was copied. */
function Secret() {
  const dialog = useRef();
  const [copied, setCopied] = useState(false);
  useLayoutEffect(() => { if (secret && !dialog.current.open) dialog.current.showModal(); });
  if (!secret) return null;
  const close = () => {
    secret = null;
    setCopied(false);
    draw();
    $('keys-title')?.focus();
  };
  const escape = (event) => {
    if (!copied) event.preventDefault();
  };
  return html`<dialog id="secret" ref=${dialog} aria-labelledby="secret-title" onCancel=${escape} onClose=${close}>
    <h2 id="secret-title">The key of <${Stored} text=${secret.workspace} /></h2>
    <p>This is the only time that it is shown. Keep it where secrets are kept, or send it to whoever will use it.</p>
    <div class="command" onClick=${(event) => { if (event.target.closest('button')) setCopied(true); }}><pre><code id="secret-key">${secret.key}</code></pre><${Copy} text=${secret.key} what="the key" /></div>
    <p>Try it:</p>
    <${Command} text=${trial(secret)} />
    <p class="hint">Until you have copied the key, only the button closes this.</p>
    <button type="button" class="primary wide" id="secret-close" onClick=${() => dialog.current.close()}>I have the key</button>
  </dialog>`;
}

/** Returns commands that show that a key works. */
function trial({ key, scopes }) {
  const [path, body] = scopes.includes('export') ? ['event?limit=1'] : scopes.includes('dashboard') ? ['usage'] : ['create_event', { name: 'tried' }];
  return `KEY='${key}'\n${curlCommand(path, { body, keyed: true })}`;
}
