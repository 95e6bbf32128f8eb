// Calls that send several records.

import { decoded, type Engine, type Options, type Outcome, type Read, type Request } from "./engine.js";
import { asUnknown, errorOf, failureOf, isMismatch, isUnsure, type Failure } from "./errors.js";
import { stringifyJSON } from "./json.js";
import { newID, type BatchResult, type EntityChange, type Members, type NewEvent } from "./records.js";

/** What the service says about one record. */
interface Result {
  index: number;
  status: number;
  deleted?: boolean;
  problem?: Parameters<typeof failureOf>[1];
  entity?: Members;
  event?: Members;
}

type Kind = "entities" | "events";

/**
 * A call that repeats only the records that failed with a retryable error. A record that JSON cannot
 * represent is not sent, and its result has the reason.
 */
export class Batch<T> {
  readonly #request: Request;
  readonly #kind: Kind;
  readonly #convert: (members: Members) => T;
  readonly #ids: string[] = [];
  readonly #encoded: string[] = [];
  readonly #results: BatchResult<T>[] = [];
  #pending: number[] = []; // indexes of the records without a final result
  readonly #conditional = new Set<number>(); // only for one revision
  readonly #unsure = new Set<number>(); // a failed try may have stored them

  constructor(
    kind: Kind,
    convert: (members: Members) => T,
    request: Omit<Request, "class">,
    records: readonly (EntityChange | NewEvent)[],
  ) {
    this.#request = { ...request, class: "import" };
    this.#kind = kind;
    this.#convert = convert;
    records.forEach((record, i) => {
      const draft = { ...record, id: record.id ?? newID() };
      this.#ids.push(draft.id);
      try {
        this.#encoded[i] = stringifyJSON(draft);
      } catch (cause) {
        this.#fail(
          i,
          { detail: `record ${i} of the batch was not sent: ${String(cause)}`, code: "invalid_record", cause },
          0,
        );
        return;
      }
      this.#pending.push(i);
      if ("if_revision" in draft && draft.if_revision != null) this.#conditional.add(i);
    });
    this.#encode();
  }

  /** Returns one result for each record, in order. An error has the results so far. */
  async send(engine: Engine, options: Options): Promise<BatchResult<T>[]> {
    if (this.#pending.length === 0) return this.#results;
    const end = await engine.attempt(this.#request, this.#read, options);
    if ("value" in end) return this.#results;
    let { failure } = end;
    for (const i of this.#pending) {
      const unknown = this.#conditional.has(i) && this.#unsure.has(i);
      this.#fail(i, unknown ? asUnknown(end.failure) : end.failure, end.tries);
      if (unknown) failure = asUnknown(end.failure);
    }
    throw errorOf(failure, this.#request.route, end.tries, this.#results);
  }

  #fail(i: number, failure: Failure, tries: number): void {
    const error = errorOf(failure, this.#request.route, tries);
    this.#results[i] = { id: this.#ids[i]!, created: false, deleted: false, error };
  }

  #encode(): void {
    this.#request.body = `{"${this.#kind}":[${this.#pending.map((i) => this.#encoded[i]).join(",")}]}`;
  }

  readonly #read: Read<undefined> = (reply, failure) => {
    const results = decoded((members: Members) => this.#checked(members))(reply, undefined);
    if ("failure" in results) {
      failure ??= results.failure;
      if (isUnsure(failure)) this.#pending.forEach((i) => this.#unsure.add(i));
      return { failure };
    }
    return this.#take(results.value, failure);
  };

  #stored(r: Result): T | undefined {
    const record = this.#kind === "events" ? r.event : r.entity;
    return record && this.#convert(record);
  }

  /** Returns the results in a response, with their records. It throws if they do not belong to the request. */
  #checked(members: Members): (Result & { record?: T | undefined })[] {
    const got = members["results"] as Result[];
    if (got.length !== this.#pending.length) {
      throw new TypeError(`${got.length} results for ${this.#pending.length} ${this.#kind}`);
    }
    return got.map((r, i) => {
      const record = r.problem ? undefined : this.#stored(r);
      const missing = this.#kind === "events" && !record; // large entities may be left out
      if (r.index !== i || (!r.problem && (r.status >= 300 || missing))) {
        throw new TypeError(`result ${i} is not a result for ${this.#kind}`);
      }
      return { ...r, record };
    });
  }

  /** Stores the results. The outcome is the last retryable failure, if a record is pending. */
  #take(got: (Result & { record?: T | undefined })[], whole: Failure | undefined): Outcome<undefined> {
    const left: number[] = [];
    let retryable: Failure | undefined;
    this.#pending.forEach((i, n) => {
      const { status, problem, record, deleted = false } = got[n]!;
      if (!problem) {
        this.#results[i] = { id: this.#ids[i]!, created: status === 201, deleted, ...(record && { record }) };
        return;
      }
      let failure = failureOf(status, problem);
      if (whole) failure = { ...failure, requestId: whole.requestId ?? "", retryAfterMs: whole.retryAfterMs ?? 0 };
      if (isUnsure(failure)) this.#unsure.add(i);
      if (isMismatch(failure) && this.#unsure.has(i)) failure = asUnknown(failure);
      if (failure.retryable) {
        left.push(i);
        retryable = failure;
      } else {
        this.#fail(i, failure, 1);
      }
    });
    this.#pending = left;
    this.#encode();
    return retryable ? { failure: retryable } : { value: undefined };
  }
}
