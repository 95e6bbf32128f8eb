// Repeating requests politely.

const mostFailures = 6; // in a row, of those that pass: about a minute
const longestWait = 30_000;
const scarce = 0.1; // of a limit: below it the page leaves the rest to others

/**
 * Repeats a task politely: one run at a time, none while the page is hidden, no
 * sooner than the service says, and with growing pauses while it refuses or is
 * away. After some refusals in a row it stops until start is called. While nothing
 * can be reached it goes on, since that costs nobody anything.
 */
class Poller {
  #task; #interval; #report; #timer; #run; #running = false; #failures = 0; #troubled = false;

  /**
   * task gets an AbortSignal and resolves to what call resolves to. interval
   * returns the milliseconds between two runs. report gets the error and whether
   * the poller has stopped after a failure, and nothing after a success that
   * follows one.
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

  /** Runs the task at once, and again after each interval. */
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
      if (remaining < scarce) wait = Math.max(wait, reset - Date.now() + 1000 * Math.random());
    } catch (error) {
      if (run.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#failures++;
      this.#troubled = true;
      const stopped = !error.passing || (error.status !== 0 && this.#failures >= mostFailures);
      if (stopped) this.stop();
      this.#report(error, stopped);
      if (stopped) return;
      wait = pause(error, this.#failures);
    }
    this.#timer = setTimeout(() => this.#now(), wait);
  }
}

/** Milliseconds to wait after a number of failures in a row, with jitter. */
function pause(error, failures) {
  const grown = Math.min(1000 * 2 ** (failures - 1), longestWait);
  return Math.max(1000 * error.retryAfter, grown) + 500 * Math.random();
}

/** Runs an action again, a few times, if it failed in a way that passes. */
async function insist(action, onFailure = () => {}) {
  for (let failures = 1; ; failures++) {
    try {
      return await action();
    } catch (error) {
      if (!error.passing || failures >= 4) throw error;
      onFailure(error);
      await new Promise((resolve) => setTimeout(resolve, pause(error, failures)));
    }
  }
}
