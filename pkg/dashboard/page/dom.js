// Helpers that build and change the page. They never parse text as markup, because the
// Content-Security-Policy forbids it.

const $ = (id) => document.getElementById(id);

/** Creates an element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Sets the text of an element if it differs. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Announces a visible change to users of screen readers. */
function announce(text) {
  say($('announcer'), '');
  setTimeout(() => say($('announcer'), text), 100);
}

function makeButton(text, action, style = 'quiet') {
  const button = make('button', { type: 'button', class: style }, text);
  button.addEventListener('click', action);
  return button;
}

// Invisible characters that change how text is displayed, such as U+202E, which reverses
// the text that follows.
const invisible = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\u200b\ufeff]/gu;

const escapeOf = (character) => `\\u${character.codePointAt(0).toString(16).padStart(4, '0')}`;

/**
 * Creates an element with text that a client stored. The text cannot affect the
 * text around it, because <bdi> isolates its direction and invisible characters
 * are shown as escapes.
 */
function stored(text) {
  const element = make('bdi');
  let end = 0;
  for (const match of text.matchAll(invisible)) {
    element.append(text.slice(end, match.index), make('span', { class: 'escape' }, escapeOf(match[0])));
    end = match.index + match[0].length;
  }
  element.append(text.slice(end));
  return element;
}

/** Returns the JSON of a value, with escapes for invisible characters. */
function visibleJSON(value, indent) {
  return JSON.stringify(value, null, indent).replace(invisible, (c) => (c === '\n' ? c : escapeOf(c)));
}

/** Copies text to the clipboard. Rejects if the browser does not allow it. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Browsers offer the Clipboard API only over HTTPS and on localhost. Elsewhere, copy
  // from an invisible text field.
  const field = make('textarea', { class: 'unseen', readonly: '' });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  if (!done) throw new Error('copying is not allowed');
}

/**
 * Creates a button that copies text. Users of screen readers also hear textName,
 * such as "the command".
 */
function copyButton(text, textName, label = 'Copy') {
  const caption = make('span', {}, label);
  const button = makeButton(caption, async () => {
    try {
      await copy(text);
      say(caption, 'Copied');
      announce(`Copied ${textName}`);
    } catch {
      say(caption, 'Not allowed');
    }
    setTimeout(() => say(caption, label), 2000);
  }, 'copy');
  button.append(make('span', { class: 'unseen' }, ` ${textName}`));
  return button;
}

/** Creates an element with a command and a button that copies it. */
function commandLine(command) {
  return make('div', { class: 'command' },
    make('pre', {}, make('code', {}, command)),
    copyButton(command, 'the command'));
}
