// Runs programs of the conformance suite, on Node and in a page.

import * as sluice from "sluice-client";

// call makes a call of a program, and returns its result in a form that is the same for all clients.
async function call(client, { call, args: given }) {
  const args = withDates(given);
  const { id, records, since, ...rest } = args;
  switch (call) {
    case "create_entity":
    case "create_event":
      return client[method(call)](args);
    case "upsert_entities":
    case "create_events":
      return client[method(call)](records.map(withDates));
    case "update_entity":
      return client.updateEntity(id, args.attributes, revisionOf(args));
    case "delete_entity":
      return client.deleteEntity(id, revisionOf(args));
    case "update":
      return client.update(id, increment(args.increment));
    case "create_export_job":
      return client.createExportJob(args.resource, exportOptions(args));
    case "download_export":
      return textOf(client.downloadExport(id, args));
    case "left_files":
      return client.leftFiles(id, since);
    case "list_entities":
      return client.listEntities(args);
    case "entities":
    case "events":
    case "export_jobs":
      return all(client[method(call)](args));
    case "changes":
    case "new_events": {
      const walk = client[method(call)]({ since, ...rest });
      return { data: await all(walk), synced_until: walk.syncedUntil };
    }
    case "source":
      return client.source();
    default:
      return client[method(call)](id); // get_entity, wait_for_export_job and others that take an id
  }
}

const method = (call) => call.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

const revisionOf = ({ if_revision }) => (if_revision === undefined ? {} : { if_revision });

// increment returns a function that adds one to an attribute; "" stands for no change.
const increment = (name) => (entity) => (name ? { [name]: entity.attributes[name] + 1 } : null);

function exportOptions({ resource: _, since, until, ...options }) {
  return { ...options, ...(since && { from: since }), ...(until && { to: until }) };
}

function withDates(args) {
  const times = ["since", "until", "occurred_at"].filter((name) => name in args);
  return { ...args, ...Object.fromEntries(times.map((name) => [name, new Date(args[name])])) };
}

// textOf is like Response.text, which hides why a stream has failed in Chromium.
async function textOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
  }
}

async function all(records) {
  const found = [];
  for await (const record of records) found.push(record);
  return found;
}

const kinds = {
  NotFoundError: "not found",
  ConflictError: "conflict",
  RateLimitError: "refused",
  QuotaError: "over quota",
  RevisionMismatchError: "revision mismatch",
  UnknownOutcomeError: "unknown outcome",
};

function problem(e) {
  return {
    kind: kinds[e.name] ?? "error",
    route: e.route,
    tries: e.tries,
    status: e.status,
    code: e.code,
    fields: e.fields.map((f) => `${f.field} ${f.detail}`),
    retry_after: Math.floor(e.retryAfterMs / 1000),
    request_id: e.requestId,
    retryable: e.retryable,
    current_revision: e.currentRevision ?? 0,
    ...(e.quota && { quota: e.quota, quota_ends: e.quotaEnds / 1000 }),
    text: e.message,
  };
}

// plain returns a result in a form that is the same for all clients.
function plain(value) {
  if (value instanceof sluice.SluiceError) return problem(value);
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object" || value instanceof Date || value instanceof sluice.ExactNumber)
    return value ?? null;
  const members = Object.entries(value).filter(([, v]) => v !== undefined);
  return Object.fromEntries(members.map(([name, v]) => [name, plain(v)]));
}

async function result(client, one) {
  try {
    const got = plain(await call(client, one));
    if (one.call === "list_entities") {
      const { data, next_cursor, index } = got;
      return { data, next_cursor, ...(index && { index }) };
    }
    if (one.call === "upsert_entities" || one.call === "create_events") return got.map(batchResult);
    return got;
  } catch (error) {
    if (!(error instanceof sluice.SluiceError)) throw error;
    return { error: { ...problem(error), results: plain(error.results).map(batchResult) } };
  }
}

function batchResult({ id: _, deleted, ...others }) {
  return { ...others, ...(deleted && { deleted }) };
}

async function runProgram({ url, key, config: { max_tries, max_elapsed, try_timeout, share }, together, calls }) {
  const ms = (seconds) => (seconds === undefined ? undefined : seconds * 1000);
  const bounds = { maxTries: max_tries, maxElapsedMs: ms(max_elapsed), tryTimeoutMs: ms(try_timeout), share };
  const client = new sluice.Client(url, { key, minBackoffMs: 1, ...bounds });
  if (together) return Promise.all(calls.map((one) => result(client, one)));
  const results = [];
  for (const one of calls) results.push(await result(client, one));
  return results;
}

// run runs programs, given and returned as JSON, so many at a time.
export async function run(input, atATime) {
  const programs = sluice.parseJSON(input);
  const results = [];
  const left = programs.entries();
  const work = async () => {
    for (const [i, program] of left) results[i] = await runProgram(program);
  };
  await Promise.all(Array.from({ length: atATime }, work));
  return sluice.stringifyJSON(results);
}

// otherOrigin uses a service whose origin is not that of the page.
export async function otherOrigin(url, key) {
  const client = new sluice.Client(url, { key });
  const [, created] = await client.createEntity({ id: "ada", attributes: { n: 2n ** 64n } });
  const { revision } = await client.update("ada", ({ attributes }) => ({ n: attributes.n + 1n }));
  const failure = await client.getEntity("nobody").catch((error) => `${error.name} ${error.status} ${error.code}`);
  const source = await client.source();

  const [job] = await client.createExportJob("entity");
  await client.waitForExportJob(job.id);
  const text = await textOf(client.downloadExport(job.id).pipeThrough(new DecompressionStream("gzip")));
  const whole = await new Response(client.downloadExport(job.id)).arrayBuffer();
  const rest = await new Response(client.downloadExport(job.id, { offset: 10 })).arrayBuffer();

  const changes = await all(client.changes({ since: new Date(0) }));
  const n = String(changes.at(-1).entity.attributes.n);
  return [
    created,
    revision,
    failure,
    source.split("/")[1],
    text.split("\n").length,
    whole.byteLength - rest.byteLength,
    n,
  ];
}
