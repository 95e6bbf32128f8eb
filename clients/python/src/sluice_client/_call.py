"""What a call sends, and what its response means."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from . import _json
from ._errors import Error

T = TypeVar("T")

# A Lambda function can return at most 6 MB.
MAX_RESPONSE_BYTES = 16 << 20


class Response(Protocol):
    """The part of httpx.Response that is known before the body."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


class Receiver(Protocol):
    """Takes the response to a request, piece by piece."""

    raw: bool  # whether feed takes the body as it was sent, and not decompressed

    def begin(self, response: Response) -> None:
        """Take the status and the headers."""

    def feed(self, chunk: bytes) -> None:
        """Take a part of the body. An Error ends the reading."""

    def fail(self, error: Error) -> None:
        """Take the reason why there is no response, or no complete one."""


@dataclass
class Reply:
    """The response to one request of the API."""

    late: Callable[[], bool]  # whether the time of the request is over
    status: int = 0  # 0 if there is none
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    error: Error | None = None  # why the response is not complete
    raw = False

    def begin(self, response: Response) -> None:
        """See Receiver."""
        # A plain dict, because the pacer looks up many headers, and httpx decodes each anew.
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
    """One call of the API."""

    route: str
    kind: str  # the rule that the routes of this kind share: imports, records, or "" for none
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # JSON; the request is a POST if it has one
    records: int = 0  # the most records that the response can have; 0 to leave it to the pacer
    paced: bool = False  # whether the pacer sets the limit of the list
    result: T | None = None  # if it is known without a request

    def read(self, reply: Reply, error: Error | None, parse_float: _json.ParseFloat) -> T:
        """Return the result of the call, or raise why it failed so far.

        It may change the call for the next try.

        Args:
            reply: The response.
            error: Why it is not a complete response with a status below 300; None if it is.
            parse_float: Makes the numbers of the response.
        """
        raise NotImplementedError


@dataclass(kw_only=True)
class Plain(Call[T]):
    """A call whose result is the body of the response."""

    decode: Callable[[int, Any], T]  # returns the result for a status and the JSON of a body

    def read(self, reply: Reply, error: Error | None, parse_float: _json.ParseFloat) -> T:
        """See Call."""
        if error is not None:
            raise error
        return decoded(reply, self.decode, parse_float)


def decoded(reply: Reply, decode: Callable[[int, Any], T], parse_float: _json.ParseFloat) -> T:
    """Decode a body. A failure is retryable, like a lost response."""
    try:
        return decode(reply.status, _json.loads(bytes(reply.body), parse_float))
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as e:
        reason = "not JSON" if isinstance(e, json.JSONDecodeError | UnicodeDecodeError) else repr(e)
        raise Error(f"decode the response: {reason}", retryable=True) from e
