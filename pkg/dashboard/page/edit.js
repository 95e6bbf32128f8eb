// Forms for the attributes of a record: values with their types, and attributes that are added,
// renamed and removed.

let draftKey = 0;

/** Returns the rows of a form for attributes. */
const draftsOf = (attributes) => Object.entries(attributes).map(([name, value]) => draftOf(name, value));

const draftOf = (name, value) => ({ key: draftKey++, name, kind: kindOf(value), text: textOfValue(value) });

/** Returns the attributes that rows describe, or throws { key, text } for the first row that is wrong. */
function attributesOf(drafts) {
  const attributes = {};
  for (const { key, name, kind, text } of drafts) {
    const wrong = (detail) => ({ key, text: `${name || 'The attribute'} ${detail}.` });
    if (!name) throw wrong('needs a name');
    if (Object.hasOwn(attributes, name)) throw wrong('is there twice');
    try {
      attributes[name] = valueOfText(kind, text);
    } catch (error) {
      throw wrong(error.message);
    }
  }
  return attributes;
}

/** The input for a value of a kind. */
function ValueInput({ draft: { name, kind, text }, change, inputRef, ...others }) {
  const props = { ...plain, ...others, class: kind === 'text' || kind === 'boolean' ? 'value' : 'value mono', ref: inputRef, 'aria-label': `Value of ${name || 'the attribute'}`, onInput: (event) => change({ text: event.target.value }) };
  if (kind === 'boolean') return html`<select ...${props} value=${text}><option value="true">true</option><option value="false">false</option></select>`;
  if (kind === 'json' || text.includes('\n')) return html`<textarea ...${props} rows=${Math.min(12, text.split('\n').length + 1)} value=${text} />`;
  return html`<input ...${props} disabled=${kind === 'null'} inputmode=${kind === 'number' ? 'decimal' : undefined} value=${text} />`;
}

/** Rows of attributes. setDrafts receives the rows after a change, and fault is { key, text }. */
function AttributeRows({ drafts, setDrafts, fault, first }) {
  const rows = useRef();
  const change = (key, values) => setDrafts(drafts.map((draft) => (draft.key === key ? { ...draft, ...values } : draft)));
  const convert = (draft, kind) => change(draft.key, { kind, text: kind === 'boolean' ? String(draft.text === 'true') : draft.text });
  const add = () => setDrafts([...drafts, { ...draftOf('', ''), added: true }]);
  const remove = (key) => {
    setDrafts(drafts.filter((draft) => draft.key !== key));
    rows.current.parentElement.querySelector('.add').focus();
  };
  useLayoutEffect(() => {
    if (fault) rows.current.querySelector(`[data-key="${fault.key}"] .value`)?.focus();
  }, [fault]);
  return html`<div class="drafts" ref=${rows} onKeyDown=${moveBetweenValues}>
    ${drafts.map((draft) => html`<div class="draft" key=${draft.key} data-key=${draft.key}>
      <input class="name mono" aria-label="Name of the attribute" value=${draft.name} ref=${draft.added ? focusOnce : undefined} onInput=${(event) => change(draft.key, { name: event.target.value })} ...${plain} />
      <select class="kind" aria-label=${`Type of ${draft.name || 'the attribute'}`} value=${draft.kind} onChange=${(event) => convert(draft, event.target.value)}>${Object.entries(kindNames).map(([kind, text]) => html`<option value=${kind}>${text}</option>`)}</select>
      <${ValueInput} draft=${draft} change=${(values) => change(draft.key, values)} aria-invalid=${fault?.key === draft.key ? 'true' : undefined} inputRef=${draft.name === first ? focusOnce : undefined} />
      <button type="button" class="bare" aria-label=${`Remove ${draft.name || 'the attribute'}`} onClick=${() => remove(draft.key)}><${Icon} name="trash-2" /></button>
      ${fault?.key === draft.key && html`<p class="field-error" role="alert">${fault.text}</p>`}
    </div>`)}
  </div>
  <${Button} style="quiet add" icon="plus" onClick=${add}>Add an attribute<//>`;
}

