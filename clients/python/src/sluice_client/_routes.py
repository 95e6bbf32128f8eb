"""The calls of the API's routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypeVar

from . import _json, _records
from ._batch import Batch
from ._call import Call, Conditional, Once, Plain, Reply
from ._errors import Error, date
from ._records import (
    BatchResult,
    Change,
    Entity,
    ErasureJob,
    Event,
    ExportJob,
    NewEntity,
    NewEvent,
    Page,
)

T = TypeVar("T")

Value = str | bool | int | float | Decimal

_EXPORT, _IMPORT, _GENERAL = "export", "import", "general"  # classes of routes


@dataclass(frozen=True)
class Where:
    """Selects entities by an attribute, which the operator of the service must have indexed.

    ``Where("email", "ada@example.com")`` selects a value, ``Where("born", gte=1815, lt=1900)``
    selects a range, and ``Where("name", prefix="Ad")`` selects texts that begin with "Ad". Of
    several, for an index on several attributes, all but one must select a value.
    """

    attribute: str
    equal: Value | None = None
    gt: Value | None = None
    gte: Value | None = None
    lt: Value | None = None
    lte: Value | None = None
    prefix: str | None = None
    descending: bool = False  # greatest value first

    def __post_init__(self) -> None:
        if (self.equal, self.gt, self.gte, self.lt, self.lte, self.prefix) == (None,) * 6:
            raise ValueError(f"Where needs a value or a bound of {self.attribute}, not only None")

    def query(self) -> dict[str, str]:
        """Return the query parameters."""
        name = "attributes." + self.attribute
        query = {} if self.equal is None else {name: _text(self.equal)}
        for operator in ("gt", "gte", "lt", "lte", "prefix"):
            value = getattr(self, operator)
            if value is not None:
                query[f"{name}[{operator}]"] = _text(value)
        if self.descending:
            query["order"] = "desc"
        return query


def _text(value: Value) -> str:
    return value if isinstance(value, str) else _json.dumps(value).decode()


def create_entity(new: NewEntity) -> Call[tuple[Entity, bool]]:
    """POST /create_entity."""
    return _create("create-entity", "/create_entity", _IMPORT, _records.draft(new), _records.entity)


def create_event(new: NewEvent) -> Call[tuple[Event, bool]]:
    """POST /create_event."""
    return _create("create-event", "/create_event", _IMPORT, _records.draft(new), _records.event)


def upsert_entities(new: Iterable[NewEntity]) -> Call[list[BatchResult[Entity]]]:
    """POST /upsert_entities. If the entities are large, the last results omit them."""
    return Batch(
        route="upsert-entities",
        class_=_IMPORT,
        path="/upsert_entities",
        member="entities",
        new=new,
        stored=lambda r: _records.entity(r["entity"]) if r.get("entity") else None,
    )


def create_events(new: Iterable[NewEvent]) -> Call[list[BatchResult[Event]]]:
    """POST /create_events."""
    return Batch(
        route="create-events",
        class_=_IMPORT,
        path="/create_events",
        member="events",
        new=new,
        stored=lambda r: _records.event(r["event"]),
    )


def update_entity(
    id_: str, patch: Mapping[str, Any], if_revision: int | None = None
) -> Call[Entity]:
    """POST /update_entity."""
    body = {"id": id_, "attributes": dict(patch)}
    return _change("update-entity", "/update_entity", body, if_revision, _records.entity)


def delete_entity(id_: str, if_revision: int | None = None) -> Call[None]:
    """POST /delete_entity."""
    return _change("delete-entity", "/delete_entity", {"id": id_}, if_revision, _ignore)


def _change(
    route: str,
    path: str,
    body: dict[str, Any],
    if_revision: int | None,
    record: Callable[[Any], T],
) -> Call[T]:
    if if_revision is None:
        return _post(route, path, _IMPORT, body, record)
    body["if_revision"] = if_revision
    return Conditional(
        route=route,
        class_=_IMPORT,
        path=path,
        body=_json.dumps(body),
        decode=lambda _, members: record(members),
    )


def erase_entity(id_: str) -> Call[None]:
    """POST /delete_entity, which also erases the entity's events."""
    body = {"id": id_, "events": True}
    return _post("delete-entity", "/delete_entity", _IMPORT, body, _ignore)


def _ignore(members: Any) -> None:
    if not isinstance(members, dict) or "id" not in members:
        raise ValueError("no id")


def get_entity(id_: str) -> Call[Entity]:
    """GET /entity/{id}."""
    return _get("get-entity", "/entity/", _EXPORT, id_, _records.entity)


def get_event(id_: str) -> Call[Event]:
    """GET /event/{id}."""
    return _get("get-event", "/event/", _EXPORT, id_, _records.event)


def get_export_job(id_: str) -> Call[ExportJob]:
    """GET /export_job/{id}."""
    return _get("get-export-job", "/export_job/", _GENERAL, id_, _records.export_job)


