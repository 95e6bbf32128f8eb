// JSON in which numbers keep their values.

/**
 * A number that JavaScript has no value for, such as 1e400. It keeps its digits when it is sent.
 * Integers beyond 2^53 are a bigint instead.
 */
export class ExactNumber {
  constructor(readonly text: string) {
    if (!/^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(text)) {
      throw new TypeError(`JSON has no number ${text}`);
    }
  }

  toString(): string {
    return this.text;
  }
}

// JSON.parse and JSON.stringify cannot handle such numbers before Node 21. So each is a string that
// begins with a mark, which no other string can have, because it is random.
const mark = Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("-") + ":";
const marked = new RegExp(`"${mark}([^"]*)"`, "g");

// Every text with a number that needs a mark has one of these. Other texts may, too.
const suspicious = /[0-9]{16}|[eE]\+?[0-9]{3}|[0-9]{300}/;
const stringOrNumber = /"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g;

function exact(text: string): bigint | ExactNumber {
  return /^-?[0-9]+$/.test(text) ? BigInt(text) : new ExactNumber(text);
}

function needsMark(number: string): boolean {
  const n = Number(number);
  return !Number.isFinite(n) || (Math.abs(n) > Number.MAX_SAFE_INTEGER && /^-?[0-9]+$/.test(number));
}

/** Like JSON.parse, but integers beyond 2^53 become a bigint, and other large numbers an ExactNumber. */
export function parseJSON(text: string): unknown {
  if (!suspicious.test(text)) {
    return JSON.parse(text);
  }
  const safe = text.replace(stringOrNumber, (token) =>
    token.startsWith('"') || !needsMark(token) ? token : `"${mark}${token}"`,
  );
  return JSON.parse(safe, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? exact(value.slice(mark.length)) : value,
  );
}

/**
 * Like JSON.stringify, but writes the digits of a bigint or an ExactNumber. It throws a TypeError if
 * a number is infinite or NaN, if a Date is invalid, or if the value has no JSON.
 */
export function stringifyJSON(value: unknown): string {
  const text = JSON.stringify(value, function (this: Record<string, unknown>, key, v: unknown) {
    if (typeof v === "bigint" || v instanceof ExactNumber) {
      return mark + v.toString();
    }
    if (typeof v === "number" && !Number.isFinite(v)) {
      throw new TypeError(`JSON has no number ${v}`);
    }
    if (v === null && this[key] instanceof Date) {
      throw new TypeError("JSON has no time for an invalid Date"); // JSON.stringify writes null
    }
    return v;
  }) as string | undefined;
  if (text === undefined) {
    throw new TypeError(`JSON has no ${typeof value}`);
  }
  return text.includes(mark) ? text.replace(marked, "$1") : text;
}
