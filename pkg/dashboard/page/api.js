// The API as the page sees it. Paths are relative to the page, which stands
// beside the API's routes.

import { sentence } from './format.js';

/** A response that is not a success, or no response: then status is 0. */
export class ApiError extends Error {
  constructor({ status = 0, code = 'unreachable', detail = 'The service cannot be reached. Check the connection.', errors = [], retryAfter = 0 } = {}) {
    super(sentence(detail));
    Object.assign(this, { status, code, errors, retryAfter });
  }

  /** Whether the same request may pass later. */
  get passing() { return [0, 429, 502, 503, 504].includes(this.status); }
}

/**
 * Sends a request and reads its JSON; exact keeps every digit of its numbers,
 * where the browser can, for JSON.stringify. Resolves to { data, remaining, reset }:
 * remaining is the part of the tightest limit that is left, from 0 to 1, reset
 * the time in milliseconds at which it is whole again. Rejects with an ApiError;
 * when the signal aborts, with its reason.
 */
export async function call(method, path, { body, signal, exact } = {}) {
  const timeout = AbortSignal.timeout(20_000);
  let response, text;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    text = await response.text();
  } catch {
    signal?.throwIfAborted();
    throw new ApiError();
  }
  const data = parse(text, exact ? digits : undefined);
  if (!response.ok) {
    throw new ApiError({
      status: response.status,
      code: data?.code ?? 'unknown',
      detail: data?.detail ?? `The service answered ${response.status}`,
      errors: data?.errors,
      retryAfter: Number(response.headers.get('Retry-After')) || 0,
    });
  }
  const limit = Number(response.headers.get('X-RateLimit-Limit')) || 1;
  return {
    data,
    remaining: Number(response.headers.get('X-RateLimit-Remaining') ?? limit) / limit,
    reset: Number(response.headers.get('X-RateLimit-Reset')) * 1000,
  };
}

function parse(text, reviver) {
  try {
    return JSON.parse(text, reviver);
  } catch {
    return null;
  }
}

/** A number as JSON that is written as it was read. */
function digits(key, value, context) {
  return typeof value === 'number' && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}
