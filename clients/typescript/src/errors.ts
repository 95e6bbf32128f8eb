// Why calls fail, and how that follows from responses.

import { parseJSON } from "./json.js";
import type { components } from "./api.js";
import { quotaIn, type Quota } from "./quota.js";

/** An invalid member or query parameter of a request. */
export type FieldError = components["schemas"]["FieldError"];

/** Why a request or a call failed, before it is thrown as a SluiceError. */
export interface Failure {
  detail: string;
  status?: number;
  code?: string;
  fields?: readonly FieldError[];
  retryAfterMs?: number;
  requestId?: string;
  currentRevision?: number | undefined;
  quota?: Quota | undefined; // the one that has no room for the request
  retryable?: boolean;
  unknown?: boolean; // whether a change for a revision may have been made
  cause?: unknown;
}

/** Says why a call failed. */
export class SluiceError extends Error {
  override name = "SluiceError";
  /** Explanation for people. */
  readonly detail: string;
  /** Name of the route, such as create-event. */
  readonly route: string;
  /** Number of requests that were sent. */
  readonly tries: number;
  /** HTTP status of the last response; 0 if there was none. */
  readonly status: number;
  /** Stable code for programs, such as not_found; may be empty. */
  readonly code: string;
  /** Invalid members of the request. */
  readonly fields: readonly FieldError[];
  /** Milliseconds that the last response asks to wait; 0 if it does not. */
  readonly retryAfterMs: number;
  /** Id of the last request, for reports to the operator of the service; may be empty. */
  readonly requestId: string;
  /**
   * Whether the same call can succeed later. If it can, the client gave up only because it reached
   * one of its bounds.
   */
  readonly retryable: boolean;
  /**
   * Revision of the entity, if it is not the one that a change was made for; 0 if there is no such
   * entity. Otherwise undefined.
   */
  readonly currentRevision: number | undefined;
  /** Results of the records, if a batch failed. */
  readonly results: readonly unknown[];

  constructor(failure: Failure, route = "", tries = 0, results: readonly unknown[] = []) {
    super(message(failure, route, tries), { cause: failure.cause });
    this.detail = failure.detail;
    this.route = route;
    this.tries = tries;
    this.status = failure.status ?? 0;
    this.code = failure.code ?? "";
    this.fields = failure.fields ?? [];
    this.retryAfterMs = failure.retryAfterMs ?? 0;
    this.requestId = failure.requestId ?? "";
    this.retryable = failure.retryable ?? false;
    this.currentRevision = failure.currentRevision;
    this.results = results;
  }
}

/** There is no such record (status 404, code not_found). */
export class NotFoundError extends SluiceError {
  override name = "NotFoundError";
}

/** The id exists with different content, or a job to cancel has ended (409, conflict). */
export class ConflictError extends SluiceError {
  override name = "ConflictError";
}

/** The entity has another revision (412, revision_mismatch). Nothing was changed. */
export class RevisionMismatchError extends SluiceError {
  override name = "RevisionMismatchError";
}

/**
 * A change for a revision may have been made. One of its requests failed without saying whether it
 * was, and the repeats did not tell either: if the entity now has another revision, that may be due
 * to this change.
 */
export class UnknownOutcomeError extends SluiceError {
  override name = "UnknownOutcomeError";
}

/** The service refused the request (status 429) until the client reached a bound. */
export class RateLimitError extends SluiceError {
  override name = "RateLimitError";
}

/** The API key's quota has no room for the request (status 429). */
export class QuotaError extends RateLimitError {
  override name = "QuotaError";
  /** Policy of the quota, such as records-month. */
  readonly quota: string;
  /** When that day or month ends. */
  readonly quotaEnds: Date;

  constructor(quota: Quota, failure: Failure, route: string, tries: number, results?: readonly unknown[]) {
    super(failure, route, tries, results);
    this.quota = quota.policy;
    this.quotaEnds = quota.ends;
  }
}

/** Returns the error to throw or to return for a failure. */
export function errorOf(failure: Failure, route: string, tries: number, results?: readonly unknown[]): SluiceError {
  if (failure.quota) return new QuotaError(failure.quota, failure, route, tries, results);
  return new (kindOf(failure))(failure, route, tries, results);
}

