"""Lists of several pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Generic, TypeVar

from ._call import Call
from ._errors import Error
from ._records import Page

T = TypeVar("T")


class Walk(Generic[T]):
    """The records of all pages of a list, one after another. It can be read only once.

    Attributes:
        cursor: Cursor of the page with the latest record; None for the first page. Another walk
            with this cursor begins with that page.
    """

    def __init__(self, page: Callable[[str | None], Call[Page[T]]], cursor: str | None) -> None:
        self.cursor = cursor
        self._page = page
        self._following = cursor
        self._more = True
        self._ready: deque[T] = deque()
        self._synced_until: datetime | None = None

    @property
    def synced_until(self) -> datetime | None:
        """The start of the next walk; None until all records of this walk have been read."""
        return None if self._more or self._ready else self._synced_until

    def _next_call(self) -> Call[Page[T]] | None:
        """Return the call for the next page; None after the last one."""
        return self._page(self._following) if self._more else None

    def _take(self, page: Page[T]) -> None:
        if page.next_cursor is not None and page.next_cursor == self._following:
            raise Error("the next cursor leads to the same page")
        self.cursor, self._following = self._following, page.next_cursor
        self._more = page.next_cursor is not None
        self._synced_until = page.synced_until
        self._ready.extend(page.data)
