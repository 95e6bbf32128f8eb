// Notices of failed requests. A panel shows its own failures and keeps its content. If the
// service is unavailable, one notice says so for all panels.

/** The failures that concern all panels, by the name of the panel that had them: { error, stopped, retry, wait }. */
const waiting = new Map();

/**
 * Shows that a request of a panel failed. If error is missing, report removes
 * the failure of the panel. If stopped is set, the page repeats the request
 * only if retry is called. Otherwise, it does so after wait milliseconds.
 */
function report(panel, error, { stopped = false, retry, wait } = {}) {
  const shared = Boolean(error?.away) && (!stopped || Boolean(retry));
  const recovers = !error && waiting.has(panel);
  if (shared) waiting.set(panel, { error, stopped, retry, wait });
  else waiting.delete(panel);
  const element = $(`${panel}-notice`);
  element.dataset.tone = error?.passing ? 'wait' : 'error';
  notice(element, error && !shared ? failureText(error, stopped, wait) : '', retry);
  showWaiting();
  if (recovers) retryStopped();
}

/** Retries the stopped requests that have a retry function. */
function retryStopped() {
  for (const [panel, trouble] of [...waiting]) {
    if (!trouble.stopped) continue;
    waiting.delete(panel);
    trouble.retry();
  }
  showWaiting();
}

/** Shows one notice for all panels whose requests fail because the service is unavailable. */
function showWaiting() {
  const troubles = [...waiting.values()];
  const trouble = troubles.find((t) => !t.stopped) ?? troubles[0]; // if the page repeats one request automatically, the notice needs no button
  notice($('waiting'), trouble ? failureText(trouble.error, trouble.stopped, trouble.wait) : '', trouble?.stopped ? () => retryStopped() : undefined);
}

/** Returns the text of a failure: what is wrong, and what the page does next. */
function failureText(error, stopped, wait) {
  if (!error.passing) return error.message;
  const next = nextText(stopped, wait);
  if (error.status === 429) return stopped ? `Your limit is still used up after several attempts. ${next}` : `Your limit is used up for the moment. ${next}`;
  return `${error.message} ${next}`;
}

function nextText(stopped, wait) {
  if (stopped) return 'The page stopped sending requests.';
  return wait >= 2000 ? `Next try at ${clock((Date.now() + wait) / 1000)}.` : 'The page tries again in a moment.';
}

/** Returns the text of an error after the last retry. */
const finalText = (error) => failureText(error, true);

/**
 * Shows a text in a notice, or hides the notice if the text is empty. If retry is
 * set, the notice has a button that calls it.
 */
function notice(element, text, retry) {
  element.hidden = !text;
  const key = text && `${text} ${Boolean(retry)}`;
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(make('bdi', {}, text));
  if (text && retry) element.append(makeButton('Try again', retry));
}
