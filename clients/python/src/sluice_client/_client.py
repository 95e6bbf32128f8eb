# Written by generate.py from _async.py.
"""The methods of a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, BinaryIO, Literal

from . import _jobs, _routes, _update
from ._blocking import Blocking, Records
from ._call import Call
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
from ._routes import Where


class Client(Blocking):
    """Calls one service. Threads may share a client, and should, because its calls share a pacer.

    A call waits until the limits have room for it, then sends its request. It repeats the request
    after status 408, 429 or 5xx (but not 501 or 505) and after a lost response. That is safe,
    because a new record without an id gets a UUIDv7 before the first try. Every method raises an
    Error if its call fails.
    """

    # Entities

    def create_entity(self, new: NewEntity) -> tuple[Entity, bool]:
        """Create an entity; the bool is False if it already existed with the same content.

        Raises:
            ConflictError: If the id exists with different content.
        """
        return self._run(_routes.create_entity(new))

    def upsert_entities(self, new: Iterable[NewEntity]) -> list[BatchResult[Entity]]:
        """Create up to 100 entities, or merge attributes into entities that already exist.

        A new type replaces the type of an existing entity. A record with replace takes the
        entity's place instead, and one with deleted deletes it. Results and errors are as in
        create_events, but if all entities together are large, the last results contain no entity.
        The error of a result with if_revision may be one of those of update_entity.
        """
        return self._run(_routes.upsert_entities(new))

    def update_entity(
        self, id: str, patch: Mapping[str, Any], *, if_revision: int | None = None
    ) -> Entity:
        """Merge a patch into the attributes of an entity; None removes an attribute (RFC 7396).

        Args:
            id: Id of the entity.
            patch: New values of attributes.
            if_revision: Change only this revision of the entity.

        Raises:
            NotFoundError: If no entity has the id.
            RevisionMismatchError: If the entity has another revision, or does not exist.
            UnknownOutcomeError: If a change for a revision may have been made.
        """
        return self._run(_routes.update_entity(id, patch, if_revision))

    def update(self, id: str, func: Callable[[Entity], Mapping[str, Any] | None]) -> Entity:
        """Change an entity by what is stored, so that no change of others is lost.

        It reads the entity, and merges the patch that func returns if the entity still has the same
        revision. Otherwise, it reads again and calls func again. If func returns None, nothing is
        changed. Each call of func costs one record and, unless it returns None, one import.

        If a response is lost, the same change for the same revision is sent again. If the entity
        then has another revision, that may be due to this change, so func is not called again.

        Returns:
            The entity as stored.

        Raises:
            NotFoundError: If no entity has the id.
            RevisionMismatchError: If others changed the entity max_tries times or for max_elapsed
                seconds. It is retryable.
            UnknownOutcomeError: If the change may have been made.
        """
        return self._drive(lambda e: _update.update(self._engine, e, id, func))

    def delete_entity(self, id: str, *, if_revision: int | None = None) -> None:
        """Delete an entity, if there is one. With if_revision, see update_entity."""
        return self._run(_routes.delete_entity(id, if_revision))

    def get_entity(self, id: str) -> Entity:
        """Return an entity. It costs one record.

        Raises:
            NotFoundError: If no entity has the id.
        """
        return self._run(_routes.get_entity(id))

    def list_entities(
        self,
        type: str | None = None,
        *,
        where: Where | Sequence[Where] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Entity]:
        """Return a page of entities in order of id. Each one costs a record.

        Args:
            type: Only entities of this type; required with where.
            where: Only entities whose attributes match, in order of their values.
            limit: Maximum number of entities, 1 to 200; None lets the pacer choose. A request
                never asks for more records than the limits have left.
            cursor: The next_cursor of the previous page.
        """
        return self._run(_routes.list_entities(type, where, limit, cursor))

    def entities(
        self,
        type: str | None = None,
        *,
        where: Where | Sequence[Where] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Records[Entity]:
        """Iterate over the entities of all pages of list_entities."""
        return Records(self, lambda at: _routes.list_entities(type, where, limit, at), cursor)

    def changes(
        self,
        since: datetime,
        *,
        type: str | None = None,
        include_deleted: bool = True,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Records[Change]:
        """Iterate over the entities that have changed, in order of their latest change.

        Start the next walk at the iterator's synced_until, also if this one was interrupted. An
        entity that changes meanwhile can appear again. If changes come faster than they are read,
        the walk ends five minutes after it has passed the time at which it began.

        Args:
            since: Only changes at this time or later.
            type: Only entities of this type. Entities of other types are returned as deleted, with
                the reason "filter". Setting a type requires include_deleted.
            include_deleted: Whether to include entities that were deleted in the last 30 days.
            limit: Maximum number of changes per page.
            cursor: The cursor of an earlier walk with the same arguments, to continue that walk.
        """

        def page(at: str | None) -> Call[Page[Change]]:
            return _routes.list_changes(since, type, include_deleted, limit, at)

        return Records(self, page, cursor)

    # Events

    def create_event(self, new: NewEvent) -> tuple[Event, bool]:
        """Create an event; the bool is False if it already existed with the same content.

        Raises:
            ConflictError: If the id exists with different content.
        """
        return self._run(_routes.create_event(new))

    def create_events(self, new: Iterable[NewEvent]) -> list[BatchResult[Event]]:
        """Create up to 100 events in one import call of at most 1 MB.

        A retry sends only the events that failed with a retryable error. The result of an event
        that the service rejects has an error. So has that of an event that JSON cannot represent
        (NaN, a lone surrogate, a datetime in the attributes), which is not sent.

        Returns:
            One result for each event, in order.

        Raises:
            Error: If some events have no final result. Error.results has a result for each event.
        """
        return self._run(_routes.create_events(new))

    def get_event(self, id: str) -> Event:
        """Return an event. It costs one record.

        Raises:
            NotFoundError: If no event has the id.
        """
        return self._run(_routes.get_event(id))

    def list_events(
        self,
        *,
        entity_id: str | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        ascending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Event]:
        """Return a page of events, newest first. Each one costs a record.

        Args:
            entity_id: Only events of this entity.
            name: Only events of this name, which needs an index. Not together with entity_id.
            since: Only events that occurred at this time or later.
            until: Only events that occurred before this time.
            ascending: Oldest first.
            limit: Maximum number of events, 1 to 200; None lets the pacer choose.
            cursor: The next_cursor of the previous page.
        """
        return self._run(
            _routes.list_events(entity_id, name, since, until, ascending, limit, cursor)
        )

    def events(
        self,
        *,
        entity_id: str | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        ascending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Records[Event]:
        """Iterate over the events of all pages of list_events."""

        def page(at: str | None) -> Call[Page[Event]]:
            return _routes.list_events(entity_id, name, since, until, ascending, limit, at)

        return Records(self, page, cursor)

    def new_events(
        self,
        since: datetime,
        *,
        entity_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Records[Event]:
        """Iterate over the events that were created at or after a time, in order of creation.

        Start the next walk at the iterator's synced_until, as with changes. With entity_id, events
        of other entities are left out, but still cost a record each.
        """

        def page(at: str | None) -> Call[Page[Event]]:
            return _routes.list_new_events(since, entity_id, limit, at)

        return Records(self, page, cursor)

    # Jobs

    def create_export_job(
        self,
        resource: Literal["entity", "event"],
        format: Literal["ndjson", "csv"] = "ndjson",
        *,
        id: str | None = None,
        type: str | None = None,
        entity_id: str | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        csv_formulas: Literal["neutralize", "keep"] | None = None,
    ) -> tuple[ExportJob, bool]:
        """Create a job that writes records to a file, for exports that are too large for lists.

        Entities are filtered by type, and events by the other filters. The bool is False if the
        job already existed.

        Raises:
            ConflictError: If the id exists with different content.
        """
        filters = {"type": type, "entity_id": entity_id, "name": name, "from": since, "to": until}
        return self._run(_routes.create_export_job(resource, format, id, filters, csv_formulas))

    def get_export_job(self, id: str) -> ExportJob:
        """Return an export job, with a link to its file if it has succeeded.

        Raises:
            NotFoundError: If no job has the id.
        """
        return self._run(_routes.get_export_job(id))

    def list_export_jobs(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[ExportJob]:
        """Return a page of export jobs, newest first."""
        return self._run(_routes.list_export_jobs(limit, cursor))

    def export_jobs(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> Records[ExportJob]:
        """Iterate over the export jobs of all pages."""
        return Records(self, lambda at: _routes.list_export_jobs(limit, at), cursor)

    def cancel_export_job(self, id: str) -> ExportJob:
        """Cancel an export job.

        Raises:
            ConflictError: If the job has succeeded or failed.
            NotFoundError: If no job has the id.
        """
        return self._run(_routes.cancel_export_job(id))

    def delete_export_job(self, id: str) -> ExportJob:
        """Delete the file of an export job that has succeeded.

        Raises:
            ConflictError: If the job is queued or running.
            NotFoundError: If no job has the id.
        """
        return self._run(_routes.delete_export_job(id))

    def wait_for_export_job(
        self,
        id: str,
        *,
        seen: Callable[[ExportJob], None] | None = None,
        timeout: float | None = None,
    ) -> ExportJob:
        """Poll an export job until it has ended, and return it.

        Args:
            id: Id of the job.
            seen: Called with the job after each poll.
            timeout: Maximum seconds to wait before it raises a TimeoutError; None for no maximum.
        """

        def get() -> Call[ExportJob]:
            return _routes.get_export_job(id)

        return self._drive(lambda e: _jobs.wait_for(self._engine, e, get, seen, timeout))

    def download_export(self, id: str, file: BinaryIO, offset: int = 0) -> int:
        """Download an export job's gzip file, starting at a byte offset, and write it to file.

        It returns the number of bytes written. After an interruption, the download continues at the
        same byte with a new link. It fails if no further byte arrives in max_tries consecutive
        tries or within max_elapsed.
        """
        return self._drive(lambda e: _jobs.download(self._engine, e, id, offset, file))

    def erase_entity(self, id: str) -> None:
        """Delete an entity, and start a job that erases its events; see wait_for_erasure_job."""
        return self._run(_routes.erase_entity(id))

    def get_erasure_job(self, id: str) -> ErasureJob:
        """Return the job that erases the events of an entity.

        Raises:
            NotFoundError: If there is no such job, or it ended more than 30 days ago.
        """
        return self._run(_routes.get_erasure_job(id))

    def wait_for_erasure_job(
        self,
        id: str,
        *,
        seen: Callable[[ErasureJob], None] | None = None,
        timeout: float | None = None,
    ) -> ErasureJob:
        """Poll an erasure job until it has ended, as wait_for_export_job does."""

        def get() -> Call[ErasureJob]:
            return _routes.get_erasure_job(id)

        return self._drive(lambda e: _jobs.wait_for(self._engine, e, get, seen, timeout))

    def held_since(self, id: str) -> datetime | None:
        """Return since when export files may hold an entity or its events.

        That is since the creation of the entity or of its first event, whichever is earlier. It is
        None if there is no such entity: the entity may have existed at any time. Call it before
        erase_entity, and left_files after it. It costs two records.
        """
        return self._drive(lambda e: _jobs.held_since(self._engine, e, id))

    def left_files(self, id: str, since: datetime | None) -> list[ExportJob]:
        """Return the export jobs, newest first, whose files may hold an entity or its events.

        Such a job has a file, or is still writing one. cancel_export_job and delete_export_job
        remove the file.

        Args:
            id: Id of the entity.
            since: The result of held_since.
        """
        return self._drive(lambda e: _jobs.left_files(self._engine, e, id, since))

    # Administration, which needs the scope admin, and a service whose operator has turned it on.
    # Its objects are those of the API, as dicts.

    def list_api_keys(
        self, *, workspace: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Page[dict[str, Any]]:
        """Return a page of API keys, without their secrets."""
        return self._run(_routes.list_api_keys(workspace, limit, cursor))

    def api_keys(
        self, *, workspace: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Records[dict[str, Any]]:
        """Iterate over the API keys of all pages."""
        return Records(self, lambda at: _routes.list_api_keys(workspace, limit, at), cursor)

    def create_api_key(
        self,
        scopes: Iterable[str],
        *,
        name: str = "",
        workspace: str | None = None,
        plan: str | None = None,
        sources: Iterable[str] | None = None,
        expires_at: datetime | None = None,
    ) -> dict[str, Any]:
        """Make an API key. Its member key has the secret, which nothing returns again.

        Args:
            scopes: What the key permits.
            name: What it is for.
            workspace: Whose records it accesses, by default those of the client's own key.
            plan: Plan that sets its limits.
            sources: CIDR blocks from which it is accepted.
            expires_at: When it expires.

        Raises:
            UnknownOutcomeError: If the response is lost. The request is not repeated, and a key may
                exist that nobody can use.
        """
        return self._run(_routes.create_api_key(scopes, name, workspace, plan, sources, expires_at))

    def revoke_api_key(self, id: str, *, made: bool = False) -> dict[str, Any]:
        """Revoke an API key and, with made, those that it made, and those that these made.

        Raises:
            NotFoundError: If no key has the id.
        """
        return self._run(_routes.revoke_api_key(id, made))

    def set_api_key_plan(self, id: str, plan: str | None) -> dict[str, Any]:
        """Give an API key a plan, or take it away with None.

        Raises:
            NotFoundError: If no key has the id.
        """
        return self._run(_routes.set_api_key_plan(id, plan))

    def list_limits(self) -> list[dict[str, Any]]:
        """Return all rows that override limits."""
        return self._run(_routes.list_limits())

    def set_limit(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Set or replace the row of a "cidr", a "key_id" or a "plan"."""
        return self._run(_routes.set_limit(row))

    def remove_limit(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Remove the row of a "cidr", a "key_id" or a "plan"; the rest of row does not matter.

        Raises:
            NotFoundError: If there is no such row.
        """
        return self._run(_routes.remove_limit(row))

    def create_entity_index(
        self,
        type: str,
        attributes: Iterable[str | Mapping[str, Any]],
        *,
        workspace: str | None = None,
    ) -> dict[str, Any]:
        """Declare an index, which the service then builds.

        Args:
            type: Type of the entities; "" for events, which have one by name.
            attributes: Names or, for values other than exact texts, objects such as
                {"name": "born", "value_type": "number"}.
            workspace: By default that of the client's key.
        """
        return self._run(_routes.create_entity_index(type, attributes, workspace))

    def remove_entity_index(
        self, type: str, attributes: Iterable[str], *, workspace: str | None = None
    ) -> dict[str, Any]:
        """Remove an index; see create_entity_index.

        Raises:
            NotFoundError: If there is no such index.
        """
        return self._run(_routes.remove_entity_index(type, attributes, workspace))

    def list_audit(
        self,
        *,
        workspace: str | None = None,
        by: str | None = None,
        of: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[dict[str, Any]]:
        """Return a page of administrative changes, newest first.

        Args:
            workspace: By default that of the client's key or, with the scope operator, all.
            by: Only changes by whom begins with this, such as "key:7m3kq2xw9abc" or "command:".
            of: Only changes of what begins with this, such as "plan:" or "index:person.email".
            limit: The maximum number of changes.
            cursor: next_cursor of the previous page.
        """
        return self._run(_routes.list_audit(workspace, by, of, limit, cursor))

    def audit(
        self,
        *,
        workspace: str | None = None,
        by: str | None = None,
        of: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Records[dict[str, Any]]:
        """Iterate over the administrative changes of all pages, newest first; see list_audit."""
        return Records(self, lambda at: _routes.list_audit(workspace, by, of, limit, at), cursor)

    def source(self) -> str:
        """Return the source of the records: the id of the service's data, "/" and the workspace.

        A program that keeps a copy must compare the source with that of its earlier runs. The URL
        does not show whether the key is for another workspace, or whether the service's data was
        deleted or restored. After this call, a call fails if its response has another source.
        """
        return self._drive(lambda e: _jobs.source(self._engine, e))
