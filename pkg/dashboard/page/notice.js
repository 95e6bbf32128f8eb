// Notices of failed requests. A panel shows failures that concern only that panel.
// Temporary failures, such as an unavailable service, are shown once for all panels.

/** The failures of the panels, by name of the panel: { error, stopped, retry }. */
const waiting = new Map();

/**
 * Shows that a request of a panel failed. If error is missing, report removes
 * the failure of the panel. If stopped is set, the page repeats the request
 * only if retry is called.
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

/** Retries the stopped requests that have a retry function. */
function retryStopped(chosen = () => true) {
  for (const [panel, trouble] of [...waiting]) {
    if (!trouble.stopped || !chosen(trouble)) continue;
    waiting.delete(panel);
    trouble.retry();
  }
  showWaiting();
}

/**
 * Shows one notice for all temporary failures. An unavailable service takes
 * precedence.
 */
function showWaiting() {
  const troubles = [...waiting.values()];
  const first = troubles.find((t) => t.error.away) ?? troubles[0];
  const stopped = troubles.every((t) => t.stopped); // if false, the page repeats at least one request by itself, so the notice needs no button
  notice($('waiting'), first ? waitText(first.error, stopped) : '', stopped ? () => retryStopped() : undefined);
}

/** Returns the text of a temporary failure. */
function waitText(error, stopped) {
  if (error.status === 429) {
    return stopped
      ? 'Your limit is still used up after several attempts, so the page stopped sending requests.'
      : 'Your limit is used up for the moment. The page will try again.';
  }
  return `${error.message} ${stopped ? 'The page stopped sending requests.' : 'The page will try again.'}`;
}

/** Returns the text of an error after the last retry. */
function finalText(error) {
  return error.passing ? waitText(error, true) : error.message;
}

/**
 * Shows a text in a notice, or hides the notice if the text is empty. retry, if
 * given, is offered as a button.
 */
function notice(element, text, retry) {
  element.hidden = !text;
  const key = text && `${text} ${Boolean(retry)}`;
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(make('bdi', {}, text));
  if (text && retry) element.append(makeButton('Try again', retry));
}