function kindOf(failure: Failure): typeof SluiceError {
  const { status, code } = failure;
  if (failure.unknown) return UnknownOutcomeError;
  if (status === 429) return RateLimitError;
  if (status === 404 && code === "not_found") return NotFoundError;
  if (status === 409 && code === "conflict") return ConflictError;
  if (isMismatch(failure)) return RevisionMismatchError;
  return SluiceError;
}

export function isMismatch({ status, code }: Failure): boolean {
  return status === 412 && code === "revision_mismatch";
}

function message(f: Failure, route: string, tries: number): string {
  return [
    route && `${route}: `,
    f.retryable && tries > 1 ? `gave up after ${tries} tries: ` : "",
    f.status ? `status ${f.status}: ` : "",
    f.unknown ? "the change may have been made: " : "",
    f.detail || "the response does not say why",
    f.retryable && f.retryAfterMs && !f.quota
      ? `; the service asks to wait ${Math.round(f.retryAfterMs / 1000)} s`
      : "",
    f.requestId ? ` (request id ${f.requestId})` : "",
  ].join("");
}

/** Reports whether the request that failed may have been carried out. */
export function isUnsure(f: Failure): boolean {
  // These codes come before a request does anything, although their status is 503.
  if (!f.retryable || f.code === "rate_limiter_unavailable" || f.code === "access_unavailable") {
    return false;
  }
  return !f.status || f.status >= 500;
}

export function asUnknown(f: Failure): Failure {
  return { ...f, unknown: true, retryable: false };
}

// The part of problem details (RFC 9457) that clients use; message is only in errors from API
// Gateway itself.
interface Problem {
  code?: string;
  detail?: string;
  message?: string;
  instance?: string;
  errors?: FieldError[];
  current_revision?: number;
}

export function failureOf(status: number, problem: Problem): Failure {
  return {
    detail: problem.detail ?? problem.message ?? "",
    status,
    code: problem.code ?? "",
    fields: problem.errors ?? [],
    requestId: problem.instance ?? "",
    currentRevision: problem.current_revision,
    retryable: status === 408 || status === 429 || (status >= 500 && status !== 501 && status !== 505),
  };
}

/** Returns the failure that a response with status 300 or above means. */
export function failureIn(status: number, headers: Headers, body: string): Failure {
  let failure: Failure;
  try {
    failure = failureOf(status, parseJSON(body) as Problem);
  } catch {
    failure = failureOf(status, { detail: `the response is not an error of this API: ${body.slice(0, 200)}` });
  }
  if (status < 400) {
    failure.detail =
      `the service redirects to "${headers.get("location") ?? ""}"; ` +
      "the client does not follow redirects, so use the URL of the service itself";
  }
  failure.requestId ||= headers.get("apigw-requestid") ?? "";
  if (status === 429) failure.quota = quotaIn(headers);
  return failure;
}

/** Returns the failure of a request that is not sent, because a quota has no room for it. */
export function overQuota(quota: Quota): Failure {
  const ends = quota.ends.toISOString().replace(".000Z", "Z");
  const detail = `an earlier response said that the quota ${quota.policy} has ${quota.left} left until ${ends}`;
  return { ...failureOf(429, { detail }), quota };
}

// The most that retryAfterMs returns. No call waits that long.
const year = 365 * 24 * 3600 * 1000;

/** Returns the wait that Retry-After asks for, a number of seconds or a date (RFC 9110); 0 if none. */
export function retryAfterMs(headers: Headers): number {
  const value = headers.get("retry-after") ?? "";
  if (/^[0-9]+$/.test(value)) {
    return Math.min(Number(value) * 1000, year);
  }
  const at = Date.parse(value);
  if (Number.isNaN(at)) return 0;
  const now = dateOf(headers)?.getTime() ?? Date.now(); // of the clock that Retry-After is from
  return Math.min(Math.max(at - now, 0), year);
}

/** Returns when the service sent a response. A page sees it only if the service exposes Date. */
export function dateOf(headers: Headers): Date | undefined {
  const at = Date.parse(headers.get("date") ?? "");
  return Number.isNaN(at) ? undefined : new Date(at);
}
