// What keeps the page from being up to date. A panel shows what only it has; what
// passes by itself, such as a service that is away, is shown once for all panels.

/** What keeps each panel waiting, by its name: { error, stopped, retry }. */
const waiting = new Map();

/**
 * Shows that a panel's request failed or, without an error, that the panel works.
 * stopped means that it will not be repeated, unless retry is called.
 */
function report(panel, error, { stopped = false, retry } = {}) {
  const shared = Boolean(error?.passing) && (!stopped || Boolean(retry));
  const recovers = !error && waiting.get(panel)?.error.away;
  if (shared) waiting.set(panel, { error, stopped, retry });
  else waiting.delete(panel);
  notice($(`${panel}-notice`), error && !shared ? finalText(error) : '', retry);
  showWaiting();
  if (recovers) retryStopped(({ error: e }) => e.away);
}

/** Runs what has stopped and can be repeated. */
function retryStopped(chosen = () => true) {
  for (const [panel, trouble] of [...waiting]) {
    if (!trouble.stopped || !chosen(trouble)) continue;
    waiting.delete(panel);
    trouble.retry();
  }
  showWaiting();
}

/** Shows the one notice of what passes: that the service is away comes first. */
function showWaiting() {
  const troubles = [...waiting.values()];
  const first = troubles.find((t) => t.error.away) ?? troubles[0];
  const stopped = troubles.every((t) => t.stopped); // otherwise one will be repeated, and then the others
  notice($('waiting'), first ? waitText(first.error, stopped) : '', stopped ? () => retryStopped() : undefined);
}

/** What a notice says of an error that passes. */
function waitText(error, stopped) {
  if (error.status === 429) {
    return stopped
      ? 'This address’s limit stayed used up, so the page stopped asking.'
      : 'This address’s limit is used up for the moment. The page waits, then goes on.';
  }
  return `${error.message} ${stopped ? 'The page stopped asking.' : 'Trying again.'}`;
}

/** The text about an error after the last retry. */
function finalText(error) {
  return error.passing ? waitText(error, true) : error.message;
}

/**
 * Shows a text in a notice, or hides the notice if it is empty. retry, if given,
 * is offered as a button.
 */
function notice(element, text, retry) {
  element.hidden = !text;
  const key = text && `${text} ${Boolean(retry)}`;
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(make('bdi', {}, text));
  if (text && retry) element.append(makeButton('Try again', retry));
}
