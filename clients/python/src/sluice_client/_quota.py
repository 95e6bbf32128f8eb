"""Quotas: limits of an API key by UTC day or calendar month, as responses show them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

# Seconds for which the pacer relies on what a response said of a quota. The operator may raise it,
# which takes effect within that time.
_MEMORY = 60


@dataclass
class Quota:
    policy: str  # such as records-month
    left: int
    ends: datetime
    memory: int  # seconds after the response for which it may be relied on


_ITEM = re.compile(r'"([^"]*)";r=([0-9]{1,18});t=([0-9]{1,9})')
_NUMBER = re.compile(r"[0-9]{1,11}")


def quota_in(headers: Mapping[str, str]) -> Quota | None:
    """Return the quota that the X-RateLimit headers are about.

    It has less left than the limits per second; None if they are about one of those.
    """
    items = _ITEM.findall(headers.get("ratelimit", ""))
    reset = headers.get("x-ratelimit-reset", "")
    if not items or not _NUMBER.fullmatch(reset):
        return None
    # Of those with the least left, the last, since quotas come after the limits per second.
    policy, left, rest = min(reversed(items), key=lambda item: int(item[1]))
    if not policy.endswith(("-day", "-month")):
        return None
    ends = datetime.fromtimestamp(int(reset), timezone.utc)
    return Quota(policy, int(left), ends, min(int(rest) - 1, _MEMORY))
