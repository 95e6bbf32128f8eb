// The pacer decides like the Go client's pacer, whose tests write the traces: TRACES is their file.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { costsOf, Pacer } from "./node_modules/sluice-client/dist/pace.js";

const ms = (nanoseconds = 0) => nanoseconds / 1e6;
const close = (got, want, step) => assert(Math.abs(got - ms(want)) < 0.001, `${got}, want ${ms(want)}: ${step}`);

function ask(pacer, step, text) {
  const turn = { costs: costsOf(step.route, step.class, step.records ?? 0), wake: () => undefined, sent: -1 };
  pacer.join(turn);
  const quota = pacer.overQuota(turn, ms(step.now));
  assert.equal(quota?.policy, step.quota, text);
  if (quota) {
    pacer.withdraw(turn);
    return undefined;
  }
  const wait = pacer.admit(turn, ms(step.now));
  if (wait === 0) {
    assert.deepEqual(
      turn.costs.map(({ amount }) => amount),
      step.costs,
      text,
    );
    return turn;
  }
  assert.equal(step.costs, undefined, text);
  // Before the first response, a wait has no fixed length, so the trace has none.
  if (step.wait) {
    close(wait, step.wait, text);
    close(pacer.asked(turn, ms(step.now)), step.asked, text);
  }
  pacer.withdraw(turn);
  return undefined;
}

test("the pacer decides as in the traces", () => {
  const traces = readFileSync(process.env.TRACES, "utf8")
    .split(/\n(?=\{"share")/)
    .map((text) => JSON.parse(text));
  assert.equal(traces.length, 3);
  for (const { share, rate, steps } of traces) {
    const pacer = new Pacer(share, rate);
    const turns = [];
    steps.forEach((step, n) => {
      if (step.of) pacer.leave(turns[step.of - 1], ms(step.now), step.status ?? 0, new Headers(step.headers ?? {}));
      else turns[n] = ask(pacer, step, `step ${n} of share ${share}: ${JSON.stringify(step)}`);
    });
  }
});
