// Calls that take several requests: waiting for jobs, downloads, and the files left after an erasure.
// And source, whose result is not in a body.

import { lost, Retries, sleep, type Engine, type Options, type Read, type Request } from "./engine.js";
import { errorOf, NotFoundError, retryAfterMs, type Failure } from "./errors.js";
import type { Client } from "./client.js";
import type { ErasureJob, ExportJob } from "./records.js";

/** What the calls that wait for a job take. */
export interface WaitOptions<J> extends Options {
  /** Called with the job after each poll. */
  seen?: (job: J) => void;
}

// The first and the longest interval between two polls of a job.
const minPoll = 100;
const maxPoll = 2000;

const ended = ({ status }: ExportJob | ErasureJob): boolean =>
  status === "succeeded" || status === "failed" || status === "cancelled";

/** Polls a job until it has ended. */
export async function waitFor<J extends ExportJob | ErasureJob>(
  get: () => Promise<J>,
  { seen, signal }: WaitOptions<J>,
): Promise<J> {
  for (let pause = minPoll; ; pause = Math.min(2 * pause, maxPoll)) {
    const job = await get();
    seen?.(job);
    if (ended(job)) return job;
    await sleep(pause, signal);
  }
}

/** Yields the bytes of an export job's file. After an interruption, it continues with a new link. */
export async function* download(
  client: Client,
  engine: Engine,
  id: string,
  offset: number,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array, undefined> {
  const retries = new Retries(engine.config);
  for (let at = offset; ;) {
    const job = await client.getExportJob(id, { signal });
    const size = fileSize(job, at);
    const part = new Part(engine, at, size);
    const before = at;
    for await (const chunk of part.read(job.download_url ?? "", retries.patience(), signal)) {
      at += chunk.length;
      yield chunk;
    }
    if (at === size) return undefined;
    if (at > before) retries.restart();
    const failure: Failure = {
      status: part.status,
      ...(part.failure ?? { detail: "the download ended too early", retryable: true }),
    };
    const wait = retries.failed(failure);
    if (wait === undefined) throw errorOf(failure, "download", retries.count);
    await sleep(wait, signal);
  }
}

/** Returns the size of the job's file. It throws if the file cannot be read from the offset. */
function fileSize(job: ExportJob, offset: number): number {
  const { status, size_bytes: size } = job;
  let detail: string;
  if (status !== "succeeded") {
    detail = `the export job is ${status}, so there is no file`;
  } else if (job.error) {
    detail = job.error;
  } else if (job.file_deleted_at) {
    detail = `the file was deleted at ${job.file_deleted_at.toISOString()}`;
  } else if (!job.download_url || size === null) {
    detail = "the export job has no link to a file";
  } else if (!(offset >= 0 && offset <= size)) {
    detail = `the file has ${size} bytes, so it cannot be read from byte ${offset}`;
  } else {
    return size;
  }
  throw errorOf({ detail }, "download", 0);
}

/** The part of a file that one request returns. */
class Part {
  status = 0;
  failure: Failure | undefined; // why the part is not complete

  constructor(
    readonly engine: Engine,
    readonly start: number,
    readonly size: number,
  ) {}

  /** Yields the bytes. patience is how long it waits for the first one. It throws only signal.reason. */
  async *read(link: string, patience: number, signal?: AbortSignal): AsyncGenerator<Uint8Array, undefined> {
    if (this.start === this.size) return undefined;
    const stop = new AbortController();
    let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
    const abort = (): void => {
      stop.abort(signal?.reason);
    };
    signal?.addEventListener("abort", abort);
    const arrived = async <T>(what: Promise<T>, ms: number): Promise<T> => {
      const timer = setTimeout(() => {
        stop.abort(new Error("no data arrived for too long"));
      }, ms);
      return await what.finally(() => {
        clearTimeout(timer);
      });
    };
    try {
      signal?.throwIfAborted();
      const { fetch, userAgent, tryTimeoutMs } = this.engine.config;
      // The link may lead to another host, which must not receive the API key.
      const headers = {
        "Accept-Encoding": "identity",
        ...(userAgent && { "User-Agent": userAgent }),
        ...(this.start > 0 && { Range: `bytes=${this.start}-` }),
      };
      const response = await arrived(fetch(link, { headers, redirect: "manual", signal: stop.signal }), patience);
      reader = response.body?.getReader();
      this.#check(response);
      if (this.failure || !reader) return undefined;
      let skip = response.status === 200 ? this.start : 0; // the server does not support ranges
      for (let left = this.size - this.start; left > 0;) {
        const { done, value } = await arrived(reader.read(), tryTimeoutMs);
        if (done) break;
        const chunk = value.subarray(skip, skip + left);
        skip = Math.max(skip - value.length, 0);
        left -= chunk.length;
        if (chunk.length > 0) yield chunk;
      }
    } catch (cause) {
      signal?.throwIfAborted();
      this.failure = lost(stop.signal.aborted ? stop.signal.reason : cause);
    } finally {
      signal?.removeEventListener("abort", abort);
      reader?.cancel().catch(() => undefined); // closes the connection if something is left
    }
    return undefined;
  }

  #check({ status, headers }: Response): void {
    this.status = status;
    const want = `bytes ${this.start}-${this.size - 1}/${this.size}`;
    const got = headers.get("content-range") ?? "";
    if (status === 206 && got !== want) {
      this.failure = { detail: `the server sent the range "${got}", not "${want}"` };
    } else if (status !== 200 && status !== 206) {
      this.failure = { detail: `the link returned no file: status ${status}` };
    }
    if (this.failure) this.failure = { ...this.failure, retryable: true, retryAfterMs: retryAfterMs(headers) };
  }
}

