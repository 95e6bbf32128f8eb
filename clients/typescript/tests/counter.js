// Increments the attribute n of an entity: counter.js URL ID WORKERS INCREMENTS.
//
// Each worker makes this many increments. A worker repeats a call that gave up, but not one whose
// outcome is unknown. It prints what became of the increments.

import { Client, SluiceError, UnknownOutcomeError } from "sluice-client";

const [url, id, workers, increments] = process.argv.slice(2);
const client = new Client(url, { share: 1 });
const tally = { acknowledged: 0, unknown: 0, repeated: 0 };

async function increment() {
  try {
    await client.update(id, ({ attributes }) => ({ n: attributes.n + 1 }));
    tally.acknowledged++;
  } catch (error) {
    if (error instanceof UnknownOutcomeError) {
      tally.unknown++;
    } else if (error instanceof SluiceError && error.retryable) {
      tally.repeated++;
      await increment();
    } else {
      throw error;
    }
  }
}

async function work() {
  for (let i = 0; i < increments; i++) await increment();
}

await Promise.all(Array.from({ length: Number(workers) }, work));
console.log(JSON.stringify(tally));
