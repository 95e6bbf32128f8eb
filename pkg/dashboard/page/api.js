// The API as the page sees it. Paths are relative to the page, which stands
// beside the API's routes.

/** A response that is no success, or none at all: then status is 0. */
class ApiError extends Error {
  constructor({ status = 0, code = 'unreachable', detail = 'The service cannot be reached.', errors = [], retryAfter = 0 } = {}) {
    super(sentence(detail));
    Object.assign(this, { status, code, errors, retryAfter });
  }

  /** Whether the service, and not only this request, is in trouble. */
  get away() { return [0, 502, 503, 504].includes(this.status); }

  /** Whether the same request may pass later. */
  get passing() { return this.away || this.status === 429; }
}

/** How far the service's clock is ahead of the browser's, in milliseconds. */
let clockOffset = 0;

/** The time by the service's clock; no earlier than its last response. */
function serviceNow() {
  return new Date(Date.now() + clockOffset + 1000); // the header Date is cut to the second
}

/**
 * Sends a request and reads its JSON. With exact, numbers keep every digit for
 * JSON.stringify, where the browser supports it. Resolves to { data, remaining,
 * reset }: remaining is what is left of the tightest limit, from 0 to 1, and
 * reset the time in milliseconds at which it is whole again. Rejects with an
 * ApiError, or with the signal's reason when that aborts.
 */
async function call(method, path, { body, signal, exact } = {}) {
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
  const { headers } = response;
  clockOffset = (Date.parse(headers.get('Date')) || Date.now()) - Date.now();
  const data = parseJSON(text, exact ? keepDigits : undefined);
  if (!response.ok) {
    throw new ApiError({
      status: response.status,
      code: data?.code ?? 'unknown',
      detail: data?.detail ?? `The service responded with status ${response.status}`,
      errors: data?.errors,
      retryAfter: Number(headers.get('Retry-After')) || 0,
    });
  }
  const limit = Number(headers.get('X-RateLimit-Limit')) || 1;
  return {
    data,
    remaining: Number(headers.get('X-RateLimit-Remaining') ?? limit) / limit,
    reset: Number(headers.get('X-RateLimit-Reset')) * 1000,
  };
}

/** The value of a JSON text; null if it is not JSON. */
function parseJSON(text, reviver) {
  try {
    return JSON.parse(text, reviver);
  } catch {
    return null;
  }
}

/** Makes a number one that JSON.stringify writes as it was read. */
function keepDigits(key, value, context) {
  return typeof value === 'number' && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}

/** A path with a query of the parameters that have a value. */
function withQuery(path, parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return query.size > 0 ? `${path}?${query}` : path;
}
