import { ApiError } from './api.js';

const mostFailures = 6; // in a row, of those that pass: about a minute
const longestWait = 30_000;
const scarce = 0.1; // of a limit: below it the page leaves the rest to others

/**
 * Repeats a task politely: one at a time, not while the page is hidden, no
 * sooner than the service says, with growing pauses while it refuses or is away,
 * and not for ever: then it stops until start is called.
 */
export class Poller {
  #task; #interval; #report; #timer; #run; #running = false; #failures = 0;

  /**
   * task gets an AbortSignal and resolves to what call resolves to. interval
   * gives the milliseconds between two runs. report is told { error, wait,
   * stopped } after a failure, and {} after a success that follows one.
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
      if (this.#failures > 0) this.#report({});
      this.#failures = 0;
      wait = this.#interval();
      if (remaining < scarce) wait = Math.max(wait, reset - Date.now() + 1000 * Math.random());
    } catch (error) {
      if (run.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#failures++;
      if (!error.passing || this.#failures >= mostFailures) {
        this.stop();
        this.#report({ error, stopped: true });
        return;
      }
      wait = pause(error, this.#failures);
      this.#report({ error, wait });
    }
    this.#timer = setTimeout(() => this.#now(), wait);
  }
}

/** Milliseconds to wait after the given failure of a row, with jitter. */
export function pause(error, failures) {
  const grown = Math.min(1000 * 2 ** (failures - 1), longestWait);
  return Math.max(1000 * error.retryAfter, grown) + 500 * Math.random();
}

/** Runs an action again, a few times, if it failed in a way that passes. */
export async function insist(action, report) {
  for (let failures = 1; ; failures++) {
    try {
      return await action();
    } catch (error) {
      if (!error.passing || failures >= 4) throw error;
      report(error);
      await new Promise((resolve) => setTimeout(resolve, pause(error, failures)));
    }
  }
}
