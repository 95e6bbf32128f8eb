"""The pacer decides like the Go client's pacer, whose tests write the traces."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

from sluice_client._pace import Pacer, Turn, costs_of

TRACES = Path(__file__).parents[3] / "pkg/client/testdata/pace.json"


def traces() -> list[dict]:
    decoder, text, found, at = json.JSONDecoder(), TRACES.read_text(), [], 0
    while at < len(text):
        trace, end = decoder.raw_decode(text, at)
        found.append(trace)
        at = end + 1
    return found


def ask(pacer: Pacer, step: dict) -> tuple[Turn, dict]:
    """Ask to send the request of a step, and return what the pacer decides."""
    costs = costs_of(step["route"], step["class"], step.get("records", 0))
    turn = Turn(costs, lambda: None)
    pacer.join(turn)
    if quota := pacer.over_quota(turn, step["now"]):
        pacer.withdraw(turn)
        return turn, {"quota": quota.policy}
    wait = pacer.admit(turn, step["now"])
    if wait == 0:
        return turn, {"costs": [c.amount for c in costs]}
    asked = pacer.asked(turn, step["now"])
    pacer.withdraw(turn)
    return turn, {"wait": wait, "asked": asked}


class Pacing(unittest.TestCase):
    def test_traces(self) -> None:
        found = traces()
        self.assertEqual(3, len(found))
        for trace in found:
            pacer, turns = Pacer(trace["share"], trace["rate"]), []
            for n, step in enumerate(trace["steps"]):
                turn = None
                if "of" in step:
                    headers = {k.lower(): v for k, v in (step.get("headers") or {}).items()}
                    pacer.leave(turns[step["of"] - 1], step["now"], step.get("status", 0), headers)
                else:
                    turn, got = ask(pacer, step)
                    want = {k: step.get(k, 0) for k in got}
                    # Before the first response, a wait has no fixed length, so the trace has none.
                    if {"quota", "wait", "costs"} & (step.keys() | got.keys() - {"wait"}):
                        self.assertEqual(want, got, f"step {n} of share {trace['share']}: {step}")
                turns.append(turn)


if __name__ == "__main__":
    unittest.main()
