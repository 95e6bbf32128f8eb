// How a client sends requests and repeats them.

import {
  asUnknown,
  errorOf,
  failureIn,
  isUnsure,
  overQuota,
  retryAfterMs,
  type Failure,
  type SluiceError,
} from "./errors.js";
import { parseJSON } from "./json.js";
import { costsOf, now, Pacer, type RouteClass, type Turn } from "./pace.js";

/** One request of a call. */
export interface Try {
  /** Name of the route, such as create-event. */
  route: string;
  /** Number of the try within its call, from 1. */
  number: number;
  /** HTTP status; 0 if there was no response. */
  status: number;
  /** Why the try failed. */
  error: SluiceError | undefined;
  /** Milliseconds until the next try, which pacing may extend; 0 if this one is the last. */
  waitMs: number;
}

/** Tunes a client. */
export interface Config {
  /** API key, slc_<id>_<secret>. A key in a web page is public. */
  key?: string | undefined;
  /** Maximum number of requests per call; 8 by default. */
  maxTries?: number;
  /** Maximum time of a call, from its first request; 60,000 by default. */
  maxElapsedMs?: number;
  /** Maximum time of one request and its response; 15,000 by default. */
  tryTimeoutMs?: number;
  /** Upper bound of the random wait after the first try; 100 by default. It doubles after each further try. */
  minBackoffMs?: number;
  /** Upper bound of the random wait after any try; 5,000 by default. */
  maxBackoffMs?: number;
  /** Maximum number of requests per second, over all calls; no bound by default. */
  rate?: number;
  /** Part of each limit that may be used, by this client and others together; above 0 and at most 1; 0.9 by default. */
  share?: number;
  /** Value of the User-Agent header, which a page cannot set. */
  userAgent?: string;
  /** Sends the requests; the global fetch by default. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Called after every try. */
  onTry?: (t: Try) => void;
}

/** What every call takes. */
export interface Options {
  /** Ends the call, which then rejects with signal.reason. A change may have been made nevertheless. */
  signal?: AbortSignal | undefined;
}

type Full = Required<Omit<Config, "rate" | "key" | "onTry">> & Pick<Config, "rate" | "key" | "onTry">;

/** A request of a call. */
export interface Request {
  route: string;
  class: RouteClass;
  path: string;
  query?: Record<string, string | number | undefined>;
  body?: string; // JSON of a POST; undefined for a GET
  records?: number; // the most records that the response can have; 0 to let the pacer choose
  paced?: boolean; // whether the pacer sets the query parameter limit
}

/** The API's response to one request. */
export interface Reply {
  status: number; // 0 if there is none
  headers: Headers;
  body: string;
}

export type Outcome<T> = { value: T } | { failure: Failure };

/** Returns the result of a call, or why it has failed so far. failure is why reply is not complete, or not a success. */
export type Read<T> = (reply: Reply, failure: Failure | undefined) => Outcome<T>;

/** Returns a Read that decodes the body. A failure to decode it is retryable, like a lost response. */
export function decoded<T>(decode: (members: never, reply: Reply) => T): Read<T> {
  return (reply, failure) => {
    if (failure) return { failure };
    try {
      return { value: decode(parseJSON(reply.body) as never, reply) };
    } catch (cause) {
      return { failure: { detail: `decode the response: ${String(cause)}`, retryable: true, cause } };
    }
  };
}

// More than a Lambda function can return, which is 6 MB.
const maxResponseBytes = 16 << 20;

/** Makes the calls to one service. All of them share a pacer. */
export class Engine {
  readonly config: Full;
  readonly #base: string;
  readonly #pacer: Pacer;
  #source: string | undefined;

  constructor(url: string, config: Config) {
    this.#base = checkedURL(url);
    this.config = checkedConfig(config);
    this.#pacer = new Pacer(this.config.share, this.config.rate);
  }

  /** Sends a request until it succeeds or a bound is reached. */
  async call<T>(request: Request, read: Read<T>, options: Options): Promise<T> {
    const end = await this.attempt(request, read, options);
    if ("value" in end) return end.value;
    throw errorOf(end.failure, request.route, end.tries);
  }

  /** Like call, for a change for one revision. */
  async conditional<T>(request: Request, read: Read<T>, options: Options): Promise<T> {
    const seen = { unsure: false }; // whether a failed try may have made the change
    const end = await this.attempt(
      request,
      (reply, failure) => {
        const outcome = read(reply, failure);
        seen.unsure ||= "failure" in outcome && isUnsure(outcome.failure);
        return outcome;
      },
      options,
    );
    if ("value" in end) return end.value;
    throw errorOf(seen.unsure ? asUnknown(end.failure) : end.failure, request.route, end.tries);
  }

