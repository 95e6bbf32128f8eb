"""What both clients say to httpx."""

from __future__ import annotations

import httpx

from ._errors import Error

# The pacer bounds the requests in flight.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)


def lost(cause: Exception) -> Error:
    """Return the error for a response that did not arrive, or not in full."""
    reason = str(cause) or type(cause).__name__
    # The reason may quote a URL only if it is invalid, and then no other try can succeed.
    error = Error(
        f"no complete response: {reason}", retryable=not isinstance(cause, httpx.InvalidURL)
    )
    error.__cause__ = cause
    return error
