// Tests what only the TypeScript client has. The conformance suite tests everything else.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, ExactNumber, parseJSON, SluiceError, stringifyJSON } from "sluice-client";

const at = "2026-01-02T15:04:05.678Z";
const event = { id: "e1", name: "n", entity_id: null, occurred_at: at, attributes: {}, created_at: at };

// service returns a client whose requests get what respond returns, as JSON.
function service(respond, config) {
  const fetch = async (url, init) => {
    const got = await respond(new URL(url), init);
    return got instanceof Response ? got : new Response(JSON.stringify(got));
  };
  return new Client("http://service", { fetch, minBackoffMs: 0, ...config });
}

test("numbers keep their values", () => {
  const digits = "9".repeat(400);
  const text = `{"a":9007199254740993,"b":[-9007199254740993,1.5],"c":1e400,"d":${digits},"e":"9007199254740993","\\"9007199254740993":9007199254740991}`;
  const got = parseJSON(text);
  assert.deepEqual(got, {
    a: 9007199254740993n,
    b: [-9007199254740993n, 1.5],
    c: new ExactNumber("1e400"),
    d: BigInt(digits),
    e: "9007199254740993",
    '"9007199254740993': 9007199254740991,
  });
  assert.equal(stringifyJSON(got), text);
  assert.throws(() => new ExactNumber("1,5"), /JSON has no number 1,5/);
});

test("what JSON cannot represent is not sent", async () => {
  const client = service(() => assert.fail("a request was sent"));
  await assert.rejects(client.createEvent({ name: "n", attributes: { a: NaN } }), /JSON has no number NaN/);
  await assert.rejects(client.createEvent({ name: "n", occurred_at: new Date(NaN) }), /JSON has no time/);
  const [result] = await client.createEvents([{ name: "n", attributes: { a: Infinity } }]);
  assert.equal(result.error.code, "invalid_record");
  assert.match(result.error.message, /record 0 of the batch was not sent/);
});

test("a batch sends the records that JSON can represent", async () => {
  const client = service((_, { body }) => {
    const { events } = JSON.parse(body);
    assert.deepEqual(events, [{ name: "n", id: "b" }]);
    return { results: [{ index: 0, status: 201, event }] };
  });
  const results = await client.createEvents([
    { name: "n", id: "a", attributes: { a: NaN } },
    { name: "n", id: "b" },
  ]);
  assert.deepEqual(
    results.map(({ id, created, error }) => [id, created, error?.code]),
    [
      ["a", false, "invalid_record"],
      ["b", true, undefined],
    ],
  );
});

test("bad input is rejected", async () => {
  for (const url of ["", "localhost", "ftp://host", "http://u:p@host", "http://host?a=b"]) {
    assert.throws(() => new Client(url), TypeError);
  }
  for (const config of [
    { share: 1.1 },
    { share: NaN },
    { maxTries: 0 },
    { maxElapsedMs: Infinity },
    { maxBackoffMs: -1 },
  ]) {
    assert.throws(() => new Client("http://host", config), RangeError);
  }
  assert.throws(() => new Client("http://host", { key: "slc_ secret" }), /printable/);
  const client = service(() => assert.fail("a request was sent"));
  await assert.rejects(client.listEvents({ limit: 0 }), RangeError);
  await assert.rejects(client.listEntities({ type: "t", where: { attribute: "email" } }), /a bound of email/);
  const twice = [
    { attribute: "a", equal: 1 },
    { attribute: "a", equal: 2 },
  ];
  await assert.rejects(client.listEntities({ type: "t", where: twice }), /two conditions/);
});

test("tries are reported", async () => {
  const tries = [];
  const responses = [new Response("", { status: 500 }), event];
  const client = service(() => responses.shift(), {
    onTry: (t) => tries.push([t.route, t.number, t.status, t.error?.status]),
  });
  const got = await client.getEvent("e1");
  assert.deepEqual(got.occurred_at, new Date(at));
  assert.deepEqual(tries, [
    ["get-event", 1, 500, 500],
    ["get-event", 2, 200, undefined],
  ]);
});

test("errors hide the key", async () => {
  const client = service(() => Promise.reject(new TypeError("fetch failed")), { key: "slc_1_secret", maxTries: 1 });
  await assert.rejects(client.getEvent("e1"), (error) => {
    assert(error instanceof SluiceError);
    return !JSON.stringify(error).includes("secret") && error.cause.message === "fetch failed";
  });
});

