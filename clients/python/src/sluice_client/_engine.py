"""What a call does, without doing it: each step is a request or a wait that a client performs.

The functions are generators. They yield steps and return the result of the call. As a result,
the blocking and the asynchronous client differ only in how they perform a step.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol, TypeVar
from urllib.parse import urlencode, urlsplit

from . import _json
from ._call import Call, Receiver, Reply
from ._errors import Error, RateLimitError, from_response, over_quota, retry_after
from ._pace import FOREVER, SECOND, Pacer, Turn, costs_of

T = TypeVar("T")


class Event(Protocol):
    """What threading.Event and asyncio.Event have in common."""

    def set(self) -> None: ...
    def clear(self) -> None: ...


@dataclass
class Wait:
    """Wait for the event of the call, but at most this many seconds; None for no maximum."""

    seconds: float | None


@dataclass
class Send:
    """Send a request and hand its response to the receiver."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    timeouts: dict[str, float]  # for the extension "timeout" of httpx2
    receiver: Receiver


Steps = Generator[Wait | Send, None, T]


class Timeouts(dict[str, float]):
    """The timeouts of a request, which all end at the same time.

    httpx2 passes them on to its transport. When a step (connect, write or read) begins, the
    transport asks for its timeout by calling the method get.
    """

    def __init__(self, deadline: int) -> None:
        super().__init__()
        self._deadline = deadline

    def get(self, name: str, default: object = None) -> float:  # noqa: ARG002
        """Return the seconds that are left."""
        return max((self._deadline - time.monotonic_ns()) / SECOND, 0.001)

    def ended(self) -> bool:
        """Return whether no time is left."""
        return time.monotonic_ns() > self._deadline


@dataclass(frozen=True)
class Try:
    """One request of a call.

    Attributes:
        route: Name of the route, such as create-event.
        number: Number of the try within its call, from 1.
        status: HTTP status; 0 if there was no response.
        error: Why the try failed; None if it succeeded.
        wait: Seconds until the next try, which pacing may extend; 0 if this one is the last.
    """

    route: str
    number: int
    status: int
    error: Error | None
    wait: float


@dataclass(frozen=True, kw_only=True)
class Config:
    """Tunes a client.

    Attributes:
        max_tries: Maximum number of requests per call.
        max_elapsed: Maximum seconds of a call, starting with its first request.
        try_timeout: Maximum seconds for one request and its response.
        min_backoff: Upper bound of the random wait after the first try, in seconds. It doubles
            after each further try.
        max_backoff: Upper bound of the random wait after any try, in seconds.
        rate: Maximum number of requests per second, over all calls; None for no bound.
        share: Part of each limit that may be used, by this client and others together; above 0
            and at most 1.
        user_agent: Value of the User-Agent header.
        parse_float: Converts the text of each non-integer number in attributes. By
            default, the number becomes a float, as in json.loads. decimal.Decimal keeps all
            digits, so that 1.50 does not become 1.5.
        on_try: Called after every try, by the thread that makes the call.
    """

    max_tries: int = 8
    max_elapsed: float = 60
    try_timeout: float = 15
    min_backoff: float = 0.1
    max_backoff: float = 5
    rate: int | None = None
    share: float = 0.9
    user_agent: str = "sluice-client-python"
    parse_float: _json.ParseFloat = _json.parse_float
    on_try: Callable[[Try], None] | None = None

    def __post_init__(self) -> None:
        bounds = self.max_tries, self.max_elapsed, self.try_timeout
        if not all(0 < n < math.inf for n in bounds):
            raise ValueError("max_tries, max_elapsed and try_timeout must be finite and above 0")
        if not all(0 <= n < math.inf for n in (self.min_backoff, self.max_backoff)):
            raise ValueError("min_backoff and max_backoff must be finite and not negative")
        if self.rate is not None and self.rate < 1:
            raise ValueError("rate must be above 0, or None for no bound")
        if not 0 < self.share <= 1:
            raise ValueError("share must be above 0 and at most 1")


