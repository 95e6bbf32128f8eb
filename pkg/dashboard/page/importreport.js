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

  draw(list, format) {
    this.first.sort((a, b) => a.line - b.line);
    list.replaceChildren(...this.first.map(({ line, reason, text }) => make('li', {},
      make('strong', {}, rowName(line, format)), make('span', {}, stored(sentence(reason))), make('code', {}, stored(text.slice(0, 200))))));
    if (this.count > shownRejects) list.append(make('li', {}, `and ${number(this.count - shownRejects)} more`));
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
  make('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Returns the place of a row in a file of the format. */
const rowName = (line, format) => `${format === 'json' ? 'Element' : 'Line'} ${number(line)}`;

/** Shows what an import would do, by the report of the importer. */
function drawReport({ description, valid, rejected, rejects, columns, notes }) {
  say($('import-report-text'), `${count(valid, 'row')} can be imported, and ${rejected === 0 ? 'none' : number(rejected)} would be rejected. Nothing has been sent yet.`);
  $('import-report-notes').replaceChildren(...notes.map((note) => make('li', {}, stored(sentence(note)))));
  $('import-report-columns').tBodies[0].replaceChildren(...columns.map(({ source, field, type = '', values, kinds }) => {
    const { role, name } = roleOf(field);
    const cells = [role === 'attribute' ? stored(name) : rolesOf(description)[role], columnTypes[type] ?? type, number(values), kinds];
    return make('tr', {}, make('th', { scope: 'row' }, stored(source)), ...cells.map((cell) => make('td', {}, cell)));
  }));
  $('import-report-rejects').replaceChildren(...rejects.slice(0, shownRejects).map(({ reason, count: rows, examples }) => make('li', {},
    make('strong', {}, count(rows, 'row')), make('span', {}, stored(sentence(reason))),
    ...examples.slice(0, shownExamples).map(({ line, text }) => make('code', {}, `${rowName(line, description.format)}: `, stored(text.slice(0, 200)))))));
  if (rejects.length > shownRejects) $('import-report-rejects').append(make('li', {}, `and ${count(rejects.length - shownRejects, 'other reason')}`));
}
