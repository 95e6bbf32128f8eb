"""Runs a Python client for the benchmark: workers.py CLIENT TASK URL SHARE < key > result.

CLIENT is sync, async or requests (the package requests with urllib3's retries). Four workers
share the client. TASK is pace (reads, then small batches) or move (an import of events,
then an export of them). The result is JSON.
"""

import asyncio
import gzip
import io
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

WORKERS = 4
READS, BATCHES, SMALL = 2000, 500, 10
EVENTS, LARGE = 100_000, 100
tries = []


def drafts(size, number):
    return [
        {"id": f"e-{number}-{i}", "name": "n", "entity_id": f"c-{i % 10}", "attributes": {"n": i, "total": i + 0.5}}
        for i in range(size)
    ]


def each(calls, one):
    """Call one(i) for every i below calls, from four threads."""
    left, lock = iter(range(calls)), threading.Lock()

    def work():
        while True:
            with lock:
                i = next(left, None)
            if i is None:
                return
            one(i)

    with ThreadPoolExecutor(WORKERS) as pool:
        for done in [pool.submit(work) for _ in range(WORKERS)]:
            done.result()


async def each_async(calls, one):
    left = iter(range(calls))

    async def work():
        for i in left:
            await one(i)

    await asyncio.gather(*(work() for _ in range(WORKERS)))


def count(file):
    """Decode the records of an export and return their number."""
    with gzip.open(io.BytesIO(file)) as lines:
        return sum(1 for line in lines if json.loads(line)["id"])


def moved(began, imported, exported, found):
    assert found == EVENTS, found
    return {"import": EVENTS / (imported - began), "export": EVENTS / (exported - imported)}


def check(results):
    assert not any(r.error for r in results), results


def run_sync(sluice, task, url, key, config):
    def events(size, i):
        return [sluice.NewEvent(**d) for d in drafts(size, i)]

    with sluice.Client(url, key, config) as client:
        if task == "pace":
            client.create_entity(sluice.NewEntity("one"))
            each(READS, lambda _: client.get_entity("one"))
            each(BATCHES, lambda i: check(client.create_events(events(SMALL, i))))
            return {}
        began = time.monotonic()
        each(EVENTS // LARGE, lambda i: check(client.create_events(events(LARGE, i))))
        imported = time.monotonic()
        job, _ = client.create_export_job("event")
        client.wait_for_export_job(job.id)
        file = io.BytesIO()
        client.download_export(job.id, file)
        found = count(file.getvalue())
        return moved(began, imported, time.monotonic(), found)


async def run_async(sluice, task, url, key, config):
    async def create(client, size, i):
        check(await client.create_events([sluice.NewEvent(**d) for d in drafts(size, i)]))

    async with sluice.AsyncClient(url, key, config) as client:
        if task == "pace":
            await client.create_entity(sluice.NewEntity("one"))
            await each_async(READS, lambda _: client.get_entity("one"))
            await each_async(BATCHES, lambda i: create(client, SMALL, i))
            return {}
        began = time.monotonic()
        await each_async(EVENTS // LARGE, lambda i: create(client, LARGE, i))
        imported = time.monotonic()
        job, _ = await client.create_export_job("event")
        await client.wait_for_export_job(job.id)
        file = io.BytesIO()
        await client.download_export(job.id, file)
        found = count(file.getvalue())
        return moved(began, imported, time.monotonic(), found)


def run_requests(url, key):
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    class Counting(Retry):
        def increment(self, *args, response=None, **named):
            if response is not None:
                tries.append(("", response.status, time.time()))
            return super().increment(*args, response=response, **named)

    retry = Counting(
        total=20, backoff_factor=0.2, backoff_jitter=0.2, status_forcelist=[429, 502, 503, 504], allowed_methods=None
    )
    session = requests.Session()
    session.headers["Authorization"] = "Bearer " + key
    session.mount(url, HTTPAdapter(max_retries=retry, pool_maxsize=WORKERS))

    def call(method, path, body=None):
        response = session.request(method, url + path, json=body, timeout=15)
        response.raise_for_status()
        return response.json()

    began = time.monotonic()
    each(EVENTS // LARGE, lambda i: call("POST", "/create_events", {"events": drafts(LARGE, i)}))
    imported = time.monotonic()
    job = call("POST", "/create_export_job", {"resource": "event", "format": "ndjson"})
    while job["status"] != "succeeded":
        time.sleep(0.1)
        job = call("GET", "/export_job/" + job["id"])
    found = count(requests.get(job["download_url"], timeout=15).content)
    return moved(began, imported, time.monotonic(), found)


def main():
    client, task, url, share = sys.argv[1:]
    key = sys.stdin.readline().strip()
    if client == "requests":
        result = run_requests(url, key)
    else:
        import sluice_client as sluice

        config = sluice.Config(share=float(share), on_try=lambda t: tries.append((t.route, t.status, time.time())))
        if client == "sync":
            result = run_sync(sluice, task, url, key, config)
        else:
            result = asyncio.run(run_async(sluice, task, url, key, config))
    usage = time.process_time()
    result["tries"] = [{"route": r, "status": s, "at": at} for r, s, at in tries]
    json.dump(result | {"cpu": usage}, sys.stdout)


main()
