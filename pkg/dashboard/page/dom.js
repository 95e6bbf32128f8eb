// Small helpers to build and change the page. Text is always text: the page's
// policy forbids turning any into markup.

export const $ = (id) => document.getElementById(id);

/** Makes an element with attributes and children. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Sets the text of an element unless it is that already. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Tells users of screen readers what others can see. */
export function announce(text) {
  say($('announcer'), '');
  setTimeout(() => say($('announcer'), text), 100);
}

/**
 * Shows what keeps a panel from being up to date, or hides it again. retry, if
 * given, is offered as a button.
 */
export function notice(element, problem, retry) {
  const key = problem ? `${problem.kind} ${problem.text} ${Boolean(retry)}` : '';
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.hidden = !problem;
  if (!problem) {
    element.replaceChildren();
    return;
  }
  element.dataset.kind = problem.kind;
  element.replaceChildren(make('span', {}, problem.text));
  if (retry) {
    const button = make('button', { type: 'button', class: 'quiet' }, 'Try again');
    button.addEventListener('click', retry);
    element.append(button);
  }
}

/** What a notice says of a failure. */
export function describe(error, stopped = false) {
  if (error.status === 429) {
    return {
      kind: 'wait',
      text: stopped
        ? 'This address’s limit stayed used up, so the page stopped asking.'
        : 'This address’s limit is used up for the moment. The page waits, then goes on.',
    };
  }
  if (error.passing && !stopped) return { kind: 'wait', text: `${error.message} Trying again.` };
  return { kind: 'error', text: error.message };
}
