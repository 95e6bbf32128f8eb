// A client of the API. Paths are relative to the page, which is on the same host as the
// API.

/**
 * A failed request. status is the HTTP status of the error response, or 0 if there
 * was none. results holds the results of a batch if all of its elements failed alike.
 */
class ApiError extends Error {
  constructor({ status = 0, code = 'unreachable', detail = 'The service cannot be reached.', errors = [], retryAfter = 0, results } = {}) {
    super(sentence(detail));
    Object.assign(this, { status, code, errors, retryAfter, results });
  }

  /** Whether the service is unavailable, so that other requests fail too. */
  get away() { return [0, 502, 503, 504].includes(this.status); }

  /** Whether the failure is temporary, so the same request may succeed later. */
  get passing() { return this.away || this.status === 429; }
}

/** How many milliseconds the service's clock is ahead of the browser's. */
let clockOffset = 0;

/** Returns a time that is up to 1 s ahead of the service's clock. */
function serviceNow() {
  return new Date(Date.now() + clockOffset + 1000); // plus 1 s: the Date header has no fractions of a second, so clockOffset can be up to 1 s too small
}

/**
 * Sends a request and reads the JSON response. The request's body is the object in
 * body or the JSON in text. If exact is set and the browser supports it,
 * JSON.stringify writes the response's numbers with all their digits. Resolves to
 * { data, remaining, reset }: remaining is the unused share of the tightest limit,
 * from 0 to 1, and reset is the time in milliseconds at which that limit is reset.
 * Rejects with an ApiError, or with the abort reason of the signal.
 */
async function call(method, path, { body, text: json = body && JSON.stringify(body), signal, exact } = {}) {
  const timeout = AbortSignal.timeout(20_000);
  let response, text;
  try {
    response = await fetch(path, {
      method,
      headers: json === undefined ? {} : { 'Content-Type': 'application/json' },
      body: json,
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
      results: data?.results,
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

/** Returns the value of a JSON text, or null if the text is not JSON. */
function parseJSON(text, reviver) {
  try {
    return JSON.parse(text, reviver);
  } catch {
    return null;
  }
}

/** Returns a number in a form that JSON.stringify writes with its original digits. */
function keepDigits(key, value, context) {
  return typeof value === 'number' && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}

/** Returns a path with a query of the parameters that have a value; a condition on an attribute may be the empty text. */
function withQuery(path, parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([name, value]) => value || (value === '' && name.endsWith('[gte]'))));
  return query.size > 0 ? `${path}?${query}` : path;
}