def get_erasure_job(id_: str) -> Call[ErasureJob]:
    """GET /erasure_job/{id}."""
    return _get("get-erasure-job", "/erasure_job/", _GENERAL, id_, _records.erasure_job)


def list_entities(
    type_: str | None,
    where: Where | Sequence[Where] | None,
    limit: int | None,
    cursor: str | None,
) -> Call[Page[Entity]]:
    """GET /entity."""
    query = {"type": type_, "cursor": cursor}
    for one in [where] if isinstance(where, Where) else where or []:
        for name, value in one.query().items():
            if name != "order" and name in query:
                raise ValueError(f"where has two conditions for {name}")
            query[name] = value
    return _list("list-entity", "/entity", _EXPORT, query, limit, _records.entity)


def list_events(
    entity_id: str | None,
    name: str | None,
    since: datetime | None,
    until: datetime | None,
    ascending: bool,
    limit: int | None,
    cursor: str | None,
) -> Call[Page[Event]]:
    """GET /event."""
    query = {
        "entity_id": entity_id,
        "name": name,
        "from": _time(since),
        "to": _time(until),
        "order": "asc" if ascending else None,
        "cursor": cursor,
    }
    return _list("list-event", "/event", _EXPORT, query, limit, _records.event)


def list_changes(
    since: datetime,
    type_: str | None,
    include_deleted: bool,
    limit: int | None,
    cursor: str | None,
) -> Call[Page[Change]]:
    """GET /entity with updated_since."""
    query = {
        "updated_since": _time(since),
        "type": type_,
        "include_deleted": "true" if include_deleted else None,
        "cursor": cursor,
    }
    return _list("list-entity", "/entity", _EXPORT, query, limit, _records.change, ChangesCall)


def list_new_events(
    since: datetime, entity_id: str | None, limit: int | None, cursor: str | None
) -> Call[Page[Event]]:
    """GET /event with created_since. A filter requires include_deleted."""
    query = {
        "created_since": _time(since),
        "entity_id": entity_id,
        "include_deleted": "true" if entity_id else None,
        "cursor": cursor,
    }
    return _list("list-event", "/event", _EXPORT, query, limit, _records.new_event, ChangesCall)


def create_export_job(
    resource: Literal["entity", "event"],
    format_: Literal["ndjson", "csv"],
    id_: str | None,
    filters: dict[str, Any],
    csv_formulas: Literal["neutralize", "keep"] | None,
) -> Call[tuple[ExportJob, bool]]:
    """POST /create_export_job."""
    shown = {k: _time(v) if isinstance(v, datetime) else v for k, v in filters.items()}
    body: dict[str, Any] = {
        "id": id_ or _records.new_id(),
        "resource": resource,
        "format": format_,
        "filters": {k: v for k, v in shown.items() if v is not None},
    }
    if csv_formulas is not None:
        body["csv_formulas"] = csv_formulas
    return _create("create-export-job", "/create_export_job", _GENERAL, body, _records.export_job)


def list_export_jobs(limit: int | None, cursor: str | None) -> Call[Page[ExportJob]]:
    """GET /export_job."""
    query = {"cursor": cursor}
    return _list("list-export-job", "/export_job", _GENERAL, query, limit, _records.export_job)


def cancel_export_job(id_: str) -> Call[ExportJob]:
    """POST /cancel_export_job."""
    return _post(
        "cancel-export-job", "/cancel_export_job", _GENERAL, {"id": id_}, _records.export_job
    )


def delete_export_job(id_: str) -> Call[ExportJob]:
    """POST /delete_export_job."""
    return _post(
        "delete-export-job", "/delete_export_job", _GENERAL, {"id": id_}, _records.export_job
    )


def list_api_keys(
    workspace: str | None, limit: int | None, cursor: str | None
) -> Call[Page[dict[str, Any]]]:
    """GET /api_key."""
    query = {"workspace": workspace, "cursor": cursor}
    return _list("list-api-key", "/api_key", _GENERAL, query, limit, _same)


def create_api_key(
    scopes: Iterable[str],
    name: str,
    workspace: str | None,
    plan: str | None,
    sources: Iterable[str] | None,
    expires_at: datetime | None,
) -> Call[dict[str, Any]]:
    """POST /create_api_key."""
    body = {
        "scopes": list(scopes),
        "name": name or None,
        "workspace": workspace,
        "plan": plan,
        "from": None if sources is None else list(sources),
        "expires_at": _time(expires_at),
    }

    def decode(_: int, members: Any) -> dict[str, Any]:
        if "key" not in members:
            raise ValueError("no key")
        return _same(members)

    return Once(
        route="create-api-key",
        class_=_GENERAL,
        path="/create_api_key",
        body=_json.dumps({k: v for k, v in body.items() if v is not None}),
        decode=decode,
    )


def revoke_api_key(id_: str, made: bool) -> Call[dict[str, Any]]:
    """POST /revoke_api_key."""
    body: dict[str, Any] = {"id": id_, "made": True} if made else {"id": id_}
    return _post("revoke-api-key", "/revoke_api_key", _GENERAL, body, _same)