/** The arrow keys lead from value to value, but in a field of several lines or a choice, which need them. */
function moveBetweenValues(event) {
  const row = event.target.closest('.draft');
  const next = event.target.matches('input.value') && { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
  if (!next) return;
  event.preventDefault();
  next.querySelector('.value').focus();
  next.querySelector('.value').select?.();
}

/** Focuses an input when it appears, with its text selected. */
function focusOnce(input) {
  if (!input || input.dataset?.focused) return;
  input.dataset.focused = '';
  input.focus();
  input.select?.();
}

/** Keys of a form: Escape cancels, and Control with Enter submits from a field of several lines. */
const formKeys = (submit, cancel) => (event) => {
  if (event.key === 'Escape') {
    event.stopPropagation();
    cancel();
  } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event);
};

/** The form that changes the attributes of the open entity. */
function EditForm({ pane }) {
  const [drafts, setDrafts] = useState(() => draftsOf(pane.record.attributes));
  const [fault, setFault] = useState();
  const submit = (event) => {
    event.preventDefault();
    try {
      setFault();
      pane.save(attributesOf(drafts));
    } catch (wrong) {
      setFault(wrong);
    }
  };
  return html`<form id="edit-form" novalidate onSubmit=${submit} onKeyDown=${formKeys(submit, () => pane.cancel())}>
    <${AttributeRows} drafts=${drafts} setDrafts=${setDrafts} fault=${fault} first=${pane.editing || drafts[0]?.name} />
    <div class="inline actions">
      <button type="submit" class="primary" id="edit-save" aria-disabled=${pane.busy ? 'true' : undefined}>Save</button>
      <${Button} onClick=${() => pane.cancel()}>Cancel<//>
      <span class="hint">Saved only if nobody has changed revision ${visibleJSON(pane.record.revision)}.</span>
    </div>
  </form>`;
}

/** Returns a UUIDv7, so that a repeated request does not create a second record. */
function newID() {
  const hex = Date.now().toString(16).padStart(12, '0') + '7' + randomID().slice(0, 3) + '89ab'[Math.floor(Math.random() * 4)] + randomID().slice(0, 15);
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** The form that creates a record. */
function CreateForm({ pane }) {
  const { resource, entity, type } = pane.making;
  const [drafts, setDrafts] = useState(() => [draftOf(resource === 'event' && entity ? 'text' : '', '')]);
  const [fault, setFault] = useState();
  const id = useRef(newID());
  const submit = (event) => {
    event.preventDefault();
    const given = Object.fromEntries([...new FormData($('create-form'))].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
    setFault();
    try {
      if (resource === 'event' && !given.name) throw { key: 'name', text: 'An event needs a name.' };
      const attributes = attributesOf(drafts.filter(({ name, text }) => name || text));
      if (given.occurred_at) given.occurred_at = toUTC(given.occurred_at);
      pane.create(resource === 'event' ? 'create_event' : 'create_entity', { id: id.current, ...given, attributes });
    } catch (wrong) {
      if (wrong instanceof Error) throw wrong;
      setFault(wrong);
      if (wrong.key === 'name') $('create-name').focus();
    }
  };
  return html`<form id="create-form" novalidate onSubmit=${submit} onKeyDown=${formKeys(submit, () => records.close())}>
    ${resource === 'event' ? html`<${Field} id="create-name" name="name" label="Name" placeholder="note" fault=${fault?.key === 'name' ? fault.text : ''} defaultValue="" inputRef=${focusOnce} />`
    : html`<${Field} id="create-type" name="type" label="Type" optional defaultValue=${type} placeholder="entity" inputRef=${focusOnce} />`}
    <h3>Attributes</h3>
    <${AttributeRows} drafts=${drafts} setDrafts=${setDrafts} fault=${fault} />
    ${resource === 'event' ? html`
      <${Field} id="create-entity" name="entity_id" label="Entity id" optional defaultValue=${entity} />
      <${Field} id="create-at" name="occurred_at" label="Occurred" optional type="datetime-local" step="1" defaultValue="" hint=${`Now, if empty. In ${zoneName()}.`} />`
    : html`<${Field} id="create-id" name="id" label="Id" optional defaultValue="" hint="A new id, if empty." />`}
    <div class="inline actions">
      <button type="submit" class="primary" id="create-save" aria-disabled=${pane.busy ? 'true' : undefined}>Create the ${nouns[resource]}</button>
      <${Button} onClick=${() => records.close()}>Cancel<//>
    </div>
  </form>`;
}
