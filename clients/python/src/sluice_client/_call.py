"""What a call sends, and what its response means."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from . import _json
from ._errors import Error, is_unsure, unknown

T = TypeVar("T")

# More than a Lambda function can return, which is 6 MB.
MAX_RESPONSE_BYTES = 16 << 20


class Response(Protocol):
    """The part of httpx2.Response that is known before the body."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


class Receiver(Protocol):
    """Takes the response to a request, piece by piece."""

    raw: bool  # whether feed takes the body as it was sent, still compressed

    def begin(self, response: Response) -> None:
        """Take the status and the headers."""

    def feed(self, chunk: bytes) -> None:
        """Take a part of the body. Raising an Error stops the reading."""

    def fail(self, error: Error) -> None:
        """Take the reason why there is no response, or no complete one."""


@dataclass
class Reply:
    """The API's response to one request."""

    late: Callable[[], bool]  # whether the request has run out of time
    status: int = 0  # 0 if there is no response
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    error: Error | None = None  # why the response is not complete
    raw = False

    def begin(self, response: Response) -> None:
        """See Receiver."""
        # A plain dict, because the pacer looks up many headers, and httpx2 decodes on every lookup.
        self.status, self.headers = response.status_code, dict(response.headers.items())

    def feed(self, chunk: bytes) -> None:
        """See Receiver."""
        self.body += chunk
        if self.late():
            raise Error("the response took too long", retryable=True)
        if len(self.body) > MAX_RESPONSE_BYTES:
            raise Error(f"the response is larger than {MAX_RESPONSE_BYTES} bytes")

    def fail(self, error: Error) -> None:
        """See Receiver."""
        self.error = error


@dataclass(kw_only=True)
class Call(Generic[T]):
    """One call to the API."""

    route: str
    class_: str  # of the route: export, import or general
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # JSON of a POST; None for a GET
    records: int = 0  # the most records that the response can have; 0 to let the pacer choose
    paced: bool = False  # whether the pacer sets the query parameter limit
    result: T | None = None  # if it is known without a request

    def read(self, reply: Reply, error: Error | None, parse_float: _json.ParseFloat) -> T:
        """Return the result of the call, or raise the reason why it has failed so far.

        It may change the call for the next try.

        Args:
            reply: The response.
            error: Why reply is not a complete response with a status below 300; None if it is.
            parse_float: Decodes the numbers in the response that are not integers.
        """
        raise NotImplementedError

    def ended(self, error: Error) -> Error:
        """Return the error with which the call ends, given that of its last try."""
        return error


@dataclass(kw_only=True)
class Plain(Call[T]):
    """A call whose result is the body of the response."""

    decode: Callable[[int, Any], T]  # returns the result for a status and a body decoded from JSON

    def read(self, reply: Reply, error: Error | None, parse_float: _json.ParseFloat) -> T:
        """See Call."""
        if error is not None:
            raise error
        return decoded(reply, self.decode, parse_float)


@dataclass(kw_only=True)
class Conditional(Plain[T]):
    """A change for one revision of an entity."""

    _unsure: bool = field(default=False, init=False)  # whether a failed try may have made it

    def read(self, reply: Reply, error: Error | None, parse_float: _json.ParseFloat) -> T:
        """See Call."""
        try:
            return super().read(reply, error, parse_float)
        except Error as e:
            self._unsure = self._unsure or is_unsure(e)
            raise

    def ended(self, error: Error) -> Error:
        """See Call."""
        return unknown(error) if self._unsure else error


@dataclass(kw_only=True)
class Once(Plain[T]):
    """A call that is not repeated if it may have been carried out."""

    def read(self, reply: Reply, error: Error | None, parse_float: _json.ParseFloat) -> T:
        """See Call."""
        try:
            return super().read(reply, error, parse_float)
        except Error as e:
            if is_unsure(e):
                raise unknown(e) from e
            raise


def decoded(reply: Reply, decode: Callable[[int, Any], T], parse_float: _json.ParseFloat) -> T:
    """Decode a body. A failure is retryable, like a lost response."""
    try:
        return decode(reply.status, _json.loads(bytes(reply.body), parse_float))
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as e:
        reason = "not JSON" if isinstance(e, json.JSONDecodeError | UnicodeDecodeError) else repr(e)
        raise Error(f"decode the response: {reason}", retryable=True) from e
