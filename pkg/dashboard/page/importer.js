// The card that imports a file: choose it, say what its columns become, check it, send it.

const shownRejects = 20; // the download contains all rejected rows
const previewRows = 3;
const sampledRows = 100; // how many rows of an NDJSON file are read to find its columns

class Importer {
  #onSignedOut; #onImported; #file; #format; #columns = []; #libraries; #seed = ''; #run; #rejects = []; #paused; #cancelled; #resume = () => {};

  /** onImported is called after an import that may have stored records, unless the user signs out. */
  constructor(onSignedOut, onImported) {
    this.#onSignedOut = onSignedOut;
    this.#onImported = onImported;
    const input = $('import-file'), area = $('import-choose');
    input.addEventListener('change', () => input.files[0] && this.#choose(input.files[0]));
    for (const type of ['dragover', 'dragleave', 'drop']) {
      area.addEventListener(type, (event) => {
        event.preventDefault();
        area.classList.toggle('over', type === 'dragover');
        if (type === 'drop' && event.dataTransfer.files[0]) this.#choose(event.dataTransfer.files[0]);
      });
    }
    for (const radio of document.querySelectorAll('[name=import-resource]')) radio.addEventListener('change', () => this.#assignRoles());
    $('import-columns').addEventListener('change', (event) => this.#setRole(event.target));
    $('import-setup').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#task(() => this.#check());
    });
    $('import-start').addEventListener('click', () => this.#task(() => this.#send()));
    $('import-change').addEventListener('click', () => this.#step('setup'));
    $('import-pause').addEventListener('click', () => this.#pause());
    $('import-cancel').addEventListener('click', () => this.#cancel());
    for (const button of document.querySelectorAll('.import-rejects')) button.addEventListener('click', () => this.#download());
    for (const button of document.querySelectorAll('.import-other')) button.addEventListener('click', () => this.#restart());
  }

  /** Ends the task in progress. */
  stop() {
    this.#resume();
    this.#run?.abort();
  }

  #restart() {
    this.stop();
    $('import-file').value = '';
    this.#step('choose');
    $('import-file').focus();
  }

  /** Shows one step and hides the others. */
  #step(name) {
    for (const step of ['choose', 'setup', 'report', 'progress']) $(`import-${step}`).hidden = step !== name;
    $(`import-${name}`).querySelector('h3')?.focus();
  }

  get #resource() { return document.querySelector('[name=import-resource]:checked').value; }

  /** Runs a step and, if it fails, shows why. */
  async #task(step) {
    this.stop();
    const { signal } = this.#run = new AbortController();
    report('import');
    try {
      await step(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) this.#onSignedOut(error);
      else if (error instanceof ApiError) report('import', error, { stopped: true });
      else if (error instanceof FileError || error instanceof DOMException) notice($('import-notice'), error instanceof FileError ? error.message : `The file cannot be read: ${error.message} Choose it again.`);
      else throw error;
    }
  }

  // Choose

  #choose(file) {
    return this.#task(async () => {
      this.#file = file;
      if (!JSON.rawJSON) throw new FileError('This browser is too old to keep the digits of numbers. Use Chrome 114, Firefox 135, Safari 18.4 or later, or the command sluice import.');
      if (file.size === 0) throw new FileError(`${file.name} is empty.`);
      const start = new Uint8Array(await file.slice(0, 2).arrayBuffer());
      if (start[0] === 0x1f && start[1] === 0x8b) throw new FileError(`${file.name} is compressed. Unpack it first, or use the command sluice import.`);
      this.#libraries = await loadLibraries();
      this.#format = /\.(ndjson|jsonl|json)$/i.test(file.name) ? 'ndjson' : 'csv';
      this.#libraries.delimiter = this.#format === 'csv' ? await guessDelimiter(this.#libraries.Papa, file) : '';
      await this.#readColumns();
      const names = this.#columns.map((c) => c.name);
      const resource = ['name', 'occurred_at', 'entity_id'].some((name) => names.includes(name)) ? 'event' : 'entity';
      document.querySelector(`[name=import-resource][value=${resource}]`).checked = true;
      this.#assignRoles();
      const separators = { ',': 'commas', ';': 'semicolons', '\t': 'tabs', '|': 'pipes' };
      $('import-title').replaceChildren(stored(file.name), `: ${bytes(file.size)}${this.#format === 'csv' ? `, separated by ${separators[this.#libraries.delimiter]}` : ''}`);
      this.#step('setup');
    });
  }

  /** Reads the columns, and the first values of each. */
  async #readColumns() {
    let header;
    const rows = [];
    read: for await (const { rows: some } of readRows(this.#file, this.#format, this.#libraries)) {
      for (const row of some) {
        if (this.#format === 'csv' && !header) {
          if (row.fault) throw new FileError(`The header, line ${row.line}: ${row.fault}.`);
          header = row.cells.map((cell) => restoreFormulas(cell.text));
        } else if (!row.fault) rows.push(row);
        if (rows.length === sampledRows) break read;
      }
    }
    if (this.#format !== 'csv') header = [...new Set(rows.flatMap((row) => Object.keys(row.value)))];
    if (!header?.length) throw new FileError('The file has no columns.');
    const twice = header.find((name, i) => header.indexOf(name) !== i);
    if (twice !== undefined) throw new FileError(`The column ${twice} occurs twice. Rename one.`);
    this.#columns = header.map((name, i) => ({ name, values: rows.slice(0, previewRows).map((row) => (row.cells ? row.cells[i]?.text : row.value[name] === undefined ? '' : visibleJSON(row.value[name])) ?? '') }));
  }

  // What the columns become

  #assignRoles() {
    for (const column of this.#columns) column.role = roleOf(this.#resource, column.name);
    const roles = Object.entries(columnRoles[this.#resource]);
    $('import-columns').tBodies[0].replaceChildren(...this.#columns.map((column, i) => {
      const select = make('select', { 'data-column': i, 'aria-label': `What the column ${column.name} becomes` }, ...roles.map(([value, text]) => make('option', { value }, text)));
      select.value = column.role;
      return make('tr', {}, make('th', { scope: 'row' }, stored(column.name)), make('td', {}, select), ...column.values.map((value) => make('td', {}, stored(value.slice(0, 60)))));
    }));
    this.#arrange();
  }

  #setRole(select) {
    if (!select.dataset.column) return;
    this.#columns[select.dataset.column].role = select.value;
    this.#arrange();
  }

  /** Asks for the name or type of all records if no column has it, and says which columns conflict. */
  #arrange() {
    const field = this.#resource === 'event' ? 'name' : 'type';
    $('import-common-field').hidden = this.#columns.some((c) => c.role === field);
    say($('import-common-label'), this.#resource === 'event' ? 'Name of all events' : 'Type of all entities, if not “entity”');
    const roles = this.#columns.map((c) => c.role).filter((role) => role !== 'attribute' && role !== 'out');
    const twice = roles.find((role, i) => roles.indexOf(role) !== i);
    const both = roles.includes('attributes') && this.#columns.some((c) => c.role === 'attribute');
    const names = this.#columns.filter((c) => c.role === 'attribute').map((c) => attributeName(c.name));
    const clash = names.find((name, i) => names.indexOf(name) !== i);
    let wrong = '';
    if (twice) wrong = `Two columns become ${columnRoles[this.#resource][twice]}. Leave one out.`;
    else if (both) wrong = 'One column becomes all attributes, so no other can become an attribute.';
    else if (clash !== undefined) wrong = `Two columns become the attribute ${clash}. Leave one out.`;
    say($('import-columns-error'), wrong);
    say($('import-ids'), roles.includes('id') ? '' : 'Rows get an id from the content of the file and their line, so importing the file again stores nothing twice.');
  }

  #maker() {
    const common = $('import-common-field').hidden ? '' : $('import-common').value.trim();
    return new RecordMaker({ resource: this.#resource, columns: this.#columns, common, format: this.#format, seed: this.#seed, sha256: this.#libraries.sha256 });
  }

  // Check and send

  /** Calls onSlice for every slice of the file, with a list of { row, json } or { row, fault }, and the number of bytes read so far. */
  async #eachSlice(signal, hash, onSlice) {
    const maker = this.#maker();
    let header = this.#format === 'csv';
    for await (const { rows, read } of readRows(this.#file, this.#format, { ...this.#libraries, hash })) {
      signal.throwIfAborted();
      if (header) rows.shift();
      header = false;
      await onSlice(rows.map((row) => ({ row, ...maker.make(row) })), read);
    }
  }

  #begin(title) {
    say($('import-progress-title'), title);
    $('import-bar').setAttribute('aria-label', title);
    this.#showBar(0);
  }

  #showBar(read) { $('import-bar').value = (100 * read) / this.#file.size; }

  async #check() {
    if ($('import-columns-error').textContent) return;
    const { signal } = this.#run;
    const hash = this.#libraries.sha256.create();
    this.#rejects = [];
    this.#seed = '';
    let good = 0;
    this.#begin('Checking');
    this.#showButtons(false);
    say($('import-counts'), '');
    this.#step('progress');
    await this.#eachSlice(signal, hash, (records, read) => {
      for (const { row, fault } of records) {
        if (fault) this.#reject(row, fault);
        else good++;
      }
      this.#showBar(read);
    });
    this.#seed = hash.hex();
    say($('import-report-text'), `${count(good, 'row')} can be imported, and ${this.#rejects.length === 0 ? 'none' : number(this.#rejects.length)} would be rejected. Nothing has been sent yet.`);
    this.#drawRejects($('import-report-rejects'), 'report');
    say($('import-start'), `Import ${count(good, 'row')}`);
    $('import-start').hidden = good === 0;
    this.#step('report');
  }

  async #send() {
    const { signal } = this.#run;
    const counts = { created: 0, existing: 0 };
    this.#rejects = [];
    this.#paused = undefined;
    this.#cancelled = false;
    const tell = () => say($('import-counts'), `${number(counts.created)} new · ${number(counts.existing)} ${this.#resource === 'event' ? 'there already' : 'updated or there already'} · ${number(this.#rejects.length)} rejected`);
    this.#begin('Importing');
    this.#showButtons(true);
    this.#drawRejects($('import-progress-rejects'), 'progress');
    tell();
    this.#step('progress');
    const sender = {
      signal,
      ready: async () => {
        await this.#paused;
        signal.throwIfAborted();
      },
      onResult: ({ row }, { status, problem }) => {
        if (status === 201) counts.created++;
        else if (status === 200) counts.existing++;
        else this.#reject(row, problem?.detail ?? `status ${status}`);
        tell();
      },
      onFailure: (error, wait) => report('import', error, { wait }),
    };
    try {
      await this.#eachSlice(signal, undefined, async (records, read) => {
        for (const { row, fault } of records) if (fault) this.#reject(row, fault);
        for (const batch of batches(records.filter((record) => record.json))) {
          await sendBatch(this.#resource, batch, sender);
          report('import');
        }
        tell();
        this.#showBar(read);
      });
      this.#end('Imported');
      this.#onImported();
    } catch (error) {
      if (signal.aborted) report('import');
      this.#end(signal.aborted ? 'Cancelled. Choose the file again to import the rest; nothing is stored twice' : 'Stopped');
      if (signal.aborted ? this.#cancelled : error.status !== 401) this.#onImported();
      throw error;
    }
  }

