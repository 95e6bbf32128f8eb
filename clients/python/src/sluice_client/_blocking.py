# Written by generate.py from _asyncio.py.
"""How a client performs requests and waits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

import httpx2

from ._call import Call
from ._engine import Config, Engine, Send, Steps, Wait
from ._errors import Error
from ._event import Event
from ._http import LIMITS, lost
from ._records import Page
from ._walk import Walk

T = TypeVar("T")
Self = TypeVar("Self", bound="Blocking")


class Blocking:
    """Performs the steps of calls."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        config: Config | None = None,
        *,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Create a client for a service, without sending a request.

        Args:
            url: Base URL, such as http://127.0.0.1:3000 or https://api.example.com/stage.
            key: API key; None to send none.
            config: Bounds and pacing.
            transport: Sends the requests; by default, a transport of httpx2.

        Raises:
            ValueError: If the URL or the key is not valid.
        """
        self._engine = Engine(url, key, config or Config())
        self._http = httpx2.Client(transport=transport, limits=LIMITS)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, call: Call[T]) -> T:
        return self._drive(lambda event: self._engine.call(call, event))

    def _drive(self, start: Callable[[Event], Steps[T]]) -> T:
        event = Event()
        with contextlib.closing(start(event)) as steps:
            while True:
                try:
                    step = next(steps)
                except StopIteration as done:
                    result: T = done.value
                    return result
                if isinstance(step, Wait):
                    event.wait_for(step.seconds)
                else:
                    self._send(step)

    def _send(self, step: Send) -> None:
        try:
            with self._http.stream(
                step.method,
                step.url,
                headers=step.headers,
                content=step.body,
                extensions={"timeout": step.timeouts},
            ) as response:
                step.receiver.begin(response)
                chunks = response.iter_raw() if step.receiver.raw else response.iter_bytes()
                for chunk in chunks:
                    step.receiver.feed(chunk)
        except Error as e:
            step.receiver.fail(e)
        except (httpx2.HTTPError, httpx2.InvalidURL) as e:
            step.receiver.fail(lost(e))


class Records(Walk[T]):
    """An iterator over the records of all pages of a list. It requests pages as needed."""

    def __init__(
        self,
        client: Blocking,
        page: Callable[[str | None], Call[Page[T]]],
        cursor: str | None,
    ) -> None:
        super().__init__(page, cursor)
        self._client = client

    def __iter__(self) -> Records[T]:
        return self

    def __next__(self) -> T:
        while not self._ready:
            call = self._next_call()
            if call is None:
                raise StopIteration
            self._take(self._client._run(call))
        return self._ready.popleft()
