// Notices of failed requests. A panel shows its own failures and keeps its content. If the
// service is unavailable, one notice says so for all panels.

/** The failures, by the name of the panel that had them: { error, shared, stopped, retry, wait }. */
const troubles = new Map();

/**
 * Shows that a request of a panel failed. If error is missing, report removes
 * the failure of the panel. If stopped is set, the page repeats the request
 * only if retry is called. Otherwise, it does so after wait milliseconds.
 */
function report(panel, error, { stopped = false, retry, wait } = {}) {
  const recovers = !error && troubles.get(panel)?.shared;
  if (error) troubles.set(panel, { error, shared: Boolean(error.away) && (!stopped || Boolean(retry)), stopped, retry, wait });
  else troubles.delete(panel);
  draw();
  if (recovers) retryStopped();
}

/** Retries the stopped requests that have a retry function. */
function retryStopped() {
  for (const [panel, { shared, stopped, retry }] of [...troubles]) {
    if (!shared || !stopped) continue;
    troubles.delete(panel);
    retry();
  }
  draw();
}

/** The failure of a panel's request. */
function Notice({ of, role }) {
  const trouble = troubles.get(of);
  if (!trouble || trouble.shared) return null;
  const { error, stopped, retry, wait } = trouble;
  return html`<div class="notice" id=${`${of}-notice`} data-tone=${error.passing ? 'wait' : 'error'} role=${role}>
    <bdi>${failureText(error, stopped, wait)}</bdi>${retry && html`<${Button} onClick=${retry}>Try again<//>`}
  </div>`;
}

/** One notice for all panels whose requests fail because the service is unavailable. */
function Waiting() {
  const shared = [...troubles.values()].filter((trouble) => trouble.shared);
  const trouble = shared.find((t) => !t.stopped) ?? shared[0]; // if the page repeats one request automatically, the notice needs no button
  if (!trouble) return null;
  return html`<div id="waiting" class="notice" data-tone="wait" role="status">
    <bdi>${failureText(trouble.error, trouble.stopped, trouble.wait)}</bdi>${trouble.stopped && html`<${Button} onClick=${retryStopped}>Try again<//>`}
  </div>`;
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
