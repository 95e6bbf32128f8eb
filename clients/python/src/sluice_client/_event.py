"""What the two clients wait for."""

from __future__ import annotations

import asyncio
import contextlib
import threading


class AsyncEvent(asyncio.Event):
    """An event that a task waits for."""

    async def wait_for(self, seconds: float | None) -> None:
        """Wait until the event is set, but at most this many seconds; None for no maximum."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.wait(), seconds)


class Event(threading.Event):
    """An event that a thread waits for."""

    def wait_for(self, seconds: float | None) -> None:
        """Wait until the event is set, but at most this many seconds; None for no maximum."""
        self.wait(seconds)
