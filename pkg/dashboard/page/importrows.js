// Reads the rows of an imported file, which is CSV or NDJSON. Papa Parse parses CSV. The file is
// read in slices, so that the page stays responsive. Each slice is decoded before it is parsed.

const sliceBytes = 256 << 10;
const mostRowText = 1 << 20; // maximum number of characters in a row

/** An error that ends the reading of a file. Its message is for the user. */
class FileError extends Error {}

/** Loads the libraries, which most visits do not need. */
async function loadLibraries() {
  const { papa, sha } = $('import-card').dataset;
  try {
    const [parser, hash] = await Promise.all([import(new URL(papa, document.baseURI)), import(new URL(sha, document.baseURI))]);
    return { Papa: parser.default, sha256: hash.sha256 };
  } catch {
    throw new FileError('The part of the page that reads files could not be loaded. Choose the file again.');
  }
}

const occurrences = (text, character) => text.split(character).length - 1;

/** Decodes whole lines. If a line is not UTF-8, U+FFFD replaces its invalid bytes, and the number of the line is added to broken. */
function decodeLines(bytes, line, broken) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch { /* find the lines that are not UTF-8 */ }
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  for (let start = 0, number = line; start < bytes.length; number++) {
    const end = bytes.indexOf(10, start) + 1 || bytes.length;
    try {
      strict.decode(bytes.subarray(start, end));
    } catch {
      broken.add(number);
    }
    start = end;
  }
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

/**
 * Yields the text of a file in pieces of whole lines, as { text, broken, last, read }.
 * broken has the numbers of the lines that are not UTF-8, and read is how many bytes
 * have been read. If there is a hash, it is updated with all bytes.
 */
async function* readText(file, hash) {
  let rest = new Uint8Array();
  let line = 1;
  for (let read = 0; ;) {
    const slice = new Uint8Array(await file.slice(read, read + sliceBytes).arrayBuffer());
    const first = read === 0;
    hash?.update(slice);
    read += slice.length;
    const last = read >= file.size;
    let bytes = new Uint8Array(rest.length + slice.length);
    bytes.set(rest);
    bytes.set(slice, rest.length);
    if (first && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) bytes = bytes.subarray(3); // skip the byte order mark
    const end = last ? bytes.length : bytes.lastIndexOf(10) + 1;
    rest = bytes.slice(end);
    const broken = new Set();
    const text = decodeLines(bytes.subarray(0, end), line, broken);
    line += occurrences(text, '\n');
    yield { text, broken, last, read };
    if (last) return;
  }
}

const faults = {
  utf8: 'the row is not text in UTF-8; U+FFFD stands where bytes could not be read',
  stray: 'a cell without quotes contains a "; put the cell in quotes and double each " in it',
  after: 'text follows the closing " of a cell; double each " in a cell with quotes',
  open: 'the closing " of a cell is missing',
};

/**
 * Yields the rows of a file as { rows, read } for each slice. A row has line,
 * lastLine, text, and either cells (CSV), value (NDJSON) or fault.
 */
async function* readRows(file, format, { Papa, delimiter, hash }) {
  let rest = '', line = 1;
  const broken = new Set();
  for await (const piece of readText(file, hash)) {
    for (const number of piece.broken) broken.add(number);
    const split = format === 'csv' ? splitCSV(Papa, delimiter, rest + piece.text, piece.last) : splitLines(rest + piece.text, piece.last);
    const rows = [];
    for (const { raw, cells, fault } of split.rows) {
      const lines = Math.max(1, occurrences(raw, '\n'));
      const text = raw.replace(/\r?\n?$/, '');
      const row = { line, lastLine: line + lines - 1, text, cells, fault };
      line += lines;
      if (text.trim() === '' && (format !== 'csv' || text === '')) continue;
      for (let n = row.line; n <= row.lastLine; n++) if (broken.delete(n)) row.fault = faults.utf8;
      if (!row.fault && format !== 'csv') Object.assign(row, parseObject(text));
      if (row.lastLine > row.line && row.fault) row.fault += `; the row goes from line ${row.line} to line ${row.lastLine}, so a quote may be missing or left open`;
      rows.push(row);
    }
    rest = split.rest;
    if (rest.length > mostRowText && format === 'csv') throw new FileError(`The row that begins in line ${number(line)} is larger than 1 MB. Is a quote left open?`);
    yield { rows, read: piece.read };
  }
}

function splitLines(text, last) {
  const lines = text.split('\n');
  const rest = last ? '' : lines.pop();
  return { rows: lines.map((raw, i) => ({ raw: i < lines.length - 1 || !last ? `${raw}\n` : raw })), rest };
}

function parseObject(text) {
  try {
    const value = JSON.parse(text, keepDigits);
    if (value && typeof value === 'object' && !Array.isArray(value) && !JSON.isRawJSON(value)) return { value };
    return { fault: 'the line must be a JSON object' };
  } catch (error) {
    return { fault: `the line is not well-formed JSON: ${error.message}` };
  }
}

/** Splits a text into rows: { rows: [{ raw, cells, fault }], rest }. rest is the incomplete row at the end. */
function splitCSV(Papa, delimiter, text, last) {
  const rows = [];
  let at = 0;
  while (at < text.length) {
    const start = at;
    let again = false;
    Papa.parse(start === 0 ? text : text.slice(start), {
      delimiter, newline: '\n',
      step: ({ data, errors, meta }, parser) => {
        if (again || start + meta.cursor === at) return;
        const codes = new Set(errors.map((e) => e.code));
        if (codes.has('InvalidQuotes')) { // Papa Parse may have read later rows as part of this one, so end it at the first line break
          const end = text.indexOf('\n', at) + 1 || text.length;
          rows.push({ raw: text.slice(at, end), fault: faults.after });
          at = end;
          again = true;
        } else if (codes.has('MissingQuotes') && !last) again = true;
        else {
          const raw = text.slice(at, start + meta.cursor);
          rows.push(codes.has('MissingQuotes') ? { raw, fault: faults.open } : { raw, ...quotedCells(raw, data, delimiter) });
          at = start + meta.cursor;
        }
        if (again) parser.abort();
      },
    });
    if (!again || at === start) break; // at the end, or in a row that continues in the next slice
  }
  return { rows, rest: text.slice(at) };
}

/**
 * Returns which cells of a row are quoted, as { cells }, because Papa Parse does not say.
 * Returns { fault } if a quote is misplaced.
 */
function quotedCells(raw, values, delimiter) {
  const text = raw.replace(/\r?\n?$/, '');
  const cells = [];
  let at = 0;
  for (const [i, value] of values.entries()) {
    const quoted = text[at] === '"';
    const cell = quoted ? value : i < values.length - 1 ? value : value.replace(/\r$/, '');
    if (!quoted && cell.includes('"')) return { fault: faults.stray };
    at += cell.length + (quoted ? 2 + occurrences(cell, '"') : 0);
    if (at !== text.length && text[at] !== delimiter) return { fault: faults.after };
    at++;
    cells.push({ text: cell, quoted });
  }
  return { cells };
}

/** Returns the character that separates the cells of a CSV file. */
async function guessDelimiter(Papa, file) {
  const text = new TextDecoder().decode(await file.slice(0, sliceBytes).arrayBuffer());
  return Papa.parse(text, { preview: 20, delimitersToGuess: [',', ';', '\t', '|'] }).meta.delimiter;
}
