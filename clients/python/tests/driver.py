"""Runs the programs of the conformance suite: driver.py sync|async N < programs > results.

It runs N programs at a time.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import sluice_client as sluice


def arguments(call: str, args: dict) -> tuple[list, dict]:
    """Convert the arguments in a program to the arguments of a client method."""
    args = dict(args)
    for name in ("since", "until", "occurred_at", "expires_at"):
        if name in args:
            args[name] = datetime.fromisoformat(args[name].replace("Z", "+00:00"))
    if call in ("create_entity", "create_event"):
        return [new(call, args)], {}
    if call in ("upsert_entities", "create_events"):
        return [[new(call, arguments("", r)[1]) for r in args["records"]]], {}
    if call == "update_entity":
        return [args.pop("id"), args.pop("attributes")], args
    if call == "update":
        return [args["id"], increment(args["increment"])], {}
    if call == "download_export":
        return [args["id"], io.BytesIO(), args.get("offset", 0)], {}
    if call == "left_files":
        return [args["id"], args.get("since")], {}
    if "where" in args:
        where = args["where"]
        one = isinstance(where, dict)
        args["where"] = sluice.Where(**where) if one else [sluice.Where(**each) for each in where]
    return [], args


def increment(name: str) -> Callable[[sluice.Entity], dict | None]:
    """Return a function that adds one to an attribute; "" stands for no change."""
    return lambda entity: {name: entity.attributes[name] + 1} if name else None


def new(call: str, args: dict) -> sluice.NewEntity | sluice.NewEvent:
    return (sluice.NewEvent if "event" in call else sluice.NewEntity)(**args)


def plain(value: object) -> object:
    """Return a result as JSON values, in a form that is the same for all clients."""
    if isinstance(value, sluice.Error):
        return error(value)
    if isinstance(value, datetime):
        assert value.tzinfo is not None
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, sluice.BatchResult):
        members = {
            "created": value.created,
            "record": value.record,
            "error": value.error,
            "deleted": value.deleted or None,
        }
        return {k: plain(v) for k, v in members.items() if v is not None}
    if isinstance(value, sluice.Change):
        members = dataclasses.asdict(value)
        members["entity"] = value.entity
        return {k: plain(v) for k, v in members.items() if v is not None}
    if dataclasses.is_dataclass(value):
        members = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        for f in dataclasses.fields(value):
            if members[f.name] is None and f.default is None:  # the response has no such member
                del members[f.name]
        return {k: plain(v) for k, v in members.items()}
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


KINDS = {
    sluice.NotFoundError: "not found",
    sluice.ConflictError: "conflict",
    sluice.RateLimitError: "refused",
    sluice.QuotaError: "over quota",
    sluice.RevisionMismatchError: "revision mismatch",
    sluice.UnknownOutcomeError: "unknown outcome",
}


def error(e: sluice.Error) -> dict:
    return {
        "kind": KINDS.get(type(e), "error"),
        "route": e.route,
        "tries": e.tries,
        "status": e.status,
        "code": e.code,
        "fields": [f"{f.field} {f.detail}" for f in e.errors],
        "retry_after": int(e.retry_after),
        "request_id": e.request_id,
        "retryable": e.retryable,
        "current_revision": e.current_revision or 0,
        "text": str(e),
    } | (
        {"quota": e.quota, "quota_ends": int(e.quota_ends.timestamp())}
        if isinstance(e, sluice.QuotaError)
        else {}
    )


def failed(e: sluice.Error) -> dict:
    return {"error": error(e) | {"results": plain(list(e.results))}}


def finish(call: str, result: object, args: list) -> object:
    return args[1].getvalue().decode() if call == "download_export" else plain(result)


def walked(call: str, records: list, synced_until: datetime | None) -> object:
    if call in ("changes", "new_events"):
        return {"data": plain(records), "synced_until": plain(synced_until)}
    return plain(records)


def config(program: dict) -> sluice.Config:
    return sluice.Config(min_backoff=0.001, **program["config"])


def run_sync(program: dict) -> list:
    def one(call: dict) -> object:
        try:
            positional, named = arguments(call["call"], call["args"])
            got = getattr(client, call["call"])(*positional, **named)
            if isinstance(got, sluice.Records):
                return walked(call["call"], list(got), got.synced_until)
            return finish(call["call"], got, positional)
        except sluice.Error as e:
            return failed(e)

    with sluice.Client(program["url"], program["key"], config(program)) as client:
        if program["together"]:
            with ThreadPoolExecutor(len(program["calls"])) as pool:
                return list(pool.map(one, program["calls"]))
        return [one(call) for call in program["calls"]]


async def run_async(program: dict) -> list:
    async def one(call: dict) -> object:
        try:
            positional, named = arguments(call["call"], call["args"])
            got = getattr(client, call["call"])(*positional, **named)
            if isinstance(got, sluice.AsyncRecords):
                return walked(call["call"], [r async for r in got], got.synced_until)
            return finish(call["call"], await got, positional)
        except sluice.Error as e:
            return failed(e)

    async with sluice.AsyncClient(program["url"], program["key"], config(program)) as client:
        if program["together"]:
            return list(await asyncio.gather(*(one(call) for call in program["calls"])))
        return [await one(call) for call in program["calls"]]


async def run_all(programs: list, at_a_time: int) -> list:
    room = asyncio.Semaphore(at_a_time)

    async def run(program: dict) -> list:
        async with room:
            return await run_async(program)

    return list(await asyncio.gather(*(run(p) for p in programs)))


def main() -> None:
    programs = json.load(sys.stdin)
    mode, at_a_time = sys.argv[1], int(sys.argv[2])
    if mode == "sync":
        with ThreadPoolExecutor(at_a_time) as pool:
            results = list(pool.map(run_sync, programs))
    else:
        results = asyncio.run(run_all(programs, at_a_time))
    json.dump(results, sys.stdout)


main()
