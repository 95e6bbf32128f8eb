"""Tests what only the Python client has. The conformance suite tests everything else."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
import unittest
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from email.utils import format_datetime
from types import MappingProxyType
from typing import Any
from unittest import mock

import httpx2

import sluice_client as sluice
from sluice_client import _json, _records

EVENT = {
    "id": "e1",
    "name": "n",
    "entity_id": None,
    "occurred_at": "2026-01-02T15:04:05.678Z",
    "attributes": {},
    "created_at": "2026-01-02T15:04:05.678Z",
}
ENTITY = {
    "id": "e1",
    "type": "t",
    "attributes": {},
    "created_at": "2026-01-02T15:04:05.678Z",
    "revision": 1,
    "updated_at": "2026-01-02T15:04:05.678Z",
}


def service(text: str) -> httpx2.MockTransport:
    return httpx2.MockTransport(lambda _: httpx2.Response(200, text=text))


class Records(unittest.TestCase):
    def stored(self, attributes: str, config: sluice.Config | None = None) -> sluice.Event:
        text = json.dumps(EVENT).replace('"attributes": {}', '"attributes": ' + attributes)
        with sluice.Client("http://service", config=config, transport=service(text)) as client:
            return client.get_event("e1")

    def test_numbers_keep_their_values(self) -> None:
        digits = "9" * 5000
        got = self.stored('{"a":9007199254740993,"b":1.5,"c":1e400,"d":' + digits + "}").attributes
        self.assertEqual(
            {"a": 2**53 + 1, "b": 1.5, "c": Decimal("1e400"), "d": Decimal(digits)}, got
        )
        self.assertEqual([int, float], [type(got["a"]), type(got["b"])])
        sent = _json.dumps(got).decode()
        self.assertEqual('{"a":9007199254740993,"b":1.5,"c":1E+400,"d":' + digits + "}", sent)

    def test_decimals_keep_their_digits(self) -> None:
        got = self.stored('{"price":[1.50,"x",{"é":true}]}', sluice.Config(parse_float=Decimal))
        self.assertEqual('{"price":[1.50,"x",{"é":true}]}', _json.dumps(got.attributes).decode())

    def test_attributes_may_be_any_mapping(self) -> None:
        attributes = MappingProxyType({"a": 1})
        self.assertEqual(
            {"a": 1}, _records.draft(sluice.NewEntity("e", None, attributes))["attributes"]
        )

    def test_times_are_aware_and_in_utc(self) -> None:
        at = self.stored("{}").occurred_at
        self.assertEqual(datetime(2026, 1, 2, 15, 4, 5, 678000, tzinfo=timezone.utc), at)
        self.assertEqual(timedelta(0), at.utcoffset())

    def test_a_time_of_the_year_0_does_not_make_a_list_unreadable(self) -> None:
        self.assertEqual(
            datetime(1, 1, 1, tzinfo=timezone.utc), _records.parse_time("0000-01-02T00:00:00.000Z")
        )


class BadInput(unittest.TestCase):
    def rejects(self, kind: type[Exception], says: str, make: Callable[[], object]) -> None:
        with self.assertRaises(kind) as caught:
            make()
        self.assertIn(says, str(caught.exception))

    def test_clients(self) -> None:
        for url in ("", "localhost:3000", "ftp://host"):
            self.rejects(ValueError, "like https://host", lambda url=url: sluice.Client(url))
        for url in ("http://u:p@host", "http://host?a=b"):
            self.rejects(ValueError, "no user, query", lambda url=url: sluice.AsyncClient(url))
        self.rejects(ValueError, "printable", lambda: sluice.Client("http://host", "slc_ secret"))
        self.rejects(ValueError, "share", lambda: sluice.Config(share=1.1))
        self.rejects(ValueError, "share", lambda: sluice.Config(share=float("nan")))
        self.rejects(ValueError, "max_tries", lambda: sluice.Config(max_tries=0))
        for bad in (float("inf"), float("nan")):
            self.rejects(ValueError, "finite", lambda bad=bad: sluice.Config(max_elapsed=bad))
            self.rejects(ValueError, "finite", lambda bad=bad: sluice.Config(max_backoff=bad))

    def test_records(self) -> None:
        def create(**members: object) -> None:
            with sluice.Client("http://service", transport=service("{}")) as client:
                client.create_event(sluice.NewEvent("n", **members))

        now = datetime.now()
        self.rejects(ValueError, "has no time zone", lambda: create(occurred_at=now))
        self.rejects(TypeError, "JSON has no datetime", lambda: create(attributes={"at": now}))
        self.rejects(ValueError, "not JSON compliant", lambda: create(attributes={"a": 1e999}))
        nan = Decimal("nan")
        self.rejects(ValueError, "no number NaN", lambda: create(attributes={"a": nan}))

    def test_a_batch_sends_the_records_that_json_can_represent(self) -> None:
        sent: list[Any] = []

        def handle(request: httpx2.Request) -> httpx2.Response:
            sent.extend(json.loads(request.content)["entities"])
            results = [{"index": i, "status": 201, "entity": ENTITY} for i in range(2)]
            return httpx2.Response(201, json={"results": results})

        with sluice.Client("http://service", transport=httpx2.MockTransport(handle)) as client:
            bad = [math.nan, Decimal("inf"), "\ud800", datetime.now()]
            new = [sluice.NewEntity(f"bad-{i}", attributes={"a": a}) for i, a in enumerate(bad)]
            new[1:1] = [sluice.NewEntity("a"), sluice.NewEntity("b", attributes={"n": Decimal(1)})]
            results = client.upsert_entities(new)
            self.assertEqual(["a", "b"], [e["id"] for e in sent])
            self.assertEqual([n.id for n in new], [r.id for r in results])
            self.assertEqual([False, True, True, False, False, False], [r.created for r in results])
            for i in (0, 3, 4, 5):
                error = results[i].error
                self.assertIsInstance(error, sluice.Error)
                self.assertEqual("invalid_record", error.code)
                self.assertIn(f"record {i} of the batch was not sent", str(error))
            # Without a record to send, there is no request.
            results = client.create_events([sluice.NewEvent("n", occurred_at=datetime.now())])
            self.assertIn("has no time zone", str(results[0].error))
            self.assertEqual(2, len(sent))

    def test_lists(self) -> None:
        with sluice.Client("http://service", transport=service("{}")) as client:
            self.rejects(ValueError, "1 to 200", lambda: client.list_events(limit=0))
        self.rejects(ValueError, "a bound of email", lambda: sluice.Where("email", None))


class Calls(unittest.TestCase):
    def test_tries_are_reported(self) -> None:
        tries: list[sluice.Try] = []
        responses = iter([httpx2.Response(500), httpx2.Response(200, json=EVENT)])
        config = sluice.Config(min_backoff=0, on_try=tries.append)
        transport = httpx2.MockTransport(lambda _: next(responses))
        with sluice.Client("http://service", config=config, transport=transport) as client:
            client.get_event("e1")
        self.assertEqual(
            [("get-event", 1, 500, False), ("get-event", 2, 200, True)],
            [(t.route, t.number, t.status, t.error is None) for t in tries],
        )

    def test_errors_can_be_pickled_and_hide_the_key(self) -> None:
        transport = httpx2.MockTransport(lambda _: httpx2.Response(403, json={"code": "no_scope"}))
        with sluice.Client("http://service", "slc_1_secret", transport=transport) as client:
            with self.assertRaises(sluice.Error) as caught:
                client.get_event("e1")
            self.assertNotIn("secret", repr(vars(caught.exception)) + repr(client))
        copied = pickle.loads(pickle.dumps(caught.exception))  # noqa: S301
        self.assertEqual(("no_scope", str(caught.exception)), (copied.code, str(copied)))

    def test_a_walk_can_be_left_and_continued(self) -> None:
        def at(second: int) -> str:
            return f"2026-01-02T15:04:{second:02}.000Z"

        pages = {
            "": {"data": [EVENT, EVENT], "next_cursor": "c1", "synced_until": at(1)},
            "c1": {"data": [EVENT], "next_cursor": None, "synced_until": at(2)},
        }
        transport = httpx2.MockTransport(
            lambda r: httpx2.Response(200, json=pages[r.url.params.get("cursor", "")])
        )
        with sluice.Client("http://service", transport=transport) as client:
            walk = client.new_events(datetime(2026, 1, 1, tzinfo=timezone.utc))
            next(walk)
            self.assertEqual((None, None), (walk.cursor, walk.synced_until))
            next(walk)
            self.assertEqual(datetime(2026, 1, 2, 15, 4, 1, tzinfo=timezone.utc), walk.synced_until)
            self.assertEqual(1, len(list(walk)))
            self.assertEqual("c1", walk.cursor)
            self.assertEqual(datetime(2026, 1, 2, 15, 4, 2, tzinfo=timezone.utc), walk.synced_until)

    def test_a_walk_without_end_is_left_after_five_minutes(self) -> None:
        # Each page takes a minute and has one event, a minute later than the one before. The fifth
        # page passes the time at which the walk began. What is settled is not part of the chase.
        began = datetime(2026, 1, 2, 15, 4, 5, tzinfo=timezone.utc)
        for settled, pages in (3, 11), (59, 61):

            def respond(request: httpx2.Request, settled: int = settled) -> httpx2.Response:
                n = int(request.url.params.get("cursor", "0"))
                clock.monotonic.return_value = 60.0 * n
                at = _records.format_time(began + timedelta(minutes=n - 4))
                until = _records.format_time(began + timedelta(minutes=min(n, settled) - 4))
                page = {
                    "data": [EVENT | {"created_at": at}],
                    "next_cursor": str(n + 1) if n < 60 else None,
                    "synced_until": until,
                }
                return httpx2.Response(
                    200, json=page, headers={"Date": format_datetime(began, usegmt=True)}
                )

            transport = httpx2.MockTransport(respond)
            with (
                mock.patch("sluice_client._walk.time") as clock,
                sluice.Client("http://service", transport=transport) as client,
            ):
                walk = client.new_events(datetime(2026, 1, 1, tzinfo=timezone.utc))
                self.assertEqual(pages, len(list(walk)))
                self.assertEqual(began + timedelta(minutes=settled - 4), walk.synced_until)

    def test_a_canceled_call_does_not_stop_others(self) -> None:
        # Before the first response, the pacer sends one request at a time. The second call is
        # cancelled in the line, and the first one while it waits for its response.
        async def run() -> None:
            sent = asyncio.Event()

            async def respond(_: httpx2.Request) -> httpx2.Response:
                if not sent.is_set():
                    sent.set()
                    await asyncio.Event().wait()
                return httpx2.Response(200, json=EVENT)

            transport = httpx2.MockTransport(respond)
            async with sluice.AsyncClient("http://service", transport=transport) as client:
                calls = [asyncio.create_task(client.get_event("e1")) for _ in range(3)]
                await sent.wait()
                for call in calls[1], calls[0]:
                    call.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await call
                self.assertEqual("e1", (await calls[2]).id)

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
