"""Calls that take several requests: waiting for jobs, downloads, and the source of records."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol, TypeVar

from . import _json, _routes
from ._call import Call, Reply, Response
from ._engine import Engine, Event, Retries, Send, Steps, Wait
from ._errors import Error, NotFoundError, retry_after
from ._records import ExportJob

# The first and the longest interval between two polls of a job, in seconds.
_MIN_POLL, _MAX_POLL = 0.1, 2.0

_MOST_JOBS = 200  # on a page


class Job(Protocol):
    """A job that can end."""

    @property
    def ended(self) -> bool: ...


J = TypeVar("J", bound=Job)


def wait_for(
    engine: Engine,
    event: Event,
    get: Callable[[], Call[J]],
    seen: Callable[[J], None] | None,
    timeout: float | None,
) -> Steps[J]:
    """Poll a job until it has ended."""
    pause, began = _MIN_POLL, time.monotonic()
    while True:
        job = yield from engine.call(get(), event)
        if seen:
            seen(job)
        if job.ended:
            return job
        if timeout is not None and time.monotonic() - began + pause > timeout:
            raise TimeoutError(f"the job has not ended within {timeout} s: {job}")
        event.clear()
        yield Wait(pause)
        pause = min(2 * pause, _MAX_POLL)


def download(engine: Engine, event: Event, id_: str, offset: int, file: BinaryIO) -> Steps[int]:
    """Write an export job's file, starting at a byte offset.

    After an interruption, it continues at the same byte with a new link.
    """
    retries, written = Retries(engine.config), 0
    while True:
        job = yield from engine.call(_routes.get_export_job(id_), event)
        size = _size(job, offset + written)
        if offset + written == size:
            return written
        part = _Part(file, offset + written, size)
        yield part.request(job, engine.config.user_agent, retries.timeouts().get("read"))
        written += part.written
        error = part.failure()
        if error is None:
            return written
        if part.written:
            retries.restart()
        wait = retries.failed(error, "download", part.status)
        if wait is None:
            raise error
        event.clear()
        yield Wait(wait)


def _size(job: ExportJob, offset: int) -> int:
    """Return the size of the job's file. If it cannot be read from the offset, raise an Error."""
    detail = ""
    if job.status != "succeeded":
        detail = f"the export job is {job.status}, so there is no file"
    elif job.error:
        detail = job.error
    elif job.file_deleted_at:
        detail = f"the file was deleted at {job.file_deleted_at}"
    elif job.download_url is None or job.size_bytes is None:
        detail = "the export job has no link to a file"
    elif not 0 <= offset <= job.size_bytes:
        detail = f"the file has {job.size_bytes} bytes, so it cannot be read from byte {offset}"
    else:
        return job.size_bytes
    error = Error(detail)
    error.route = "download"
    raise error


class _Part:
    """Receives the rest of a file."""

    raw = True

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file, self._offset, self._size = file, offset, size
        self._skip = 0  # bytes still to skip, if the server does not support ranges
        self._error: Error | None = None
        self.written = 0
        self.status = 0

    def request(self, job: ExportJob, user_agent: str, patience: float) -> Send:
        # The link may lead to another host, which must not receive the API key.
        headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        if self._offset:
            headers["Range"] = f"bytes={self._offset}-"
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), patience)
        return Send("GET", job.download_url or "", headers, None, timeouts, self)

    def begin(self, response: Response) -> None:
        self.status = response.status_code
        want = f"bytes {self._offset}-{self._size - 1}/{self._size}"
        got = response.headers.get("content-range", "")
        if self.status == 200:
            self._skip = self._offset
        elif self.status != 206:
            self._error = Error(f"the link returned no file: status {self.status}", retryable=True)
        elif got != want:
            self._error = Error(f"the server sent the range {got!r}, not {want!r}", retryable=True)
        if self._error:
            self._error.retry_after = retry_after(response.headers)
            raise self._error

    def feed(self, chunk: bytes) -> None:
        skipped = min(self._skip, len(chunk))
        self._skip -= skipped
        left = self._size - self._offset - self.written
        piece = chunk[skipped : skipped + left]
        self._file.write(piece)
        self.written += len(piece)

    def fail(self, error: Error) -> None:
        self._error = self._error or error

    def failure(self) -> Error | None:
        if self._error is None and self._offset + self.written < self._size:
            self._error = Error("the download ended too early", retryable=True)
        return self._error


def held_since(engine: Engine, event: Event, id_: str) -> Steps[datetime | None]:
    """Return when an entity or its first event came to be; None if the entity does not exist."""
    try:
        entity = yield from engine.call(_routes.get_entity(id_), event)
    except NotFoundError:
        return None
    # The first event is the one that occurred first. Others may have been stored before it, but
    # hardly before it occurred.
    first = yield from engine.call(_routes.list_events(id_, None, None, None, True, 1, None), event)
    times = [entity.created_at]
    for e in first.data:
        times += [e.created_at, e.occurred_at]
    return min(times)


def left_files(
    engine: Engine, event: Event, id_: str, since: datetime | None
) -> Steps[list[ExportJob]]:
    """Return the export jobs whose files may hold what came to be at a time or later."""
    left: list[ExportJob] = []
    cursor: str | None = None
    while True:
        page = yield from engine.call(_routes.list_export_jobs(_MOST_JOBS, cursor), event)
        for job in page.data:
            if since is not None and job.created_at < since:  # and so are the others
                return left
            has_file = job.status == "succeeded" and not job.error and not job.file_deleted_at
            if (has_file or not job.ended) and job.filters.get("entity_id", id_) == id_:
                left.append(job)
        cursor = page.next_cursor
        if cursor is None:
            return left


@dataclass(kw_only=True)
class Source(Call[str]):
    """Asks for the source of the records. The key need not have the route's scope."""

    route: str = "list-export-job"
    class_: str = "general"
    path: str = "/export_job"

    def __post_init__(self) -> None:
        self.query = {"limit": "1"}

    def read(self, reply: Reply, error: Error | None, parse_float: _json.ParseFloat) -> str:  # noqa: ARG002
        """See Call."""
        source = reply.headers.get("sluice-source")
        if source and (error is None or 300 <= error.status < 500 and not error.retryable):
            return source
        raise error or Error(
            "the response has no Sluice-Source: is a proxy removing it, "
            "or does the service at this URL lack it?"
        )


def source(engine: Engine, event: Event) -> Steps[str]:
    """Return the source of the records. Later calls fail if a response has another source."""
    found = yield from engine.call(Source(), event)
    engine.keep_source(found)
    return found
