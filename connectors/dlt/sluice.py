"""A dlt source and a dlt destination for the entities and events of Sluice."""

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import dlt
from dlt.common import json
from dlt.common.destination.exceptions import (
    DestinationTerminalException,
    DestinationTransientException,
)
from dlt.common.schema import TTableSchema
from dlt.common.typing import TDataItems
from dlt.sources.helpers import requests

BEGINNING = "1970-01-01T00:00:00Z"
PAGE = 50  # records, a quarter of the limit, so that other programs at this address find room

MAX_CHASE = 300  # seconds

NOT_COLUMNS = {"deleted_at", "erased", "erased_at"}  # members of records that are not columns of the table entity

Record = dict[str, Any]


def session(api_key: str) -> requests.Session:
    """Returns a session that retries requests and waits as long as Retry-After says."""
    client = requests.Client(request_max_attempts=20, raise_for_status=False)
    if api_key:
        client.session.headers["Authorization"] = "Bearer " + api_key
    return client.session


def pace(response: requests.Response) -> None:
    """Waits until the window ends if less than a page of the limit is left."""
    if int(response.headers["X-RateLimit-Remaining"]) < PAGE:
        wait = int(response.headers["X-RateLimit-Reset"]) - time.time()
        time.sleep(min(max(wait, 0), 1))


class Chase:
    """Ends a walk five minutes after it has passed the time at which it began: changes then come
    faster than they are read. The next sync continues at synced_until."""

    def __init__(self) -> None:
        self.began = ""  # Date of the first response, in the form of the API's times
        self.passed: float | None = None

    def over(self, response: requests.Response) -> bool:
        page = response.json()
        if not self.began and "Date" in response.headers:
            self.began = f"{parsedate_to_datetime(response.headers['Date']):%Y-%m-%dT%H:%M:%S.000Z}"
        if page["data"] and self.passed is None:
            last = page["data"][-1]
            at = last.get("deleted_at") or last.get("updated_at") or last["created_at"]
            # What is later than the beginning, but settled, comes from a clock that was set back.
            if at > max(self.began, page["synced_until"]):
                self.passed = time.monotonic()
        return self.passed is not None and time.monotonic() - self.passed >= MAX_CHASE


def integer(digits: str) -> int | str:
    """Returns an integer, or its digits as text if dlt cannot store it in 64 bits."""
    value = int(digits)
    return value if -(2**63) <= value < 2**64 else digits


@dlt.source(name="sluice")
def sluice(base_url: str = dlt.config.value, api_key: dlt.TSecretStrValue = "") -> Any:
    """Reads the changes since the last run into the tables entity and event. The table erasure
    says which entities were erased with their events, and when."""
    http = session(api_key)

    def walk(path: str, bound: str, **params: Any) -> Iterator[list[Record]]:
        """Yields the pages of a list of changes. The next run begins at the last synced_until."""
        state = dlt.current.resource_state(path.removeprefix("/"))
        params |= {"limit": PAGE, bound: state.get("synced_until", BEGINNING), "cursor": None}
        chase = Chase()
        while True:
            response = http.get(base_url + path, params=params)
            response.raise_for_status()
            pace(response)
            page = response.json(parse_int=integer)
            yield page["data"]
            state["synced_until"] = page["synced_until"]
            params["cursor"] = page["next_cursor"]
            if not params["cursor"] or chase.over(response):
                return

    @dlt.resource(selected=False)
    def change() -> Iterator[list[Record]]:
        yield from walk("/entity", "updated_since", include_deleted="true")

    @dlt.transformer(
        data_from=change,
        primary_key="id",
        write_disposition="merge",
        columns={
            "attributes": {"data_type": "json"},
            "created_at": {"data_type": "timestamp"},
            "updated_at": {"data_type": "timestamp", "dedup_sort": "desc"},
            "deleted": {"data_type": "bool", "hard_delete": True},
        },
    )
    def entity(page: list[Record]) -> Iterator[list[Record]]:
        rows = [{name: value for name, value in record.items() if name not in NOT_COLUMNS} for record in page]
        for row, record in zip(rows, page):
            if record.get("deleted"):  # a tombstone; its latest change is the deletion
                row["updated_at"] = record["deleted_at"]
        yield rows

    @dlt.transformer(
        data_from=change,
        primary_key="id",
        write_disposition="merge",
        columns={"erased_at": {"data_type": "timestamp", "dedup_sort": "desc"}},
    )
    def erasure(page: list[Record]) -> Iterator[list[Record]]:
        yield [{"id": record["id"], "erased_at": record["erased_at"]} for record in page if "erased_at" in record]

    @dlt.resource(
        primary_key="id",
        write_disposition="merge",
        columns={
            "attributes": {"data_type": "json"},
            "entity_id": {"data_type": "text"},
            "occurred_at": {"data_type": "timestamp"},
            "created_at": {"data_type": "timestamp"},
        },
    )
    def event() -> Iterator[list[Record]]:
        yield from walk("/event", "created_since")

    return entity, erasure, event


def drop_erased(pipeline: dlt.Pipeline) -> None:
    """Removes the events of erased entities from the destination. Call it after each run."""
    if {"erasure", "event"} <= set(pipeline.default_schema.data_table_names(seen_data_only=True)):
        with pipeline.sql_client() as client:
            event, erasure = client.make_qualified_table_name("event"), client.make_qualified_table_name("erasure")
            client.execute_sql(
                f"DELETE FROM {event} WHERE EXISTS (SELECT 1 FROM {erasure} AS e "
                f"WHERE e.id = {event}.entity_id AND {event}.created_at <= e.erased_at)"
            )


ROUTES = {"entity": ("/upsert_entities", "entities"), "event": ("/create_events", "events")}


@dlt.destination(name="sluice", batch_size=100)
def sluice_destination(
    items: TDataItems,
    table: TTableSchema,
    base_url: str = dlt.config.value,
    api_key: dlt.TSecretStrValue = "",
) -> None:
    """Writes the tables entity and event. Every row must have an id, so that the service does not
    store the row twice if dlt repeats a load."""
    path, member = ROUTES[table["name"]]
    marks = {name for name, column in table["columns"].items() if column.get("hard_delete")}
    rows = [element(row, marks) for row in items]
    if not all("id" in row for row in rows):
        raise DestinationTerminalException(f"a row of {table['name']} has no id")
    send(session(api_key), base_url + path, member, rows)


def element(row: Record, marks: set[str]) -> Record:
    """Returns the element of a batch for a row. marks are the columns that say that it is deleted."""
    members = {name: value for name, value in row.items() if value is not None and name not in marks}
    if any(row.get(mark) not in (None, False) for mark in marks):  # as dlt's own destinations read them
        members["deleted"] = True
    return members


def send(http: requests.Session, url: str, member: str, rows: list[Record]) -> None:
    """Sends one batch, or its two halves if the batch is too large. Raises an exception if the
    service rejects a row."""
    headers = {"Content-Type": "application/json"}
    response = http.post(url, data=json.dumpb({member: rows}), headers=headers)
    if response.status_code == 413 and len(rows) > 1:
        middle = len(rows) // 2
        send(http, url, member, rows[:middle])
        send(http, url, member, rows[middle:])
        return
    body = response.json()
    results = body.get("results") or [{"status": response.status_code, "problem": body}]
    if any(result["status"] == 429 or result["status"] >= 500 for result in results):
        raise DestinationTransientException(f"{url}: {body}")  # dlt retries the batch
    rejected = [result for result in results if result["status"] >= 400]
    if rejected:
        raise DestinationTerminalException(f"{url}: {len(rejected)} rejected: {rejected[:5]}")