class Engine:
    """Makes the calls to one service. All of them share a pacer."""

    def __init__(self, url: str, key: str | None, config: Config) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL of the service must be like https://host, not {url!r}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("the URL of the service must have no user, query or fragment")
        if any(not "!" <= c <= "~" for c in key or ""):
            raise ValueError("the API key must be printable ASCII without spaces")
        self.config = config
        self._base = url.rstrip("/")
        self._key = key
        self._pacer = Pacer(config.share, config.rate or 0)
        self._source: str | None = None

    def call(self, call: Call[T], event: Event) -> Steps[T]:
        """Send the request of a call until it succeeds or a bound is reached.

        No other call may use the event.
        """
        if call.result is not None:
            return call.result
        turn = yield from self._enter(call, event, None)
        retries = Retries(self.config)
        while True:
            reply, error = yield from self._try(call, turn, retries.timeouts())
            try:
                result = call.read(reply, error, self.config.parse_float)
            except Error as failure:
                wait = retries.failed(failure, call.route, reply.status)
                self._report(call, retries.count, reply, failure, wait)
                if wait is None:
                    raise call.ended(failure) from failure.__cause__
                event.clear()
                yield Wait(wait)
                try:
                    turn = yield from self._enter(call, event, retries.deadline)
                except RateLimitError:
                    raise call.ended(failure) from failure.__cause__
            else:
                self._report(call, retries.count + 1, reply, None, None)
                return result

    def _report(
        self, call: Call[T], number: int, reply: Reply, error: Error | None, wait: float | None
    ) -> None:
        if self.config.on_try:
            self.config.on_try(Try(call.route, number, reply.status, error, wait or 0))

    def _enter(self, call: Call[T], event: Event, deadline: int | None) -> Steps[Turn]:
        """Wait until the limits have room for a request of the call.

        Raises:
            RateLimitError: If a quota has no room, or an earlier Retry-After asks to wait beyond
                the deadline or, without a deadline, longer than max_elapsed.
        """
        turn = Turn(costs_of(call.route, call.class_, call.records), event.set)
        self._pacer.join(turn)
        try:
            while True:
                event.clear()
                now = time.monotonic_ns()
                if quota := self._pacer.over_quota(turn, now):
                    error = over_quota(quota)
                    error.route = call.route
                    raise error
                wait = self._pacer.admit(turn, now)
                if wait == 0:
                    break
                end = deadline or now + int(self.config.max_elapsed * SECOND)
                asked = self._pacer.asked(turn, now)
                if now + asked > end or deadline and now > deadline:
                    raise _asked_to_wait(call, asked)
                if deadline:
                    wait = min(wait, deadline - now + 1)
                yield Wait(None if wait == FOREVER else wait / SECOND)
        finally:
            if turn.sent < 0:
                self._pacer.withdraw(turn)
        if call.paced:
            call.query["limit"] = str(turn.costs[-1].amount)
        return turn

    def _try(
        self, call: Call[T], turn: Turn, timeouts: Timeouts
    ) -> Steps[tuple[Reply, Error | None]]:
        """Send a request. The error is None if the response is complete, with status below 300."""
        reply = Reply(timeouts.ended)
        try:
            yield Send(
                "GET" if call.body is None else "POST",
                self._base + call.path + ("?" + urlencode(call.query) if call.query else ""),
                self._headers(call),
                call.body,
                timeouts,
                reply,
            )
        finally:
            self._pacer.leave(turn, time.monotonic_ns(), reply.status, reply.headers)
        error = self._check_source(reply) or reply.error
        if error is None and reply.status >= 300:
            error = from_response(reply.status, reply.headers, bytes(reply.body))
        if error is not None:
            error.retry_after = retry_after(reply.headers)
        return reply, error

    def _headers(self, call: Call[T]) -> dict[str, str]:
        headers = {"User-Agent": self.config.user_agent}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        if self._key:
            headers["Authorization"] = "Bearer " + self._key
        return headers

    def keep_source(self, source: str) -> None:
        """Make calls fail if their responses have another source."""
        self._source = source

    def _check_source(self, reply: Reply) -> Error | None:
        got = reply.headers.get("sluice-source")
        if self._source is None or not got or got == self._source:
            return None
        return Error(
            f"the response is about other records ({got}) than those before ({self._source})"
        )


def _asked_to_wait(call: Call[T], asked: int) -> RateLimitError:
    seconds = asked / SECOND
    error = RateLimitError(
        f"an earlier response asked to wait another {seconds:.0f} s", status=429, retryable=True
    )
    error.route, error.retry_after = call.route, seconds
    return error


class Retries:
    """Bounds the tries of a call."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.count = 0  # number of failed tries
        self.restart()

    def restart(self) -> None:
        """Start counting again."""
        self.count = 0
        self.deadline = time.monotonic_ns() + int(self._config.max_elapsed * SECOND)

    def timeouts(self) -> Timeouts:
        """Return the timeouts of the next try."""
        end = time.monotonic_ns() + int(self._config.try_timeout * SECOND)
        return Timeouts(min(end, self.deadline))

    def failed(self, error: Error, route: str, status: int) -> float | None:
        """Count a failed try.

        Returns:
            The seconds to wait before the next try; None if there must be none.
        """
        self.count += 1
        error.route, error.tries, error.status = route, self.count, error.status or status
        if not error.retryable or self.count >= self._config.max_tries:
            return None
        doublings = min(self.count - 1, 32)
        most = min(self._config.min_backoff * 2**doublings, self._config.max_backoff)
        wait = error.retry_after + random.uniform(0, most)
        if time.monotonic_ns() + wait * SECOND >= self.deadline:
            return None
        return wait