def set_api_key_plan(id_: str, plan: str | None) -> Call[dict[str, Any]]:
    """POST /set_api_key_plan."""
    body = {"id": id_, "plan": plan}
    return _post("set-api-key-plan", "/set_api_key_plan", _GENERAL, body, _same)


def list_limits() -> Call[list[dict[str, Any]]]:
    """GET /limit."""

    def decode(_: int, members: Any) -> list[dict[str, Any]]:
        return [_same(m) for m in members["data"]]

    return Plain(route="list-limit", class_=_GENERAL, path="/limit", decode=decode)


def set_limit(row: Mapping[str, Any]) -> Call[dict[str, Any]]:
    """POST /set_limit."""
    return _post("set-limit", "/set_limit", _GENERAL, dict(row), _same)


def remove_limit(row: Mapping[str, Any]) -> Call[dict[str, Any]]:
    """POST /remove_limit."""
    body = {k: v for k, v in row.items() if k in ("cidr", "key_id", "plan")}
    return _post("remove-limit", "/remove_limit", _GENERAL, body, _same)


def create_entity_index(
    type_: str, attributes: Iterable[str | Mapping[str, Any]], workspace: str | None
) -> Call[dict[str, Any]]:
    """POST /create_entity_index."""
    fields = [{"name": a} if isinstance(a, str) else dict(a) for a in attributes]
    body = _index(type_, fields, workspace)
    return _post("create-entity-index", "/create_entity_index", _GENERAL, body, _same)


def remove_entity_index(
    type_: str, attributes: Iterable[str], workspace: str | None
) -> Call[dict[str, Any]]:
    """POST /remove_entity_index."""
    body = _index(type_, list(attributes), workspace)
    return _post("remove-entity-index", "/remove_entity_index", _GENERAL, body, _same)


def _index(type_: str, attributes: list[Any], workspace: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {"type": type_, "attributes": attributes}
    if not type_:
        body = {"resource": "event"}
    return body if workspace is None else {**body, "workspace": workspace}


def list_audit(
    workspace: str | None, by: str | None, of: str | None, limit: int | None, cursor: str | None
) -> Call[Page[dict[str, Any]]]:
    """GET /audit."""
    query = {"workspace": workspace, "by": by, "of": of, "cursor": cursor}
    return _list("list-audit", "/audit", _GENERAL, query, limit, _same)


def _same(members: Any) -> dict[str, Any]:
    if not isinstance(members, dict) or not members:
        raise ValueError("no members")
    return members


@dataclass(kw_only=True)
class ChangesCall(Plain[Page[T]]):
    """A page of a walk."""

    def read(self, reply: Reply, error: Error | None, parse_float: _json.ParseFloat) -> Page[T]:
        """See Call."""
        page = super().read(reply, error, parse_float)
        return replace(page, sent=date(reply.headers.get("date", "")))


def _time(at: datetime | None) -> str | None:
    return None if at is None else _records.format_time(at)


def _post(
    route: str, path: str, class_: str, body: dict[str, Any], record: Callable[[Any], T]
) -> Call[T]:
    def decode(_: int, members: Any) -> T:
        return record(members)

    return Plain(route=route, class_=class_, path=path, body=_json.dumps(body), decode=decode)


def _create(
    route: str, path: str, class_: str, body: dict[str, Any], record: Callable[[Any], T]
) -> Call[tuple[T, bool]]:
    def decode(status: int, members: Any) -> tuple[T, bool]:
        return record(members), status == 201

    return Plain(route=route, class_=class_, path=path, body=_json.dumps(body), decode=decode)


def _get(route: str, path: str, class_: str, id_: str, record: Callable[[Any], T]) -> Call[T]:
    def decode(_: int, members: Any) -> T:
        return record(members)

    try:
        _records.check_id(id_)
    except Error as e:
        e.route = route
        raise
    return Plain(route=route, class_=class_, path=path + id_, records=1, decode=decode)


def _list(
    route: str,
    path: str,
    class_: str,
    query: dict[str, str | None],
    limit: int | None,
    record: Callable[[Any], T | None],
    call: Callable[..., Call[Page[T]]] = Plain,
) -> Call[Page[T]]:
    def decode(_: int, members: Any) -> Page[T]:
        data = members["data"]
        records = [record(m) for m in data]
        synced_until = members.get("synced_until")
        if synced_until is None:
            return Page(
                [r for r in records if r is not None],
                members["next_cursor"],
                index=members.get("index"),
            )
        return Page(
            [r for r in records if r is not None],
            members["next_cursor"],
            _records.parse_time(synced_until),
            last=_records.changed_at(data[-1]) if data else None,
        )

    if limit is not None and limit < 1:
        raise ValueError(f"the limit of a page must be 1 to 200, not {limit}")
    return call(
        route=route,
        class_=class_,
        path=path,
        query={k: str(v) for k, v in {**query, "limit": limit}.items() if v is not None},
        records=limit or 0,
        paced=class_ == _EXPORT,
        decode=decode,
    )
