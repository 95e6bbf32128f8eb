// Quotas: limits of an API key by UTC day or calendar month, as responses show them.

// How long, in milliseconds, the pacer relies on what a response said of a quota. The operator may
// raise it, which takes effect within that time.
const memory = 60_000;

export interface Quota {
  policy: string; // such as records-month
  left: number;
  ends: Date;
  memoryMs: number; // how long after the response it may be relied on
}

/**
 * Returns the quota that the X-RateLimit headers are about, which has less left than the limits per
 * second; undefined if they are about one of those.
 */
export function quotaIn(headers: Headers): Quota | undefined {
  const reset = headers.get("x-ratelimit-reset") ?? "";
  const shown = headers.get("ratelimit") ?? "";
  if (!/^[0-9]{1,11}$/.test(reset)) return undefined;
  let quota: Quota | undefined;
  let least = Infinity;
  for (const [, policy, left, rest] of shown.matchAll(/"([^"]*)";r=([0-9]{1,15});t=([0-9]{1,9})/g)) {
    if (Number(left) > least) continue;
    least = Number(left);
    const ends = new Date(Number(reset) * 1000);
    const memoryMs = Math.min(Number(rest) * 1000 - 1000, memory);
    quota = /-(day|month)$/.test(policy!) ? { policy: policy!, left: least, ends, memoryMs } : undefined;
  }
  return quota;
}
