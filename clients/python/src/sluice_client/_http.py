"""How both clients use httpx."""

from __future__ import annotations

import importlib.util
import sys

import httpx

from ._errors import Error

# The pacer bounds the requests in flight.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)


def skip_sniffio() -> None:
    """Keep httpcore from looking for a sniffio that is not installed.

    It would look several times in each asyncio request, and search all of sys.path each time, which
    took a quarter of the client's time. In sys.modules, None marks a missing module. This affects
    the whole process, so only AsyncClient calls this function.
    """
    if importlib.util.find_spec("sniffio") is None:
        sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]


def lost(cause: Exception) -> Error:
    """Return the error for a response that did not arrive in full."""
    reason = str(cause) or type(cause).__name__
    # The reason quotes the URL only if the URL is invalid, and then no further try can succeed.
    error = Error(
        f"no complete response: {reason}", retryable=not isinstance(cause, httpx.InvalidURL)
    )
    error.__cause__ = cause
    return error
