"""Creates 40 single events and 3 batches of 100 with 4 workers: importer.py sync|async URL < key.

The events have no ids, so the client creates them. The third request of each call must succeed.
"""

from __future__ import annotations

import asyncio
import collections
import sys
from concurrent.futures import ThreadPoolExecutor

import sluice_client as sluice

MAX_TRIES = 3
tries: list[sluice.Try] = []  # threads can safely append to a list, but not add to a counter

CONFIG = sluice.Config(max_tries=MAX_TRIES, min_backoff=0.001, on_try=tries.append)
SINGLE = [sluice.NewEvent("single")] * 40
BATCHES = [[sluice.NewEvent("batch")] * 100] * 3


def check(results: list[sluice.BatchResult[sluice.Event]]) -> None:
    assert all(r.error is None and r.record for r in results), results


def run_sync(url: str, key: str) -> None:
    with sluice.Client(url, key, CONFIG) as client, ThreadPoolExecutor(4) as pool:
        list(pool.map(client.create_event, SINGLE))
        for results in pool.map(client.create_events, BATCHES):
            check(results)


async def run_async(url: str, key: str) -> None:
    async with sluice.AsyncClient(url, key, CONFIG) as client:
        room = asyncio.Semaphore(4)

        async def create(events: list[sluice.NewEvent]) -> None:
            async with room:
                if len(events) == 1:
                    await client.create_event(events[0])
                else:
                    check(await client.create_events(events))

        await asyncio.gather(*(create([e]) for e in SINGLE), *map(create, BATCHES))


def main() -> None:
    mode, url = sys.argv[1:]
    key = sys.stdin.readline().strip()
    if mode == "sync":
        run_sync(url, key)
    else:
        asyncio.run(run_async(url, key))
    calls = len(SINGLE) + len(BATCHES)
    numbers = collections.Counter(t.number for t in tries)
    assert numbers == {1: calls, 2: calls, 3: calls}, numbers


main()
