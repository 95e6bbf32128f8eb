// Reads the values in the cells of a CSV file by the rules of package recordfile, so that
// importing an exported file restores the original values.

/** Returns the attribute value in a cell as JSON. */
function attributeJSON({ text, quoted }) {
  const bare = text.replace(/^'+/, '');
  const value = jsonOf(bare);
  if (value !== undefined && /^[{[]/.test(bare)) return bare === text ? text : JSON.stringify(text.slice(1));
  if (value !== undefined && bare === text && !quoted) return text;
  return JSON.stringify(text);
}

/** Returns the value of a JSON text, or undefined if the text is not JSON or its value is a string. */
function jsonOf(text) {
  if (!/^[{[\-0-9tfn]/.test(text) || text.trim() !== text) return undefined;
  return parseJSON(text) ?? (text === 'null' ? null : undefined);
}

/** Removes the apostrophes that an export puts before text that a spreadsheet would evaluate as a formula. */
function restoreFormulas(text) {
  if (/^'*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/.test(text)) return text;
  const control = /^'*[\t\r\n\0]/.test(text);
  return text.split(/([;\t\r\n])/).map((part, i) => {
    const formula = i % 2 === 0 && (/^['"\0]*[=+\-@＝＋－＠]/.test(part) || (i === 0 && control));
    return formula ? part.replace(/^'/, '') : part;
  }).join('');
}
