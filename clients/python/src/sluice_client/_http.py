"""What both clients say to httpx."""

from __future__ import annotations

import importlib.util
import sys

import httpx

from ._errors import Error

# The pacer bounds the requests in flight.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)


def skip_sniffio() -> None:
    """Keep httpcore from looking for a sniffio that is not installed.

    It does several times in each request of asyncio, and each time searches all of sys.path, which
    took a quarter of the client's time. None stands for a module that is known to be missing. All
    code of the process sees it, so only AsyncClient calls this.
    """
    if importlib.util.find_spec("sniffio") is None:
        sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]


def lost(cause: Exception) -> Error:
    """Return the error for a response that did not arrive, or not in full."""
    reason = str(cause) or type(cause).__name__
    # The reason may quote a URL only if it is invalid, and then no other try can succeed.
    error = Error(
        f"no complete response: {reason}", retryable=not isinstance(cause, httpx.InvalidURL)
    )
    error.__cause__ = cause
    return error
