"""How both clients use httpx2."""

from __future__ import annotations

import httpx2

from ._errors import Error

# The pacer bounds the requests in flight.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100)


def lost(cause: Exception) -> Error:
    """Return the error for a response that did not arrive in full."""
    reason = str(cause) or type(cause).__name__
    # The reason quotes the URL only if the URL is invalid, and then no further try can succeed.
    error = Error(
        f"no complete response: {reason}", retryable=not isinstance(cause, httpx2.InvalidURL)
    )
    error.__cause__ = cause
    return error
