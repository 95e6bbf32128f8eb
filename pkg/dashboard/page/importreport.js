// What the page shows of a checked file and of rejected rows.

const shownRejects = 20; // the download contains all rejected rows
const shownExamples = 3; // of each reason
const rowsInPart = 1000;

/** Rows that were rejected. Most of the file that a user can download is in Blobs, which browsers keep out of memory. */
class Rejects {
  count = 0; first = []; #parts = ['\ufeffline,reason,row\r\n']; #rows = [];

  add({ line, reason, text }) {
    this.count++;
    if (this.first.length < shownRejects) this.first.push({ line, reason, text });
    this.#rows.push(`${line},${csvCell(reason)},${csvCell(text)}\r\n`);
    if (this.#rows.length < rowsInPart) return;
    this.#parts.push(new Blob(this.#rows));
    this.#rows = [];
  }

  /** Saves the rows as CSV. */
  save(name) { saveFile(new Blob([...this.#parts, ...this.#rows], { type: 'text/csv' }), name); }
}

/** Returns a cell of a CSV file, with an apostrophe before what a spreadsheet would evaluate as a formula. */
function csvCell(text) {
  return `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

function saveFile(blob, name) {
  const url = URL.createObjectURL(blob);
  download(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Returns the place of a row in a file of the format. */
const rowName = (line, format) => `${format === 'json' ? 'Element' : 'Line'} ${number(line)}`;

/** The rows that were rejected during an import. */
const RejectedRows = ({ rejects: { first, count: all }, format }) => html`<ol id="import-progress-rejects" class="rejects">
  ${first.toSorted((a, b) => a.line - b.line).map(({ line, reason, text }) => html`<li><strong>${rowName(line, format)}</strong><span><${Stored} text=${sentence(reason)} /></span><code><${Stored} text=${text.slice(0, 200)} /></code></li>`)}
  ${all > shownRejects && html`<li>and ${number(all - shownRejects)} more</li>`}</ol>`;

/** What an import would do, by the report of the importer. */
function CheckReport({ result: { description, valid, rejected, rejects, columns, notes }, count: saved }) {
  return html`<div id="import-report">
    <h2 class="record-title" tabindex="-1">The file was checked</h2>
    <p id="import-report-text">${count(valid, 'row')} can be imported, and ${rejected === 0 ? 'none' : number(rejected)} would be rejected. Nothing has been sent yet.</p>
    <ul id="import-report-notes" class="notes">${notes.map((note) => html`<li><${Stored} text=${sentence(note)} /></li>`)}</ul>
    <details class="fold"><summary>What the columns become</summary>
      <div class="scroll" tabindex="0" role="region" aria-label="What the columns become"><table id="import-report-columns">
        <thead><tr>${['Column', 'Becomes', 'Type', 'Values', 'Of them'].map((text) => html`<th scope="col">${text}</th>`)}</tr></thead>
        <tbody>${columns.map(({ source, field, type = '', values, kinds }) => {
    const { role, name } = roleOf(field);
    return html`<tr><th scope="row"><${Stored} text=${source} /></th><td>${role === 'attribute' ? html`<${Stored} text=${name} />` : rolesOf(description)[role]}</td><td>${columnTypes[type] ?? type}</td><td class="numeric">${number(values)}</td><td>${kinds}</td></tr>`;
  })}</tbody>
      </table></div>
    </details>
    <ol id="import-report-rejects" class="rejects">
      ${rejects.slice(0, shownRejects).map(({ reason, count: rows, examples }) => html`<li><strong>${count(rows, 'row')}</strong><span><${Stored} text=${sentence(reason)} /></span>
        ${examples.slice(0, shownExamples).map(({ line, text }) => html`<code>${rowName(line, description.format)}: <${Stored} text=${text.slice(0, 200)} /></code>`)}</li>`)}
      ${rejects.length > shownRejects && html`<li>and ${count(rejects.length - shownRejects, 'other reason')}</li>`}
    </ol>
    <div class="inline actions">
      ${valid > 0 && html`<${Button} style="primary" id="import-start" onClick=${() => importer.send()}>Import ${count(valid, 'row')}<//>`}
      <${Button} id="import-change" onClick=${() => importer.go('setup')}>Change the columns<//>
      ${saved > 0 && html`<${Button} id="import-report-download" icon="download" onClick=${() => importer.saveRejects()}>Download the rejected rows<//>`}
      <${Button} onClick=${() => importer.restart()}>Choose another file<//>
    </div>
  </div>`;
}