  /** Like call, but returns a failure. It throws only signal.reason. read may change request.body. */
  async attempt<T>(request: Request, read: Read<T>, { signal }: Options): Promise<Outcome<T> & { tries: number }> {
    const { onTry } = this.config;
    let entered = await this.#enter(request, signal);
    if ("failure" in entered) return { ...entered, tries: 0 };
    const retries = new Retries(this.config);
    for (;;) {
      const { reply, error } = await this.#try(request, entered.turn, retries.patience(), signal);
      const outcome = read(reply, error);
      signal?.throwIfAborted();
      if ("value" in outcome) {
        onTry?.({ route: request.route, number: retries.count + 1, status: reply.status, error: undefined, waitMs: 0 });
        return { ...outcome, tries: retries.count + 1 };
      }
      const failure = { ...outcome.failure, status: outcome.failure.status || reply.status };
      const wait = retries.failed(failure);
      onTry?.({
        route: request.route,
        number: retries.count,
        status: reply.status,
        error: errorOf(failure, request.route, retries.count),
        waitMs: wait ?? 0,
      });
      if (wait === undefined) return { failure, tries: retries.count };
      await sleep(wait, signal);
      entered = await this.#enter(request, signal, retries.deadline);
      if ("failure" in entered) return { failure, tries: retries.count };
    }
  }

  /**
   * Waits until the limits have room for a request. It fails if an earlier Retry-After asks to wait
   * beyond the deadline or, without a deadline, longer than maxElapsedMs.
   */
  async #enter(
    request: Request,
    signal?: AbortSignal,
    deadline?: number,
  ): Promise<{ turn: Turn } | { failure: Failure }> {
    const turn: Turn = {
      costs: costsOf(request.route, request.class, request.records ?? 0),
      wake: () => undefined,
      sent: -1,
    };
    this.#pacer.join(turn);
    try {
      for (;;) {
        const time = now();
        const quota = this.#pacer.overQuota(turn, time);
        if (quota) return { failure: overQuota(quota) };
        const wait = this.#pacer.admit(turn, time);
        if (wait === 0) break;
        const asked = this.#pacer.asked(turn, time);
        const end = deadline ?? time + this.config.maxElapsedMs;
        if (time + asked > end || time > end) return { failure: askedToWait(asked) };
        await sleep(Math.min(wait, end - time + 1), signal, (wake) => (turn.wake = wake));
      }
    } finally {
      if (turn.sent < 0) this.#pacer.withdraw(turn);
    }
    if (request.paced) request.query = { ...request.query, limit: turn.costs.at(-1)?.amount };
    return { turn };
  }

  /** Sends a request. error is undefined if the response is complete, with a status below 300. */
  async #try(
    request: Request,
    turn: Turn,
    patience: number,
    signal?: AbortSignal,
  ): Promise<{ reply: Reply; error?: Failure | undefined }> {
    const reply: Reply = { status: 0, headers: new Headers(), body: "" };
    let error: Failure | undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      stop.abort(new Error(`no complete response within ${Math.round(patience)} ms`));
    }, patience);
    const abort = (): void => {
      stop.abort(signal?.reason);
    };
    signal?.addEventListener("abort", abort);
    try {
      signal?.throwIfAborted();
      const response = await this.config.fetch(this.#base + request.path + text(request.query), {
        method: request.body === undefined ? "GET" : "POST",
        headers: this.#headers(request),
        body: request.body ?? null,
        redirect: "manual",
        ...(isPage && { cache: "no-store" }), // the headers of a response from the cache are old
        signal: stop.signal,
      });
      reply.status = response.status;
      reply.headers = response.headers;
      error = await readBody(response, reply);
    } catch (cause) {
      error = lost(stop.signal.aborted ? stop.signal.reason : cause);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      this.#pacer.leave(turn, now(), reply.status, reply.headers);
    }
    error = this.#checkSource(reply) ?? error;
    if (!error && reply.status >= 300) error = failureIn(reply.status, reply.headers, reply.body);
    return { reply, error: error && { ...error, retryAfterMs: retryAfterMs(reply.headers) } };
  }

  #headers(request: Request): Record<string, string> {
    const { key, userAgent } = this.config;
    return {
      ...(userAgent && { "User-Agent": userAgent }),
      ...(request.body !== undefined && { "Content-Type": "application/json" }),
      ...(key && { Authorization: `Bearer ${key}` }),
    };
  }

  /** Makes calls fail if their responses have another source. */
  keepSource(source: string): void {
    this.#source = source;
  }

  #checkSource(reply: Reply): Failure | undefined {
    const got = reply.headers.get("sluice-source");
    if (this.#source === undefined || !got || got === this.#source) return undefined;
    return { detail: `the response is about other records (${got}) than those before (${this.#source})` };
  }
}

/** Bounds the tries of a call. */
export class Retries {
  readonly #config: Full;
  count = 0; // number of failed tries
  deadline: number;

  constructor(config: Full) {
    this.#config = config;
    this.deadline = now() + config.maxElapsedMs;
  }

