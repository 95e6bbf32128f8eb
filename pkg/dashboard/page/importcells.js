// The values in the cells of a CSV file, by the rules of package recordfile, so that a file of
// an export comes back as it was.

/** Returns the JSON of an attribute that is in a cell. */
function attributeJSON({ text, quoted }) {
  const bare = text.replace(/^'+/, '');
  const value = jsonOf(bare);
  if (value !== undefined && /^[{[]/.test(bare)) return bare === text ? text : JSON.stringify(text.slice(1));
  if (value !== undefined && bare === text && !quoted) return text;
  return JSON.stringify(text);
}

/** Returns the value of a JSON text that is not a string, or undefined. */
function jsonOf(text) {
  if (!/^[{[\-0-9tfn]/.test(text) || text.trim() !== text) return undefined;
  return parseJSON(text) ?? (text === 'null' ? null : undefined);
}

/** Removes the apostrophes that an export puts before what a spreadsheet would run as a formula. */
function restoreFormulas(text) {
  if (/^'*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/.test(text)) return text;
  const control = /^'*[\t\r\n\0]/.test(text);
  return text.split(/([;\t\r\n])/).map((part, i) => {
    const formula = i % 2 === 0 && (/^['"\0]*[=+\-@＝＋－＠]/.test(part) || (i === 0 && control));
    return formula ? part.replace(/^'/, '') : part;
  }).join('');
}
