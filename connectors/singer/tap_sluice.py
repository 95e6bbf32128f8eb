"""A Singer tap for the entities and events of Sluice."""

import time
from collections.abc import Generator, Iterable
from email.utils import parsedate_to_datetime
from typing import Any

import requests
from singer_sdk import RESTStream, Tap
from singer_sdk import typing as th
from singer_sdk.helpers.types import Context, Record
from singer_sdk.pagination import JSONPathPaginator
from singer_sdk.streams.core import TypeConformanceLevel

BEGINNING = "1970-01-01T00:00:00Z"
PAGE = 50  # records, a quarter of the limit, so that other programs at this address find room
MAX_CHASE = 300  # seconds
ATTRIBUTES = th.Property("attributes", th.ObjectType(additional_properties=True))


def pace(response: requests.Response, **_: Any) -> None:
    """Waits until the window ends if less than a page of the limit is left."""
    if response.ok and int(response.headers.get("X-RateLimit-Remaining", PAGE)) < PAGE:
        wait = int(response.headers["X-RateLimit-Reset"]) - time.time()
        time.sleep(min(max(wait, 0), 1))


def retry_after(error: Exception) -> int:
    """Returns the number of seconds to wait after an error."""
    response = getattr(error, "response", None)
    value = "" if response is None else response.headers.get("Retry-After", "")
    return int(value) if value.isdigit() else 1  # a proxy may send a date


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


class Paginator(JSONPathPaginator):
    """Follows next_cursor, also from a page without records."""

    def __init__(self) -> None:
        super().__init__("$.next_cursor")
        self.chase = Chase()

    def continue_if_empty(self, response: requests.Response) -> bool:
        return True

    def has_more(self, response: requests.Response) -> bool:
        return not self.chase.over(response)


class SluiceStream(RESTStream[str]):
    """A list of all changes, oldest first. The bookmark is the synced_until of the pages so far."""

    primary_keys = ("id",)
    is_sorted = True
    records_jsonpath = "$.data[*]"
    TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.ROOT_ONLY  # do not change values in attributes
    since: str  # name of the query parameter that contains the replication key

    @property
    def url_base(self) -> str:
        return self.config["base_url"]

    @property
    def http_headers(self) -> dict[str, str]:
        key = self.config.get("api_key")
        return {"Authorization": "Bearer " + key} if key else {}

    @property
    def requests_session(self) -> requests.Session:
        session = super().requests_session
        session.hooks["response"] = [pace]
        return session

    def get_url_params(self, context: Context | None, next_page_token: str | None) -> dict[str, Any]:
        since = self.get_starting_replication_key_value(context) or BEGINNING
        return {"limit": PAGE, self.since: since, "cursor": next_page_token}

    def get_new_paginator(self) -> Paginator:
        return Paginator()

    def parse_response(self, response: requests.Response) -> Iterable[Record]:
        yield from super().parse_response(response)
        # The SDK asks for more only after it has written all records of the page.
        state = self.get_context_state(None)
        state["replication_key"] = self.replication_key
        state["replication_key_value"] = response.json()["synced_until"]

    def _increment_stream_state(self, latest_record: Record, *, context: Context | None = None) -> None:
        """Leaves the bookmark to parse_response: earlier changes than that of a record may follow it."""

    def backoff_wait_generator(self) -> Generator[float, None, None]:
        return self.backoff_runtime(value=retry_after)

    def backoff_max_tries(self) -> int:
        return 20


class EntityStream(SluiceStream):
    name = "entity"
    path = "/entity"
    since = "updated_since"
    replication_key = "updated_at"
    schema = th.PropertiesList(
        th.Property("id", th.StringType, required=True),
        th.Property("type", th.StringType),
        ATTRIBUTES,
        th.Property("revision", th.IntegerType),
        th.Property("created_at", th.DateTimeType),
        th.Property("updated_at", th.DateTimeType),
        th.Property("erased_at", th.DateTimeType),
        th.Property("_sdc_deleted_at", th.DateTimeType),
    ).to_dict()

    def get_url_params(self, context: Context | None, next_page_token: str | None) -> dict[str, Any]:
        return super().get_url_params(context, next_page_token) | {"include_deleted": "true"}

    def post_process(self, row: dict[str, Any], context: Context | None = None) -> dict[str, Any]:
        if row.pop("deleted", False):  # a tombstone; its latest change is the deletion
            row["updated_at"] = row["_sdc_deleted_at"] = row.pop("deleted_at")
            row.pop("erased", None)  # erased_at says the same, and when
        return row


class EventStream(SluiceStream):
    name = "event"
    path = "/event"
    since = "created_since"
    replication_key = "created_at"
    schema = th.PropertiesList(
        th.Property("id", th.StringType, required=True),
        th.Property("name", th.StringType),
        th.Property("entity_id", th.StringType),
        th.Property("occurred_at", th.DateTimeType),
        ATTRIBUTES,
        th.Property("created_at", th.DateTimeType),
    ).to_dict()


class TapSluice(Tap):
    name = "tap-sluice"
    config_jsonschema = th.PropertiesList(
        th.Property("base_url", th.URIType, required=True, description="URL of the service"),
        th.Property("api_key", th.StringType, secret=True, description="API key with the scope export"),
    ).to_dict()

    def discover_streams(self) -> list[SluiceStream]:
        return [EntityStream(self), EventStream(self)]


if __name__ == "__main__":
    TapSluice.cli()
