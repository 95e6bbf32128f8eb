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
from ._event import AsyncEvent
from ._http import LIMITS, lost
from ._records import Page
from ._walk import Walk

T = TypeVar("T")
Self = TypeVar("Self", bound="Asyncio")


class Asyncio:
    """Performs the steps of calls."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        config: Config | None = None,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
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
        self._http = httpx2.AsyncClient(transport=transport, limits=LIMITS)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _run(self, call: Call[T]) -> T:
        return await self._drive(lambda event: self._engine.call(call, event))

    async def _drive(self, start: Callable[[AsyncEvent], Steps[T]]) -> T:
        event = AsyncEvent()
        with contextlib.closing(start(event)) as steps:
            while True:
                try:
                    step = next(steps)
                except StopIteration as done:
                    result: T = done.value
                    return result
                if isinstance(step, Wait):
                    await event.wait_for(step.seconds)
                else:
                    await self._send(step)

    async def _send(self, step: Send) -> None:
        try:
            async with self._http.stream(
                step.method,
                step.url,
                headers=step.headers,
                content=step.body,
                extensions={"timeout": step.timeouts},
            ) as response:
                step.receiver.begin(response)
                chunks = response.aiter_raw() if step.receiver.raw else response.aiter_bytes()
                async for chunk in chunks:
                    step.receiver.feed(chunk)
        except Error as e:
            step.receiver.fail(e)
        except (httpx2.HTTPError, httpx2.InvalidURL) as e:
            step.receiver.fail(lost(e))


class AsyncRecords(Walk[T]):
    """An iterator over the records of all pages of a list. It requests pages as needed."""

    def __init__(
        self,
        client: Asyncio,
        page: Callable[[str | None], Call[Page[T]]],
        cursor: str | None,
    ) -> None:
        super().__init__(page, cursor)
        self._client = client

    def __aiter__(self) -> AsyncRecords[T]:
        return self

    async def __anext__(self) -> T:
        while not self._ready:
            call = self._next_call()
            if call is None:
                raise StopAsyncIteration
            self._take(await self._client._run(call))
        return self._ready.popleft()
