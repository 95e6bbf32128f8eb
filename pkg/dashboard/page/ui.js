// Small components that all views share.

const Icon = ({ name }) => html`<svg class="icon" aria-hidden="true"><use href=${`#i-${name}`} /></svg>`;

const Button = ({ icon, style = 'quiet', busy, children, ...others }) => html`
  <button type="button" class=${style} aria-disabled=${busy ? 'true' : undefined} ...${others}>${icon && html`<${Icon} name=${icon} />`}${children}</button>`;

// Invisible characters that change how text is displayed, such as U+202E, which reverses
// the text that follows.
const invisible = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\u200b\ufeff]/gu;

const escapeOf = (character) => `\\u${character.codePointAt(0).toString(16).padStart(4, '0')}`;

/**
 * Text that a client stored. It cannot affect the text around it, because <bdi> isolates its
 * direction and invisible characters are shown as escapes.
 */
function Stored({ text }) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(invisible)) {
    parts.push(text.slice(end, match.index), html`<span class="escape">${escapeOf(match[0])}</span>`);
    end = match.index + match[0].length;
  }
  return html`<bdi>${parts}${text.slice(end)}</bdi>`;
}

/** Returns the JSON of a value, with escapes for invisible characters. */
function visibleJSON(value, indent) {
  return JSON.stringify(value, null, indent).replace(invisible, (c) => (c === '\n' ? c : escapeOf(c)));
}

/** An instant: how long ago if that was lately, with the exact time as a tooltip. */
const Time = ({ at, exact = false }) => html`<time datetime=${at} title=${`${instant(at)} (${zoneName()})`}>${exact ? instant(at) : ago(at)}</time>`;

const Zone = () => html`<p class="hint zone">Times are in ${zoneName()}.</p>`;

/** Copies text to the clipboard. Rejects if the browser does not allow it. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Browsers offer the Clipboard API only over HTTPS and on localhost. Elsewhere, copy
  // from an invisible text field.
  const field = Object.assign(document.createElement('textarea'), { className: 'unseen', readOnly: true, value: text });
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  if (!done) throw new Error('copying is not allowed');
}

/** A button that copies text. Users of screen readers also hear what it is, such as "the command". */
function Copy({ text, what, label = 'Copy' }) {
  const [state, setState] = useState('');
  const act = async () => {
    try {
      await copy(text);
      setState('Copied');
      announce(`Copied ${what}`);
    } catch {
      setState('Not allowed');
    }
    setTimeout(() => setState(''), 2000);
  };
  return html`<button type="button" class="copy" onClick=${act}><${Icon} name=${state === 'Copied' ? 'check' : 'copy'} /><span>${state || label}</span><span class="unseen"> ${what}</span></button>`;
}

/** A command and a button that copies it. */
const Command = ({ text }) => html`<div class="command"><pre><code>${text}</code></pre><${Copy} text=${text} what="the command" /></div>`;

/** A command for a request by the caller. */
const ApiCommand = ({ path, body }) => html`<${Command} text=${commandOf(path, body)} />`;

/** What a view shows if it has nothing to show: what is missing, and the next step. */
const Empty = ({ icon = 'inbox', title, children, ...others }) => html`
  <div class="empty" ...${others}><${Icon} name=${icon} />${title && html`<p><strong>${title}</strong></p>`}${children}</div>`;

/** Radio buttons side by side. */
const Segments = ({ name, legend, value, options, onChange, unseen = false, form }) => html`
  <fieldset class="segments">
    <legend class=${unseen ? 'unseen' : ''}>${legend}</legend>
    ${Object.entries(options).map(([key, text]) => html`<label><input type="radio" name=${name} form=${form} value=${key} checked=${key === value} onChange=${() => onChange(key)} /><span>${text}</span></label>`)}
  </fieldset>`;

const plain = { autocomplete: 'off', spellcheck: false, autocapitalize: 'none' };

/** A labelled input and what is wrong with its value. */
const Field = ({ id, label, optional, fault, hint, inputRef, children, ...others }) => html`
  <div class="field">
    <label for=${id}>${label}${optional && html` <span class="optional">optional</span>`}</label>
    ${children ?? html`<input id=${id} ref=${inputRef} aria-invalid=${fault ? 'true' : undefined} aria-describedby=${fault ? `${id}-error` : undefined} ...${plain} ...${others} />`}
    <p class="field-error" id=${`${id}-error`}>${fault}</p>
    ${hint && html`<p class="hint">${hint}</p>`}
  </div>`;

/** The buttons that choose a range of times. */
const Presets = ({ names, chosen, onChoose }) => html`
  <div class="presets" role="group" aria-label="Presets for the dates">
    ${names.map((name) => html`<button type="button" class="preset" data-preset=${name} aria-pressed=${String(name === chosen)} onClick=${() => onChoose(name)}>${presetNames[name]}</button>`)}
  </div>`;

/** Closes menus when the user presses Escape or clicks elsewhere. */
function closeMenus() {
  document.addEventListener('click', (event) => {
    for (const menu of document.querySelectorAll('details.menu[open]')) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener('keydown', (event) => {
    const menu = event.key === 'Escape' && event.target.closest?.('details.menu[open]');
    if (!menu) return;
    menu.open = false;
    menu.querySelector('summary').focus();
    event.stopPropagation();
  });
}
