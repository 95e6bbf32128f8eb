// The pacing of all calls of a client: when a request may be sent.
//
// Times are milliseconds of the client's monotonic clock; windows are seconds of the service's clock.

import { retryAfterMs } from "./errors.js";
import { quotaIn, type Quota } from "./quota.js";

const second = 1000;

const defaultPage = 50; // records, if the pacer chooses before it knows the limit
const maxPage = 200; // records, the most that the service returns at a time

const cleanWindows = 10; // windows without a refusal after which the reserve of a rule shrinks by one
const maxReset = 2 ** 33; // larger values of X-RateLimit-Reset are not Unix times in seconds
const spreadSteps = 4; // steps in a window over which a share below 1 is spread

const driftPer = 5000; // two clocks drift apart by at most 1 second in 5,000 seconds
const maxSkew = 100; // between the clocks of the service's instances, unless one was set
const unknown = -(2 ** 52);

/** Time of the client's clock. */
export const now = (): number => performance.now();

/**
 * Estimates by how much the clock of the service is ahead of the client's clock. The estimate is a
 * lower bound, so that the client can tell when a window of the service has certainly begun. The
 * service counts a request at some instant after the request is sent and before the response is
 * received. The window in the response contains this instant.
 */
class Clock {
  #ahead = unknown;
  #observed = 0; // when the last response was received

