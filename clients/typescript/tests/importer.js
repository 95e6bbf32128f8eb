// Creates 40 single events and 3 batches of 100 with 4 workers: importer.js URL < key.
//
// The events have no ids, so the client creates them. The third request of each call must succeed.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Client } from "sluice-client";

const tries = [0, 0, 0];
const client = new Client(process.argv[2], {
  key: readFileSync(0, "utf8").trim(),
  maxTries: tries.length,
  minBackoffMs: 1,
  onTry: ({ number }) => tries[number - 1]++,
});

const calls = [
  ...Array.from({ length: 40 }, () => () => client.createEvent({ name: "single" })),
  ...Array.from({ length: 3 }, () => async () => {
    const results = await client.createEvents(Array.from({ length: 100 }, () => ({ name: "batch" })));
    assert(results.every(({ error, record }) => !error && record));
  }),
];
const left = calls.values();
await Promise.all(
  Array.from({ length: 4 }, async () => {
    for (const call of left) await call();
  }),
);
assert.deepEqual(tries, [calls.length, calls.length, calls.length]);
