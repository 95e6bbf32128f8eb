// What is shown of the open record.

/** The record beside the list. */
function Pane({ pane }) {
  const { resource, id, record, making, message } = pane;
  const keys = (event) => {
    if (event.target.closest('input, select, textarea') || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'e' && canEdit(pane)) {
      event.preventDefault();
      pane.edit();
    } else if (event.key === 'n' && $('add-event')) {
      event.preventDefault();
      $('add-event').click();
    } else if (event.key === 'Escape') records.close();
  };
  return html`<article id="record" aria-labelledby="record-title" aria-busy=${String(Boolean(pane.busy))} onKeyDown=${keys}>
    <div class="bar">
      <h2 id="record-title" class="record-title" tabindex="-1">${making ? `New ${nouns[making.resource]}` : html`${resource === 'event' ? 'Event ' : 'Entity '}<${Stored} text=${id} />`}</h2>
      <button type="button" class="bare" id="record-back" aria-label="Close the record" onClick=${() => records.close()}><${Icon} name="x" /></button>
    </div>
    ${pane.failure && html`<p class="notice" data-tone=${pane.busy ? 'wait' : 'error'} id="record-failure" role="alert">${pane.failure}</p>`}
    ${making && html`<${CreateForm} key=${JSON.stringify(making)} pane=${pane} />`}
    ${message && html`<${Empty} id="record-message" icon="info">${message}<//>`}
    ${!making && !pane.ready && !pane.failure && html`<${Skeleton} rows=${8} />`}
    ${record && html`<${Details} key=${id} pane=${pane} />`}
    ${!making && resource === 'entity' && html`<${EventsOf} pane=${pane} />
      ${canEdit(pane) && html`<${DeleteForm} key=${id} pane=${pane} />`}
      ${mayErase() && isID(id) && html`<${EraseForm} key=${id} eraser=${pane.eraser} />`}
      <${EraseState} eraser=${pane.eraser} />`}
  </article>`;
}

const canEdit = ({ resource, record, editing, conflict }) => resource === 'entity' && Boolean(record) && mayImport() && editing === null && !conflict;

const Fact = ({ name, children }) => html`<div><dt>${name}</dt><dd>${children}</dd></div>`;

function Details({ pane }) {
  const { resource, record, editing, conflict, saved } = pane;
  const json = visibleJSON(record, 2);
  return html`
    <div id="record-actions" class="inline">
      ${canEdit(pane) && html`<${Button} style="primary" id="record-edit" icon="pencil" aria-keyshortcuts="e" onClick=${() => pane.edit()}>Edit<//>`}
      <${Copy} text=${record.id} what="the id" label="Copy id" /><${Copy} text=${json} what="the record" label="Copy JSON" />
      <${Copy} text=${commandOf(recordPath(resource, record.id))} what="the command" label="Copy as curl" />
    </div>
    ${saved && html`<${Saved} pane=${pane} />`}
    ${conflict && html`<${Conflict} key=${conflict.theirs && revisionOf(conflict.theirs)} pane=${pane} />`}
    <dl id="record-facts" class="facts">
      ${resource === 'event' ? html`
        <${Fact} name="Name"><${Stored} text=${record.name} /><//>
        <${Fact} name="Entity">${record.entity_id ? html`<${Link} keep query=${{ ...readQuery(), id: record.entity_id, of: 'entity' }}><${Stored} text=${record.entity_id} /><//>` : 'none'}<//>
        <${Fact} name="Occurred"><${Time} exact at=${record.occurred_at} /><//>` : html`
        <${Fact} name="Type"><${Link} query=${{ resource: 'entity', type: record.type }}><${Stored} text=${record.type} /><//><//>
        <${Fact} name="Revision">${visibleJSON(record.revision)}<//>
        <${Fact} name="Changed"><${Time} exact at=${record.updated_at} /><//>`}
      <${Fact} name="Created"><${Time} exact at=${record.created_at} /><//>
    </dl>
    ${editing !== null && !conflict ? html`<${EditForm} pane=${pane} />` : !conflict && html`<${Attributes} pane=${pane} />`}
    <details class="fold"><summary>JSON</summary><pre id="record-json" class="json" tabindex="0" role="region" aria-label="The record as JSON"><bdi>${json}</bdi></pre></details>`;
}

/** The attributes, each with its value; a click on a value edits it. */
function Attributes({ pane }) {
  const entries = Object.entries(pane.record.attributes);
  if (entries.length === 0) return html`<p class="hint">It has no attributes.</p>`;
  return html`<dl id="record-attributes" class="attributes">${entries.map(([name, value]) => html`<div key=${name}>
    <dt class="mono"><${Stored} text=${name} /></dt>
    <dd>${kindOf(value) === 'json' ? html`<pre class="json" tabindex="0" role="region" aria-label=${name}><bdi>${visibleJSON(value, 2)}</bdi></pre>` : html`<span><${Value} value=${value} /></span>`}
      ${canEdit(pane) && html`<button type="button" class="bare edit" aria-label=${`Edit ${name}`} onClick=${() => pane.edit(name)}><${Icon} name="pencil" /></button>`}</dd>
  </div>`)}</dl>`;
}

function EventsOf({ pane }) {
  const { id, events } = pane;
  const query = readQuery();
  if (!events) return null;
  const { latest, n, more } = events;
  return html`<section id="record-events-part" aria-labelledby="record-events-title">
    <div class="bar"><h3 id="record-events-title">Events <span id="record-events-count">${more ? `(more than ${number(n)})` : `(${number(n)})`}</span></h3>
      ${mayImport() && html`<${Link} keep class="button quiet" id="add-event" aria-keyshortcuts="n" query=${{ ...query, id: '', of: '', new: 'event', for: id }}><${Icon} name="plus" />Add an event<//>`}</div>
    <p class="hint" id="record-events-hint">${n > 0 ? `The latest ${count(latest.length, 'event')} up to now.` : 'No event up to now refers to this entity.'}</p>
    <ol id="record-events" class="rows">${latest.map((e) => html`<${Row} key=${e.id} keep resource="event" record=${e} at=${e.occurred_at} />`)}</ol>
    ${n > 0 && html`<div class="inline" id="record-events-actions"><${Link} class="button quiet" query=${{ resource: 'event', entity_id: id }}>All events<//>
      <${Button} icon="download" onClick=${() => exportEvents(id)}>Export these events<//></div>`}
  </section>`;
}

/** Starts an export of the events of an entity, and shows it. */
function exportEvents(id) {
  moveTo({ view: 'exports' });
  follow();
  exporter.exportEvents(id);
}

/** Deletes an entity, which is not the same as erasing it. */
const DeleteForm = ({ pane }) => html`<details id="delete" class="fold">
  <summary>Delete this entity</summary>
  <p>This removes the entity, but none of its events, which still name its id. To remove a person's data for good, erase it instead.</p>
  <${Button} style="danger" id="delete-start" icon="trash-2" onClick=${() => pane.remove()}>Delete the entity<//>
</details>`;