  /** Starts counting again. */
  restart(): void {
    this.count = 0;
    this.deadline = now() + this.#config.maxElapsedMs;
  }

  /** Returns how long the next try may take. */
  patience(): number {
    return Math.max(Math.min(this.#config.tryTimeoutMs, this.deadline - now()), 1);
  }

  /** Counts a failed try. Returns the wait before the next try; undefined if there must be none. */
  failed(failure: Pick<Failure, "retryable" | "retryAfterMs">): number | undefined {
    this.count++;
    if (!failure.retryable || this.count >= this.#config.maxTries) return undefined;
    const most = Math.min(this.#config.minBackoffMs * 2 ** (this.count - 1), this.#config.maxBackoffMs);
    const wait = (failure.retryAfterMs ?? 0) + Math.random() * most;
    return now() + wait >= this.deadline ? undefined : wait;
  }
}

/** Waits, but rejects with signal.reason when that is aborted. early receives a function that ends the wait. */
export async function sleep(ms: number, signal?: AbortSignal, early?: (wake: () => void) => void): Promise<void> {
  signal?.throwIfAborted();
  let abort: () => void = () => undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  await new Promise<void>((resolve) => {
    abort = resolve;
    signal?.addEventListener("abort", abort);
    early?.(resolve);
    timer = setTimeout(resolve, Math.min(ms, 2 ** 31 - 1)); // a longer one would end at once
  });
  clearTimeout(timer);
  signal?.removeEventListener("abort", abort);
  signal?.throwIfAborted();
}

/** Returns the failure of a request that got no complete response. */
export function lost(cause: unknown): Failure {
  // The message of fetch says little; that of its cause, if any, more.
  const reasons = [cause, cause instanceof Error ? cause.cause : undefined];
  const texts = reasons.filter((e): e is Error => e instanceof Error).map((e) => e.message);
  return { detail: `no complete response: ${texts.join(": ")}`, retryable: true, cause };
}

async function readBody(response: Response, reply: Reply): Promise<Failure | undefined> {
  if (response.type === "opaqueredirect") {
    return {
      detail: "the service redirects; the client does not follow redirects, so use the URL of the service itself",
    };
  }
  if (!response.body) return undefined;
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  for (let size = 0; ;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > maxResponseBytes) {
      await reader.cancel();
      return { detail: `the response is larger than ${maxResponseBytes} bytes` };
    }
    reply.body += decoder.decode(value, { stream: true });
  }
  reply.body += decoder.decode();
  return undefined;
}

function text(query: Request["query"]): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  const joined = parameters.toString();
  return joined && `?${joined}`;
}

function askedToWait(ms: number): Failure {
  const detail = `an earlier response asked to wait another ${Math.round(ms / 1000)} s`;
  return { detail, status: 429, retryAfterMs: ms, retryable: true };
}

function checkedURL(url: string): string {
  let parts: URL;
  try {
    parts = new URL(url);
  } catch {
    throw new TypeError(`the URL of the service must be like https://host, not "${url}"`);
  }
  if (parts.protocol !== "http:" && parts.protocol !== "https:") {
    throw new TypeError(`the URL of the service must be like https://host, not "${url}"`);
  }
  if (parts.username || parts.password || parts.search || parts.hash) {
    throw new TypeError("the URL of the service must have no user, query or fragment");
  }
  return parts.origin + parts.pathname.replace(/\/+$/, "");
}

// A page of another origin may send only headers that the service allows.
const isPage = "location" in globalThis;

function checkedConfig(config: Config): Full {
  const full: Full = {
    maxTries: 8,
    maxElapsedMs: 60_000,
    tryTimeoutMs: 15_000,
    minBackoffMs: 100,
    maxBackoffMs: 5_000,
    share: 0.9,
    userAgent: isPage ? "" : "sluice-client-typescript",
    fetch: (url, init) => fetch(url, init),
    ...Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined)),
  };
  const { maxTries, maxElapsedMs, tryTimeoutMs, minBackoffMs, maxBackoffMs, rate, share, key } = full;
  if (![maxTries, maxElapsedMs, tryTimeoutMs].every((n) => n > 0 && n < Infinity)) {
    throw new RangeError("maxTries, maxElapsedMs and tryTimeoutMs must be finite and above 0");
  }
  if (![minBackoffMs, maxBackoffMs].every((n) => n >= 0 && n < Infinity)) {
    throw new RangeError("minBackoffMs and maxBackoffMs must be finite and not negative");
  }
  if (rate !== undefined && !(rate > 0)) throw new RangeError("rate must be above 0");
  if (!(share > 0 && share <= 1)) throw new RangeError("share must be above 0 and at most 1");
  if (!/^[!-~]*$/.test(key ?? "")) throw new TypeError("the API key must be printable ASCII without spaces");
  return full;
}
