"""What the service takes, stores and returns."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, Generic, Literal, TypeVar

from ._errors import Error

T = TypeVar("T")

Attributes = dict[str, Any]
Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]


@dataclass(frozen=True)
class NewEntity:
    """An entity to create, to merge, to replace or to delete."""

    id: str | None = None  # a UUIDv7 if None
    type: str | None = None  # if None, the type that the entity has, or "entity" for a new one
    attributes: Mapping[str, Any] | None = None

    # Only in upsert_entities:
    replace: bool = False  # take the place of the entity, instead of being merged into it
    deleted: bool = False  # delete the entity; only the id and if_revision then matter
    if_revision: int | None = None  # the revision to change, 0 if none may exist


@dataclass(frozen=True)
class NewEvent:
    """An event to create."""

    name: str
    id: str | None = None  # a UUIDv7 if None
    entity_id: str | None = None
    occurred_at: datetime | None = None  # the time of its creation if None
    attributes: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Entity:
    """A stored entity."""

    id: str
    type: str
    attributes: Attributes
    revision: int  # grows with every change
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Event:
    """A stored event."""

    id: str
    name: str
    entity_id: str | None
    occurred_at: datetime
    attributes: Attributes
    created_at: datetime


@dataclass(frozen=True)
class Change:
    """The latest change of an entity."""

    id: str
    type: str
    revision: int
    deleted: bool  # whether a copy should remove the entity
    entity: Entity | None  # the entity as it is now; None if deleted
    deleted_at: datetime | None  # None if the entity exists, even if the filter does not select it
    reason: str | None  # "filter" if the entity exists, but the filter does not select it
    erased_at: datetime | None  # a copy should drop the entity's events created up to then


@dataclass(frozen=True)
class BatchResult(Generic[T]):
    """The result of one record of a batch."""

    id: str
    record: T | None  # as stored; None after an error or if the service left it out
    created: bool  # False if the record already existed
    error: Error | None
    deleted: bool = False  # whether there is no such entity now


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list."""

    data: list[T]
    next_cursor: str | None  # None on the last page
    synced_until: datetime | None = None  # only in a walk; see Client.changes
    last: datetime | None = None  # time of the latest change of the page, if this is a walk
    sent: datetime | None = None  # when the service sent the page, by its clock
    index: dict[str, Any] | None = None  # which index served where, as in GET /entity_index


@dataclass(frozen=True)
class ExportJob:
    """A job that writes records to a file."""

    id: str
    resource: Literal["entity", "event"]
    format: Literal["ndjson", "csv"]
    filters: dict[str, str]
    status: Status
    records_written: int
    records_expected: int | None
    size_bytes: int | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    file_expires_at: datetime | None
    file_deleted_at: datetime | None
    download_url: str | None = field(repr=False)  # whoever has it can read the file
    error: str | None

    @property
    def ended(self) -> bool:
        """Whether the job has succeeded, failed or been cancelled."""
        return self.status in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class ErasureJob:
    """A job that erases the events of an entity."""

    id: str  # the entity's id
    status: Status
    events_erased: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None

    @property
    def ended(self) -> bool:
        """Whether the job has succeeded or failed."""
        return self.status in ("succeeded", "failed", "cancelled")


def draft(new: NewEntity | NewEvent) -> dict[str, Any]:
    """Return the JSON of a new record, with an id."""
    members = {k: v for k, v in vars(new).items() if v is not None and v is not False}
    members["id"] = new.id or new_id()
    if "attributes" in members:
        members["attributes"] = dict(members["attributes"])
    if "occurred_at" in members:
        members["occurred_at"] = format_time(members["occurred_at"])
    return members


def _read(cls: type[T], members: Mapping[str, Any]) -> T:
    """Return the record in a response. The fields of the class name its members."""
    types = {f.name: str(f.type) for f in fields(cls)}  # type: ignore[arg-type]
    values = {name: value for name, value in members.items() if name in types}
    for name, value in values.items():
        if value is not None and types[name].startswith("datetime"):
            values[name] = parse_time(value)
    return cls(**values)


def entity(members: Any) -> Entity:
    """Return the entity in a response."""
    return _read(Entity, members)


def event(members: Any) -> Event:
    """Return the event in a response."""
    return _read(Event, members)


def change(members: Any) -> Change:
    """Return the change in a response."""
    deleted = bool(members.get("deleted"))
    return Change(
        id=members["id"],
        type=members["type"],
        revision=members["revision"],
        deleted=deleted,
        entity=None if deleted else entity(members),
        deleted_at=_optional_time(members, "deleted_at"),
        reason=members.get("reason"),
        erased_at=_optional_time(members, "erased_at"),
    )


def new_event(members: Any) -> Event | None:
    """Return the event in a walk, or None if the filter does not select it."""
    return None if members.get("reason") else event(members)


def changed_at(members: Mapping[str, Any]) -> datetime:
    """Return the time of the change that a record in a walk shows."""
    for name in ("deleted_at", "updated_at", "created_at"):
        if name in members:
            return parse_time(members[name])
    raise ValueError("a change without a time")


def export_job(members: Any) -> ExportJob:
    """Return the export job in a response."""
    return _read(ExportJob, members)


def erasure_job(members: Any) -> ErasureJob:
    """Return the erasure job in a response."""
    return _read(ErasureJob, members)


_YEAR_ONE = datetime.min.replace(tzinfo=timezone.utc)


def parse_time(text: str) -> datetime:
    """Parse a time of the service, such as 2026-01-02T15:04:05.000Z.

    The service has a year 0, and datetime does not. Times in year 0 become the first time of year
    1, so that a single record does not make a list unreadable.
    """
    if text.startswith("0000-"):
        return _YEAR_ONE
    return datetime.fromisoformat(text.removesuffix("Z") + "+00:00")


def _optional_time(members: Mapping[str, Any], name: str) -> datetime | None:
    text = members.get(name)
    return None if text is None else parse_time(text)


def format_time(at: datetime) -> str:
    """Return the text of a time in UTC, without the microseconds that the service drops."""
    if at.utcoffset() is None:
        raise ValueError(
            f"{at!r} has no time zone: pass datetime(…, tzinfo=timezone.utc), or call astimezone()"
        )
    naive = (at - _YEAR_ONE) + datetime.min
    return naive.isoformat(timespec="milliseconds") + "Z"


_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def check_id(id: str) -> None:
    """Raise an Error if the id is invalid, because it could turn the path into another route."""
    if not _ID.fullmatch(id) or id in (".", ".."):
        raise Error(
            "the id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - "
            f'and neither "." nor "..", not {id!r}',
            code="invalid_id",
        )


def new_id() -> str:
    """Return a UUIDv7 (RFC 9562, section 5.7)."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    high, low = random >> 62 & 0xFFF, random & (1 << 62) - 1
    n = milliseconds << 80 | 7 << 76 | high << 64 | 2 << 62 | low
    text = f"{n:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