  /**
   * Improves the bound with a response whose window ends at a Unix time (reset). Returns whether the
   * service's clock was set back, so that known counters are no longer valid.
   */
  observe(sent: number, received: number, reset: number): boolean {
    const end = reset * second;
    const low = end - second - received;
    const high = end - sent;
    const setBack = high < this.#ahead - maxSkew;
    if (setBack) {
      this.#ahead = unknown;
      this.#observed = 0;
    }
    const drift = (received - this.#observed) / driftPer;
    this.#ahead = Math.min(Math.max(this.#ahead - drift, low), high);
    this.#observed = received;
    return setBack;
  }

  /** Returns the latest window that has certainly begun, and the current step in it. */
  at(time: number, steps: number): { window: number; step: number } {
    const n = Math.floor((time + this.#ahead) / (second / steps));
    const window = Math.floor(n / steps);
    return { window, step: n - window * steps };
  }

  /** Returns when the next step begins. */
  nextStep(time: number, steps: number): number {
    const step = second / steps;
    return time + step - ((time + this.#ahead) % step);
  }
}

/** A rule that applies to a request, and the most that the request may cost. */
export interface Cost {
  rule: string; // the service's name: records, imports or requests
  key: string; // the rule "requests" has one key for each route
  amount: number; // at admission, lowered to what is left, but not below 1
  step?: boolean; // whether amount is limited to what one step adds
}

export type RouteClass = "export" | "import" | "general";

/** Returns what a request costs. records is the most that the response can have; 0 to let the pacer choose. */
export function costsOf(route: string, routeClass: RouteClass, records: number): Cost[] {
  const costs: Cost[] = [{ rule: "requests", key: `requests ${route}`, amount: 1 }];
  if (routeClass === "import") {
    costs.push({ rule: "imports", key: "imports", amount: 1 });
  } else if (routeClass === "export") {
    costs.push({ rule: "records", key: "records", amount: records || maxPage, step: !records });
  }
  return costs;
}

class Rule {
  readonly line: Turn[] = []; // the first is the next request to be sent
  limit = 0; // per window; 0 until a response has shown it
  inFlight = 0; // total cost of the requests without a response
  readonly used = new Map<number, number>(); // how much of the limit is used, by window
  reserve = 0; // part of the limit that is left unused after refusals
  until = -Infinity; // earliest time of the next request
  quota: Quota | undefined; // the latest that a response has shown
  quotaUntil = -Infinity; // when to forget it
  #refused = 0; // window in which the reserve last changed

  quotaAt(time: number): Quota | undefined {
    return time < this.quotaUntil ? this.quota : undefined;
  }

  note(cost: number, refused: boolean, window: number, { limit, left }: Standing): void {
    this.limit = limit;
    let used = limit - left;
    if (refused && left < cost) {
      used = limit; // after a refusal, treat the window as full
      this.reserve = Math.min(this.reserve + 1, Math.floor(limit / 4));
      this.#refused = window;
    }
    this.used.set(window, Math.max(this.used.get(window) ?? 0, used));
    if (this.reserve > 0 && window >= this.#refused + cleanWindows) {
      this.reserve--;
      this.#refused = window;
    }
    for (const w of this.used.keys()) {
      if (w < window - 2) this.used.delete(w);
    }
  }
}

/** A request that waits to be sent, or was sent and has no response. */
export interface Turn {
  costs: Cost[]; // the last one selects the line in which the request waits
  wake: () => void; // called when admit may give another result
  sent: number;
}

/**
 * Delays requests until the limits have room for them.
 *
 * The service counts requests in windows, the seconds of its own clock. Each response shows the end
 * of its window and the remainder of each rule. The client knows the service's clock only
 * approximately. A request that is sent now may therefore be counted in the latest window that has
 * certainly begun or in a later one, and so may each request in flight. The pacer sends a request
 * only if it fits into each of these windows along with all requests in flight.
 *
 * It stops when a share of the limit is used, no matter by whom, and spreads the share over the
 * window in steps, so that other clients always find room; a share of 1 is not spread. Each refusal
 * adds one to a reserve, a part of the limit that stays unused and shrinks after windows without a
 * refusal. Until a response has shown a limit, one request is sent at a time.
 *
 * The pacer does not pace by quotas. But a list never requests more records than a quota has left,
 * and a request that costs more than that is not sent.
 *
 * This is the pacing of the Go client, pkg/client/pace.go.
 */
export class Pacer {
  readonly #share: number;
  readonly #steps: number;
  readonly #gap: number; // minimum time between two requests
  #next = -Infinity;
  readonly #clock = new Clock();
  readonly #rules = new Map<string, Rule>();

  constructor(share: number, rate: number | undefined) {
    this.#share = share;
    this.#steps = share < 1 ? spreadSteps : 1;
    this.#gap = rate ? second / rate : 0;
  }

  #rule(cost: Cost): Rule {
    let rule = this.#rules.get(cost.key);
    if (!rule) {
      rule = new Rule();
      this.#rules.set(cost.key, rule);
    }
    return rule;
  }

  #line(turn: Turn): Turn[] {
    return this.#rule(turn.costs.at(-1)!).line;
  }

  /** Puts a request in line. The caller must call admit until it returns 0, or withdraw. */
  join(turn: Turn): void {
    this.#line(turn).push(turn);
  }

  /** Takes a request out of its line. */
  withdraw(turn: Turn): void {
    const line = this.#line(turn);
    const first = line[0] === turn;
    line.splice(line.indexOf(turn), 1);
    if (first) line[0]?.wake();
  }

  /**
   * Returns 0 if the request may be sent now, and lowers its costs. Otherwise returns the time to
   * wait, which turn.wake may cut short. After 0, the caller must call leave.
   */
  admit(turn: Turn, time: number): number {
    if (this.#line(turn)[0] !== turn) return Infinity;
    const granted = turn.costs.map((c) => this.#grant(this.#rule(c), c, time));
    const retryAt = Math.max(this.#next, ...turn.costs.map((c) => this.#rule(c).until));
    if (retryAt > time) return retryAt - time;
    if (granted.includes(0)) return this.#clock.nextStep(time, this.#steps) - time;
    this.#next = time + this.#gap;
    turn.sent = time;
    turn.costs.forEach((c, i) => {
      c.amount = granted[i]!;
      this.#rule(c).inFlight += c.amount;
    });
    this.withdraw(turn);
    return 0;
  }

  /** Returns how long an earlier Retry-After still forbids the request; 0 if none does. */
  asked(turn: Turn, time: number): number {
    return Math.max(0, ...turn.costs.map((c) => this.#rule(c).until - time));
  }

  /** Returns the quota that has no room for the request; undefined if there is none. */
  overQuota(turn: Turn, time: number): Quota | undefined {
    for (const c of turn.costs) {
      const quota = this.#rule(c).quotaAt(time);
      if (quota && (quota.left === 0 || (quota.left < c.amount && !c.step))) return quota;
    }
    return undefined;
  }

  /** Returns how much of c may be used now; 0 if the request must wait. */
  #grant(rule: Rule, c: Cost, time: number): number {
    let amount = c.amount;
    if (c.step) amount = Math.min(amount, rule.quotaAt(time)?.left ?? amount);
    if (rule.limit === 0) {
      if (rule.inFlight > 0) return 0;
      return c.step ? Math.min(amount, defaultPage) : amount;
    }
    const room = Math.max(Math.floor(this.#share * rule.limit) - rule.reserve, 1);
    if (c.step) amount = Math.min(amount, Math.ceil(room / this.#steps));
    const { window, step } = this.#clock.at(time, this.#steps);
    const used = (rule.used.get(window) ?? 0) + rule.inFlight;
    const following = (rule.used.get(window + 1) ?? 0) + rule.inFlight;
    if (used * this.#steps >= room * (step + 1)) return 0;
    return Math.max(Math.min(amount, room - Math.max(used, following)), 0);
  }

  /** Notes the response to an admitted request; headers is undefined if there was none. */
  leave(turn: Turn, time: number, status: number, headers = new Headers()): void {
    const refused = status === 429;
    const reset = parameter(headers, "x-ratelimit-reset") ?? 0;
    const quota = quotaIn(headers);
    const told = 0 < reset && reset < maxReset && !quota;
    if (told && this.#clock.observe(turn.sent, time, reset)) {
      for (const rule of this.#rules.values()) rule.used.clear();
    }
    const wait = retryAfterMs(headers);
    for (const c of turn.costs) {
      const rule = this.#rule(c);
      rule.inFlight -= c.amount;
      if (quota) {
        if (quota.policy.startsWith(`${c.rule}-`)) {
          rule.quota = quota;
          rule.quotaUntil = time + quota.memoryMs;
        }
        continue;
      }
      // A Retry-After of 1 second is rounded up from a shorter time. The end of the window is more
      // exact.
      if (refused && (!told || wait > second)) rule.until = Math.max(rule.until, time + wait);
      const shown = standing(headers, c.rule);
      if (told && shown) rule.note(c.amount, refused, reset - 1, shown);
    }
    for (const rule of this.#rules.values()) rule.line[0]?.wake();
  }
}

interface Standing {
  limit: number;
  left: number;
}

/**
 * Returns the limit of a rule and its remainder; undefined if the headers lack them. If a proxy has
 * removed RateLimit, the X-RateLimit headers describe the rule with the smallest remainder.
 */
function standing(headers: Headers, rule: string): Standing | undefined {
  let limit = parameter(headers, "ratelimit-policy", `"${rule}";q=`);
  let left = parameter(headers, "ratelimit", `"${rule}";r=`);
  if (limit === undefined || left === undefined) {
    limit = parameter(headers, "x-ratelimit-limit");
    left = parameter(headers, "x-ratelimit-remaining");
  }
  return limit === undefined || left === undefined || limit <= 0 ? undefined : { limit, left };
}

/** Returns the number that follows prefix in a header; undefined if there is none. */
function parameter(headers: Headers, name: string, prefix = ""): number | undefined {
  const value = headers.get(name) ?? "";
  const at = value.indexOf(prefix);
  const number = at < 0 ? null : /^\s*([+-]?[0-9]{1,18})/.exec(value.slice(at + prefix.length));
  return number ? Number(number[1]) : undefined;
}
