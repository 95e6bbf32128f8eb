// What the user sees if somebody else has changed the entity meanwhile: both versions, and a choice
// for each attribute in which they differ.

/** Returns the rows of a conflict: { name, base, mine, theirs, choice }; a choice is "mine", "theirs" or, if both have changed it, ''. */
function conflictRows({ base, mine, theirs }) {
  return changesBetween(theirs.attributes, mine).map(({ name }) => {
    const row = { name, base: base[name], mine: mine[name], theirs: theirs.attributes[name] };
    const [changedMine, changedTheirs] = [!same(row.base, row.mine), !same(row.base, row.theirs)];
    return { ...row, choice: changedMine && changedTheirs ? '' : changedMine ? 'mine' : 'theirs' };
  });
}

const Side = ({ value }) => (value === undefined ? html`<em>no such attribute</em>` : html`<${Value} value=${value} />`);

function Conflict({ pane }) {
  const { conflict } = pane;
  if (!conflict.theirs) return html`<${Vanished} pane=${pane} />`;
  const [rows, setRows] = useState(() => conflictRows(conflict));
  const [fault, setFault] = useState('');
  const choose = (name, choice) => setRows(rows.map((row) => (row.name === name ? { ...row, choice } : row)));
  const save = (event) => {
    event.preventDefault();
    if (rows.some(({ choice }) => !choice)) return setFault('Choose a value for each attribute that both of you have changed.');
    const attributes = { ...conflict.theirs.attributes };
    for (const { name, mine, choice } of rows) {
      if (choice === 'theirs') continue;
      if (mine === undefined) delete attributes[name];
      else attributes[name] = mine;
    }
    pane.conflict = null;
    return pane.save(attributes, conflict.theirs);
  };
  const option = (row, side) => html`<td><label class="check"><input type="radio" name=${`choice ${row.name}`} value=${side} checked=${row.choice === side} onChange=${() => choose(row.name, side)} /><span><${Side} value=${row[side]} /></span></label></td>`;
  return html`<form id="conflict" class="conflict" novalidate onSubmit=${save}>
    <h3 id="conflict-title" tabindex="-1"><${Icon} name="triangle-alert" />Somebody else has changed this entity</h3>
    <p>Nothing was overwritten. Revision ${visibleJSON(conflict.theirs.revision)} was stored <${Time} at=${conflict.theirs.updated_at} />. Choose what to keep; what only one of you has changed is chosen already.</p>
    <div class="scroll"><table>
      <thead><tr><th scope="col">Attribute</th><th scope="col">Stored now</th><th scope="col">Yours</th><th scope="col">When you began</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.name} class=${row.choice ? '' : 'open'}><th scope="row" class="mono"><${Stored} text=${row.name} /></th>${option(row, 'theirs')}${option(row, 'mine')}<td class="muted"><${Side} value=${row.base} /></td></tr>`)}</tbody>
    </table></div>
    <p class="field-error" role="alert">${fault}</p>
    <div class="inline actions">
      <button type="submit" class="primary" id="conflict-save">Save these values</button>
      <${Button} id="conflict-discard" onClick=${() => pane.takeTheirs()}>Discard my changes<//>
    </div>
  </form>`;
}

/** The entity was deleted while the user changed it. */
const Vanished = ({ pane }) => html`<div id="conflict" class="conflict">
  <h3 id="conflict-title" tabindex="-1"><${Icon} name="triangle-alert" />Somebody else has deleted this entity</h3>
  <div class="inline actions">
    <${Button} style="primary" onClick=${() => pane.create('create_entity', { id: pane.id, type: pane.conflict.type, attributes: pane.conflict.mine })}>Create it again with my values<//>
    <${Button} onClick=${() => pane.takeTheirs()}>Leave it deleted<//>
  </div>
</div>`;

/** What the last save has changed, with a button that undoes it. */
function Saved({ pane }) {
  const { saved, record } = pane;
  const canUndo = saved.back && saved.revision === revisionOf(record);
  return html`<div id="saved" class="notice" data-tone="done" role="status">
    <div><strong>${saved.back ? 'Saved' : 'Undone'}</strong>
      <ul>${saved.changes.map(({ name, before, after }) => html`<li key=${name}><span class="mono"><${Stored} text=${name} /></span>: <del><${Side} value=${before} /></del> → <ins><${Side} value=${after} /></ins></li>`)}</ul></div>
    ${canUndo && html`<${Button} id="undo" icon="undo-2" onClick=${() => pane.undo()}>Undo<//>`}
  </div>`;
}