test("an aborted call rejects with the reason and does not stop others", { timeout: 30_000 }, async () => {
  // Before the first response, the pacer sends one request at a time. The second call is aborted in
  // the line, and the first one while it waits for its response.
  let send;
  const sent = new Promise((resolve) => (send = resolve));
  const client = service((_, { signal }) => {
    if (!send) return event;
    send();
    send = undefined;
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  const controllers = [new AbortController(), new AbortController()];
  const calls = controllers.map(({ signal }) => client.getEvent("e1", { signal }));
  const last = client.getEvent("e1");
  await sent;
  for (const i of [1, 0]) {
    controllers[i].abort(new Error(`stop ${i}`));
    await assert.rejects(calls[i], new Error(`stop ${i}`));
  }
  assert.equal((await last).id, "e1");
  await assert.rejects(client.getEvent("e1", { signal: AbortSignal.abort(new Error("before")) }), /before/);
});

test("an abort ends the wait for the next try, and a download", { timeout: 30_000 }, async () => {
  const waiting = new AbortController();
  const busy = new Response("", { status: 503, headers: { "Retry-After": "50" } });
  const client = service(() => busy, { onTry: () => waiting.abort(new Error("stop")) });
  await assert.rejects(client.getEvent("e1", { signal: waiting.signal }), /stop/);

  const { signal } = waiting;
  await assert.rejects(new Response(client.downloadExport("j1", { signal })).text());
});

test("a walk can be left and continued, also after an error", async () => {
  const second = (n) => `2026-01-02T15:04:0${n}.000Z`;
  const pages = {
    "": { data: [event, event], next_cursor: "c1", synced_until: second(1) },
    c1: { data: [event], next_cursor: null, synced_until: second(2) },
  };
  let fails = true;
  const client = service((url) => {
    const cursor = url.searchParams.get("cursor") ?? "";
    if (cursor && fails) return new Response("", { status: 403 });
    return pages[cursor];
  });
  const walk = client.newEvents({ since: new Date(0) });
  for await (const _ of walk) break;
  assert.deepEqual([walk.cursor, walk.syncedUntil], [undefined, undefined]);
  await walk.next();
  assert.deepEqual(walk.syncedUntil, new Date(second(1)));
  await assert.rejects(walk.next(), /status 403/);
  fails = false;
  let left = 0;
  for await (const _ of walk) left++;
  assert.deepEqual([left, walk.cursor, walk.syncedUntil], [1, "c1", new Date(second(2))]);
});

test("a walk without end is left after five minutes", async (t) => {
  // Each page takes a minute and has one event, a minute later than the one before. The fifth page
  // passes the time at which the walk began. What is settled is not part of the chase.
  const began = Date.parse("2026-01-02T15:04:05Z");
  const minute = (n) => new Date(began + (n - 4) * 60_000).toISOString();
  let now = 0;
  t.mock.method(performance, "now", () => now);
  for (const [settled, pages] of [
    [3, 11],
    [59, 61],
  ]) {
    const start = now;
    const client = service((url) => {
      const n = Number(url.searchParams.get("cursor") ?? "0");
      now = start + n * 60_000;
      const page = {
        data: [{ ...event, created_at: minute(n) }],
        next_cursor: n < 60 ? `${n + 1}` : null,
        synced_until: minute(Math.min(n, settled)),
      };
      return new Response(JSON.stringify(page), { headers: { Date: new Date(began).toUTCString() } });
    });
    const walk = client.newEvents({ since: new Date(0) });
    let read = 0;
    for await (const _ of walk) read++;
    assert.deepEqual([read, walk.syncedUntil], [pages, new Date(minute(settled))]);
  }
});

test("a download is read as fast as it is needed, and can be left", async () => {
  const job = {
    id: "j1",
    status: "succeeded",
    error: null,
    file_deleted_at: null,
    size_bytes: 3,
    download_url: "http://files/f",
    filters: {},
  };
  let cancelled = false;
  let sent = 0;
  const file = () =>
    new ReadableStream(
      {
        pull: (controller) => controller.enqueue(new Uint8Array([sent++])),
        cancel: () => (cancelled = true),
      },
      { highWaterMark: 0 },
    );
  const client = service((url) => (url.host === "files" ? new Response(file()) : job));
  const reader = client.downloadExport("j1").getReader();
  assert.equal(sent, 0);
  assert.deepEqual((await reader.read()).value, new Uint8Array([0]));
  assert.equal(sent, 1);
  await reader.cancel();
  assert(cancelled);
});
