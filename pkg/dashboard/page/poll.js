// Repeats requests without overloading the service.

const mostTries = 8; // tries of one request by the user; the pauses between them last at least 91 s in total
const mostFailures = 6; // maximum number of consecutive temporary failures; the pauses between them last at least 31 s in total
const longestWait = 30_000;
const scarce = 0.1; // share of a limit; if less than this share is left, the page pauses, so that other clients can use the rest

/**
 * Repeats a task. Runs never overlap. The poller does not run while the page is
 * hidden, respects the waits that the service requires, and increases its
 * pauses while the service refuses requests or is unavailable. It stops after
 * several consecutive failures, or after one failure that is not temporary, and
 * continues when start is called. It does not stop while the service cannot be
 * reached, because failed requests then cost the service nothing.
 */
class Poller {
  #task; #interval; #report; #timer; #run; #running = false; #failures = 0; #troubled = false;

  /**
   * task receives an AbortSignal and resolves to the result of call. interval
   * returns the milliseconds between two runs. After a failure, report receives
   * the error, whether the poller has stopped and, if not, how long it waits.
   * After the next success, report is called without arguments.
   */
  constructor(task, interval, report) {
    this.#task = task;
    this.#interval = interval;
    this.#report = report;
    document.addEventListener('visibilitychange', () => {
      if (!this.#running) return;
      if (document.hidden) this.#cancel();
      else this.#now();
    });
    window.addEventListener('online', () => this.#running && this.#now());
  }

  /** Runs the task immediately, and again after each interval. */
  start() {
    this.#running = true;
    this.#failures = 0;
    this.#now();
  }

  stop() {
    this.#running = false;
    this.#cancel();
  }

  #cancel() {
    clearTimeout(this.#timer);
    this.#run?.abort();
    this.#run = undefined;
  }

  async #now() {
    this.#cancel();
    if (document.hidden) return;
    const run = this.#run = new AbortController();
    let wait;
    try {
      const { remaining = 1, reset = 0 } = (await this.#task(run.signal)) ?? {};
      if (run.signal.aborted) return;
      if (this.#troubled) this.#report();
      this.#failures = 0;
      this.#troubled = false;
      wait = this.#interval();
      if (remaining < scarce) wait = Math.max(wait, reset - (Date.now() + clockOffset) + 1000 * Math.random());
    } catch (error) {
      if (run.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#failures++;
      this.#troubled = true;
      const stopped = !error.passing || (error.status !== 0 && this.#failures >= mostFailures);
      if (stopped) this.stop();
      else wait = pause(error, this.#failures);
      this.#report(error, stopped, wait);
      if (stopped) return;
    }
    this.#timer = setTimeout(() => this.#now(), wait);
  }
}

/** Returns the milliseconds to wait after consecutive failures, with jitter. */
function pause(error, failures) {
  const grown = Math.min(1000 * 2 ** (failures - 1), longestWait);
  return Math.max(1000 * error.retryAfter, grown) + 500 * Math.random();
}

/**
 * Runs an action and retries it after temporary failures. onFailure receives the
 * error and the milliseconds until the next try. Rejects with the abort reason of
 * the signal.
 */
async function insist(action, onFailure = () => {}, signal, tries = mostTries) {
  for (let failures = 1; ; failures++) {
    try {
      return await action();
    } catch (error) {
      if (!error.passing || failures >= tries) throw error;
      const wait = pause(error, failures);
      signal?.throwIfAborted();
      onFailure(error, wait);
      await sleep(wait, signal);
      signal?.throwIfAborted();
    }
  }
}

/** Waits for some milliseconds, or until the signal is aborted. */
const sleep = (milliseconds, signal) => new Promise((resolve) => {
  const end = () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', end); // a long import sleeps many times with one signal
    resolve();
  };
  const timer = setTimeout(end, milliseconds);
  signal?.addEventListener('abort', end);
  if (signal?.aborted) end();
});