  #end(title) {
    say($('import-progress-title'), title);
    this.#showButtons(false);
    this.#drawRejects($('import-progress-rejects'), 'progress');
    $('import-again').hidden = false;
    $('import-progress-title').focus();
    announce(`${title}: ${$('import-counts').textContent}`);
  }

  #showButtons(sending) {
    for (const id of ['import-pause', 'import-cancel']) $(id).hidden = !sending;
    say($('import-pause'), 'Pause');
    $('import-again').hidden = true;
    $('import-progress-download').hidden = true;
    $('import-progress-rejects').replaceChildren();
  }

  /** Ends the import after the service has responded to the batch in progress, so that the counts are right. */
  #cancel() {
    this.#cancelled = true;
    this.stop();
    say($('import-progress-title'), 'Cancelling');
    this.#showButtons(false);
    $('import-progress-title').focus();
  }

  #pause() {
    if (this.#paused) return this.#continue();
    this.#paused = new Promise((resolve) => { this.#resume = resolve; });
    say($('import-pause'), 'Continue');
    say($('import-progress-title'), 'Paused');
  }

  #continue() {
    this.#resume();
    this.#paused = undefined;
    say($('import-pause'), 'Pause');
    say($('import-progress-title'), 'Importing');
  }

  // Rejected rows

  #reject(row, reason) { this.#rejects.push({ line: row.line, reason, row: row.text }); }

  #drawRejects(list, step) {
    $(`import-${step}-download`).hidden = this.#rejects.length === 0;
    this.#rejects.sort((a, b) => a.line - b.line);
    list.replaceChildren(...this.#rejects.slice(0, shownRejects).map(({ line, reason, row }) => make('li', {},
      make('strong', {}, `Line ${number(line)}`), make('span', {}, stored(sentence(reason))), make('code', {}, stored(row.slice(0, 200))))));
    if (this.#rejects.length > shownRejects) list.append(make('li', {}, `and ${number(this.#rejects.length - shownRejects)} more`));
  }

  /** Saves the rejected rows as CSV. */
  #download() {
    const text = this.#libraries.Papa.unparse(this.#rejects, { columns: ['line', 'reason', 'row'], escapeFormulae: true, newline: '\r\n' });
    const url = URL.createObjectURL(new Blob(['\ufeff', text], { type: 'text/csv' }));
    make('a', { href: url, download: `${this.#file.name}.rejects.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }
}
