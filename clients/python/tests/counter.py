"""Increments the attribute n of an entity: counter.py sync|async URL ID WORKERS INCREMENTS.

Each worker makes this many increments. A worker repeats a call that gave up, but not one whose
outcome is unknown. It prints what became of the increments.
"""

from __future__ import annotations

import asyncio
import collections
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import sluice_client as sluice

CONFIG = sluice.Config(share=1)


def increment(entity: sluice.Entity) -> dict[str, int]:
    return {"n": entity.attributes["n"] + 1}


class Tally(collections.Counter):
    """What became of increments."""

    def failed(self, error: sluice.Error) -> None:
        if isinstance(error, sluice.UnknownOutcomeError):
            self["unknown"] += 1
        elif error.retryable:
            self["repeated"] += 1
        else:
            raise error

    @property
    def made(self) -> int:
        return self["acknowledged"] + self["unknown"]


def run_sync(url: str, entity: str, workers: int, increments: int) -> list[Tally]:
    def work(_: int) -> Tally:
        tally = Tally()
        while tally.made < increments:
            try:
                client.update(entity, increment)
                tally["acknowledged"] += 1
            except sluice.Error as error:
                tally.failed(error)
        return tally

    with sluice.Client(url, config=CONFIG) as client, ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, range(workers)))


async def run_async(url: str, entity: str, workers: int, increments: int) -> list[Tally]:
    async def work() -> Tally:
        tally = Tally()
        while tally.made < increments:
            try:
                await client.update(entity, increment)
                tally["acknowledged"] += 1
            except sluice.Error as error:
                tally.failed(error)
        return tally

    async with sluice.AsyncClient(url, config=CONFIG) as client:
        return list(await asyncio.gather(*(work() for _ in range(workers))))


def main() -> None:
    mode, url, entity, workers, increments = sys.argv[1:]
    if mode == "sync":
        tallies = run_sync(url, entity, int(workers), int(increments))
    else:
        tallies = asyncio.run(run_async(url, entity, int(workers), int(increments)))
    total = Tally()
    for tally in tallies:
        total.update(tally)
    print(json.dumps(total))


main()