/** Returns a stream of what chunks yields. */
export function streamOf(chunks: AsyncGenerator<Uint8Array, undefined>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await chunks.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Returns when an entity or its first event came to be; undefined if the entity does not exist. */
export async function heldSince(client: Client, id: string, options: Options): Promise<Date | undefined> {
  let entity;
  try {
    entity = await client.getEntity(id, options);
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
  // The first event is the one that occurred first. Others may have been stored before it, but
  // hardly before it occurred.
  const first = await client.listEvents({ entity_id: id, ascending: true, limit: 1, ...options });
  const times = [entity.created_at, ...first.data.flatMap((e) => [e.created_at, e.occurred_at])];
  return times.reduce((a, b) => (b < a ? b : a));
}

/** Returns the export jobs whose files may hold what came to be at a time or later. */
export async function leftFiles(
  client: Client,
  id: string,
  since: Date | undefined,
  options: Options,
): Promise<ExportJob[]> {
  const left: ExportJob[] = [];
  for await (const job of client.exportJobs({ limit: 200, ...options })) {
    if (since && job.created_at < since) break; // and so are the others
    const hasFile = job.status === "succeeded" && job.error === null && job.file_deleted_at === null;
    if ((hasFile || !ended(job)) && (job.filters.entity_id ?? id) === id) left.push(job);
  }
  return left;
}

/** Returns the source of the records. Later calls fail if a response has another source. */
export async function source(engine: Engine, options: Options): Promise<string> {
  const request: Request = { route: "list-export-job", class: "general", path: "/export_job", query: { limit: 1 } };
  const read: Read<string> = ({ headers }, failure) => {
    const found = headers.get("sluice-source");
    const { status = 0, retryable = false } = failure ?? {};
    // The key need not have the scope of the route.
    if (found && (!failure || (status >= 300 && status < 500 && !retryable))) return { value: found };
    const detail =
      "the response has no Sluice-Source: is a proxy removing it, or does the service at this URL lack it?";
    return { failure: failure ?? { detail } };
  };
  const found = await engine.call(request, read, options);
  engine.keepSource(found);
  return found;
}
