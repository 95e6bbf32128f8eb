"""The client for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, BinaryIO, Literal

from . import _jobs, _routes
from ._asyncio import Asyncio, AsyncRecords
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


class AsyncClient(Asyncio):
    """Client for asyncio: its methods are coroutines, and its iterators need async for.

    The tasks of one event loop may share it.
    """

    # Entities

    async def create_entity(self, new: NewEntity) -> tuple[Entity, bool]:
        """See Client.create_entity."""
        return await self._run(_routes.create_entity(new))

    async def upsert_entities(self, new: Iterable[NewEntity]) -> list[BatchResult[Entity]]:
        """See Client.upsert_entities."""
        return await self._run(_routes.upsert_entities(new))

    async def update_entity(self, id: str, patch: dict[str, Any]) -> Entity:
        """See Client.update_entity."""
        return await self._run(_routes.update_entity(id, patch))

    async def delete_entity(self, id: str) -> None:
        """See Client.delete_entity."""
        return await self._run(_routes.delete_entity(id))

    async def get_entity(self, id: str) -> Entity:
        """See Client.get_entity."""
        return await self._run(_routes.get_entity(id))

    async def list_entities(
        self,
        type: str | None = None,
        *,
        where: Where | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Entity]:
        """See Client.list_entities."""
        return await self._run(_routes.list_entities(type, where, limit, cursor))

    def entities(
        self,
        type: str | None = None,
        *,
        where: Where | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AsyncRecords[Entity]:
        """See Client.entities."""
        return AsyncRecords(self, lambda at: _routes.list_entities(type, where, limit, at), cursor)

    def changes(
        self,
        since: datetime,
        *,
        type: str | None = None,
        include_deleted: bool = True,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AsyncRecords[Change]:
        """See Client.changes."""

        def page(at: str | None) -> Call[Page[Change]]:
            return _routes.list_changes(since, type, include_deleted, limit, at)

        return AsyncRecords(self, page, cursor)

    # Events

    async def create_event(self, new: NewEvent) -> tuple[Event, bool]:
        """See Client.create_event."""
        return await self._run(_routes.create_event(new))

    async def create_events(self, new: Iterable[NewEvent]) -> list[BatchResult[Event]]:
        """See Client.create_events."""
        return await self._run(_routes.create_events(new))

    async def get_event(self, id: str) -> Event:
        """See Client.get_event."""
        return await self._run(_routes.get_event(id))

    async def list_events(
        self,
        *,
        entity_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        ascending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Event]:
        """See Client.list_events."""
        return await self._run(
            _routes.list_events(entity_id, since, until, ascending, limit, cursor)
        )

    def events(
        self,
        *,
        entity_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        ascending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AsyncRecords[Event]:
        """See Client.events."""

        def page(at: str | None) -> Call[Page[Event]]:
            return _routes.list_events(entity_id, since, until, ascending, limit, at)

        return AsyncRecords(self, page, cursor)

    def new_events(
        self,
        since: datetime,
        *,
        entity_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AsyncRecords[Event]:
        """See Client.new_events."""

        def page(at: str | None) -> Call[Page[Event]]:
            return _routes.list_new_events(since, entity_id, limit, at)

        return AsyncRecords(self, page, cursor)

    # Jobs

    async def create_export_job(
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
        """See Client.create_export_job."""
        filters = {"type": type, "entity_id": entity_id, "name": name, "from": since, "to": until}
        return await self._run(
            _routes.create_export_job(resource, format, id, filters, csv_formulas)
        )

    async def get_export_job(self, id: str) -> ExportJob:
        """See Client.get_export_job."""
        return await self._run(_routes.get_export_job(id))

    async def list_export_jobs(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[ExportJob]:
        """See Client.list_export_jobs."""
        return await self._run(_routes.list_export_jobs(limit, cursor))

    def export_jobs(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> AsyncRecords[ExportJob]:
        """See Client.export_jobs."""
        return AsyncRecords(self, lambda at: _routes.list_export_jobs(limit, at), cursor)

    async def cancel_export_job(self, id: str) -> ExportJob:
        """See Client.cancel_export_job."""
        return await self._run(_routes.cancel_export_job(id))

    async def wait_for_export_job(
        self,
        id: str,
        *,
        seen: Callable[[ExportJob], None] | None = None,
        timeout: float | None = None,
    ) -> ExportJob:
        """See Client.wait_for_export_job."""

        def get() -> Call[ExportJob]:
            return _routes.get_export_job(id)

        return await self._drive(lambda e: _jobs.wait_for(self._engine, e, get, seen, timeout))

    async def download_export(self, id: str, file: BinaryIO, offset: int = 0) -> int:
        """See Client.download_export."""
        return await self._drive(lambda e: _jobs.download(self._engine, e, id, offset, file))

    async def erase_entity(self, id: str) -> None:
        """See Client.erase_entity."""
        return await self._run(_routes.erase_entity(id))

    async def get_erasure_job(self, id: str) -> ErasureJob:
        """See Client.get_erasure_job."""
        return await self._run(_routes.get_erasure_job(id))

    async def wait_for_erasure_job(
        self,
        id: str,
        *,
        seen: Callable[[ErasureJob], None] | None = None,
        timeout: float | None = None,
    ) -> ErasureJob:
        """See Client.wait_for_erasure_job."""

        def get() -> Call[ErasureJob]:
            return _routes.get_erasure_job(id)

        return await self._drive(lambda e: _jobs.wait_for(self._engine, e, get, seen, timeout))

    async def source(self) -> str:
        """See Client.source."""
        return await self._drive(lambda e: _jobs.source(self._engine, e))
