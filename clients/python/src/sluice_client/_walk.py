"""Lists of several pages."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

from ._call import Call
from ._errors import Error
from ._records import Page

T = TypeVar("T")

MAX_CHASE = 300.0  # seconds


class Chase:
    """Ends a walk five minutes after it has passed the time at which it began.

    Changes then come faster than it reads them, and it would have no end.
    """

    def __init__(self) -> None:
        self._began: datetime | None = None  # when the service sent the first page
        self._passed: float | None = None

    def over(self, page: Page[Any]) -> bool:
        """Report whether the walk should end with a page although others follow."""
        if self._began is None:
            self._began = page.sent
        # After a clock was set back, the service may give all changes one time for a while, so they
        # can be later than the beginning and yet settled. Such a walk does end.
        if (
            self._passed is None
            and page.last is not None
            and page.synced_until is not None
            and page.last > max(page.synced_until, self._began or page.synced_until)
        ):
            self._passed = time.monotonic()
        return self._passed is not None and time.monotonic() - self._passed >= MAX_CHASE


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
        self._synced_until: datetime | None = None  # of the page that _ready comes from
        self._earlier: datetime | None = None  # of the page before it
        self._chase = Chase()

    @property
    def synced_until(self) -> datetime | None:
        """The start of the next walk: the pages that have been read have every earlier change.

        It is None until a page has been read to its end, and in lists that are not walks.
        """
        return self._earlier if self._ready else self._synced_until

    def _next_call(self) -> Call[Page[T]] | None:
        """Return the call for the next page; None after the last one."""
        return self._page(self._following) if self._more else None

    def _take(self, page: Page[T]) -> None:
        if page.next_cursor is not None and page.next_cursor == self._following:
            raise Error("the next cursor leads to the same page")
        self.cursor, self._following = self._following, page.next_cursor
        self._more = page.next_cursor is not None and not self._chase.over(page)
        self._earlier, self._synced_until = self._synced_until, page.synced_until
        self._ready.extend(page.data)
