"""The pacing of all calls of a client: when a request may be sent.

Times are nanoseconds of the client's monotonic clock; windows are seconds of the service's clock.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from . import _errors
from ._quota import Quota, quota_in

SECOND = 1_000_000_000
FOREVER = 1 << 62

_DEFAULT_PAGE = 50  # records, if the pacer chooses before it knows the limit
_MAX_PAGE = 200  # records, the most that the service returns at a time

_CLEAN_WINDOWS = 10  # windows without a refusal after which the reserve of a rule shrinks by one
_MAX_RESET = 1 << 33  # larger values of X-RateLimit-Reset are not Unix times in seconds
_SPREAD_STEPS = 4  # steps in a window over which a share below 1 is spread

# Two clocks drift apart by at most 1 second in 5,000 seconds.
_DRIFT_PER = 5000
# The clocks of the service's instances differ by at most this much, unless one was set.
_MAX_SKEW = SECOND // 10
_UNKNOWN = -(1 << 62)


class Clock:
    """Estimates by how much the clock of the service is ahead of the client's clock.

    The estimate is a lower bound, so that the client can tell when a window of the service has
    certainly begun. The service counts a request at some instant after the request is sent and
    before the response is received. The window in the response contains this instant.
    """

    def __init__(self) -> None:
        self.ahead = _UNKNOWN
        self._observed = 0  # when the last response was received

    def observe(self, sent: int, received: int, reset: int) -> bool:
        """Improve the bound with a response whose window ends at a Unix time (reset).

        Returns:
            Whether the service's clock was set back, so that known counters are no longer valid.
        """
        end = reset * SECOND
        low, high = end - SECOND - received, end - sent
        set_back = high < self.ahead - _MAX_SKEW
        if set_back:
            self.ahead, self._observed = _UNKNOWN, 0
        drift = (received - self._observed) // _DRIFT_PER
        self.ahead, self._observed = min(max(self.ahead - drift, low), high), received
        return set_back

    def at(self, now: int, steps: int) -> tuple[int, int]:
        """Return the latest window that has certainly begun, and the current step in it."""
        return divmod((now + self.ahead) // (SECOND // steps), steps)

    def next_step(self, now: int, steps: int) -> int:
        """Return when the next step begins."""
        step = SECOND // steps
        return now + step - (now + self.ahead) % step


@dataclass
class Cost:
    """A rule that applies to a request, and the most that the request may cost."""

    rule: str  # the service's name: records, imports or requests
    key: str  # the rule "requests" has one key for each route
    amount: int  # at admission, lowered to what is left, but not below 1
    step: bool = False  # whether amount is limited to what one step adds


def costs_of(route: str, class_: str, records: int) -> list[Cost]:
    """Return what a request costs.

    Args:
        route: Name of the route.
        class_: Class of the route: export, import or general.
        records: The most records that the response can have; 0 to let the pacer choose.
    """
    costs = [Cost("requests", "requests " + route, 1)]
    if class_ == "import":
        costs.append(Cost("imports", "imports", 1))
    elif class_ == "export":
        costs.append(Cost("records", "records", records or _MAX_PAGE, step=not records))
    return costs


class _Rule:
    def __init__(self) -> None:
        self.line: deque[Turn] = deque()  # the first is the next request to be sent
        self.limit = 0  # per window; 0 until a response has shown it
        self.in_flight = 0  # total cost of the requests without a response
        self.used: dict[int, int] = {}  # how much of the limit is used, by window
        self.reserve = 0  # part of the limit that is left unused after refusals
        self.refused = 0  # window in which the reserve last changed
        self.until = -FOREVER  # earliest time of the next request
        self.quota: Quota | None = None  # the latest that a response has shown
        self.quota_until = -FOREVER  # when to forget it

    def quota_at(self, now: int) -> Quota | None:
        return self.quota if now < self.quota_until else None

    def note(self, cost: int, refused: bool, window: int, limit: int, left: int) -> None:
        self.limit = limit
        used = limit - left
        if refused and left < cost:
            used = limit  # after a refusal, treat the window as full
            self.reserve = min(self.reserve + 1, limit // 4)
            self.refused = window
        self.used[window] = max(self.used.get(window, 0), used)
        if self.reserve > 0 and window >= self.refused + _CLEAN_WINDOWS:
            self.reserve -= 1
            self.refused = window
        self.used = {w: n for w, n in self.used.items() if w >= window - 2}


@dataclass(eq=False)
class Turn:
    """A request that waits to be sent, or was sent and has no response."""

    costs: list[Cost]  # the last one selects the line in which the request waits
    wake: Callable[[], None]  # called when admit may give another result
    sent: int = field(default=-1)  # -1 before it is admitted


class Pacer:
    """Delays requests until the limits have room for them. It may be shared by threads.

    The service counts requests in windows, the seconds of its own clock. Each response shows the
    end of its window and the remainder of each rule. The client knows the service's clock only
    approximately. A request that is sent now may therefore be counted in the latest window that has
    certainly begun or in a later one, and so may each request in flight. The pacer sends a request
    only if it fits into each of these windows along with all requests in flight.

    It stops when a share of the limit is used, no matter by whom, and spreads the share over the
    window in steps, so that other clients always find room; a share of 1 is not spread. Each
    refusal adds one to a reserve, a part of the limit that stays unused and shrinks after windows
    without a refusal. Until a response has shown a limit, one request is sent at a time.

    The pacer does not pace by quotas. But a list never requests more records than a quota has left,
    and a request that costs more than that is not sent.

    This is the pacing of the Go client, pkg/client/pace.go.
    """

    def __init__(self, share: float, rate: int) -> None:
        self._share = share
        self._steps = _SPREAD_STEPS if share < 1 else 1
        self._gap = SECOND // rate if rate else 0  # minimum time between two requests
        self._next = -FOREVER
        self._clock = Clock()
        self._rules: dict[str, _Rule] = {}
        self._lock = threading.Lock()

    def _rule(self, cost: Cost) -> _Rule:
        return self._rules.setdefault(cost.key, _Rule())

    def join(self, turn: Turn) -> None:
        """Put a request in line. The caller must call admit until it returns 0, or withdraw."""
        with self._lock:
            self._rule(turn.costs[-1]).line.append(turn)

    def admit(self, turn: Turn, now: int) -> int:
        """Return 0 if the request may be sent now, and lower its costs.

        Otherwise return the time to wait, which turn.wake may cut short. After 0, the caller must
        call leave.
        """
        with self._lock:
            line = self._rule(turn.costs[-1]).line
            if line[0] is not turn:
                return FOREVER
            granted = [self._grant(self._rule(c), c, now) for c in turn.costs]
            retry_at = max(self._next, *(self._rule(c).until for c in turn.costs))
            if retry_at > now:
                return retry_at - now
            if 0 in granted:
                return max(self._clock.next_step(now, self._steps) - now, 1)
            self._next, turn.sent = now + self._gap, now
            for c, amount in zip(turn.costs, granted, strict=True):
                c.amount = amount
                self._rule(c).in_flight += amount
            self._step_aside(line)
            return 0

    def asked(self, turn: Turn, now: int) -> int:
        """Return how long an earlier Retry-After still forbids the request; 0 if none does."""
        with self._lock:
            return max(0, *(self._rule(c).until - now for c in turn.costs))

    def over_quota(self, turn: Turn, now: int) -> Quota | None:
        """Return the quota that has no room for the request; None if there is none."""
        with self._lock:
            for c in turn.costs:
                quota = self._rule(c).quota_at(now)
                if quota and (quota.left == 0 or quota.left < c.amount and not c.step):
                    return quota
            return None

    def withdraw(self, turn: Turn) -> None:
        """Remove a request that was not admitted."""
        with self._lock:
            line = self._rule(turn.costs[-1]).line
            if line[0] is turn:
                self._step_aside(line)
            else:
                line.remove(turn)

    def _step_aside(self, line: deque[Turn]) -> None:
        line.popleft()
        if line:
            line[0].wake()

    def _grant(self, rule: _Rule, c: Cost, now: int) -> int:
        """Return how much of c may be used now; 0 if the request must wait."""
        amount = c.amount
        if c.step and (quota := rule.quota_at(now)):
            amount = min(amount, quota.left)
        if rule.limit == 0:
            if rule.in_flight > 0:
                return 0
            return min(amount, _DEFAULT_PAGE) if c.step else amount
        room = max(int(self._share * float(rule.limit)) - rule.reserve, 1)
        if c.step:
            amount = min(amount, (room + self._steps - 1) // self._steps)
        window, step = self._clock.at(now, self._steps)
        used = rule.used.get(window, 0) + rule.in_flight
        following = rule.used.get(window + 1, 0) + rule.in_flight
        if used * self._steps >= room * (step + 1):
            return 0
        return max(min(amount, room - max(used, following)), 0)

    def leave(self, turn: Turn, now: int, status: int, headers: Mapping[str, str]) -> None:
        """Note the response to an admitted request. If there is none, headers must be empty."""
        with self._lock:
            refused = status == 429
            reset = _parameter(headers, "x-ratelimit-reset", "") or 0
            quota = quota_in(headers)
            told = 0 < reset < _MAX_RESET and quota is None
            if told and self._clock.observe(turn.sent, now, reset):
                for rule in self._rules.values():
                    rule.used.clear()
            wait = int(_errors.retry_after(headers) * SECOND)
            for c in turn.costs:
                rule = self._rule(c)
                rule.in_flight -= c.amount
                if quota:
                    if quota.policy.startswith(c.rule + "-"):
                        rule.quota, rule.quota_until = quota, now + quota.memory * SECOND
                    continue
                # A Retry-After of 1 second is rounded up from a shorter time. The end of the
                # window is more exact.
                if refused and (not told or wait > SECOND):
                    rule.until = max(rule.until, now + wait)
                shown = _standing(headers, c.rule)
                if told and shown:
                    rule.note(c.amount, refused, reset - 1, *shown)
            for rule in self._rules.values():
                if rule.line:
                    rule.line[0].wake()


def _standing(headers: Mapping[str, str], rule: str) -> tuple[int, int] | None:
    """Return the limit of a rule and its remainder; None if the headers lack them.

    If a proxy has removed RateLimit, the X-RateLimit headers describe the rule with the smallest
    remainder.
    """
    limit = _parameter(headers, "ratelimit-policy", f'"{rule}";q=')
    left = _parameter(headers, "ratelimit", f'"{rule}";r=')
    if limit is None or left is None:
        limit = _parameter(headers, "x-ratelimit-limit", "")
        left = _parameter(headers, "x-ratelimit-remaining", "")
    if limit is None or left is None or limit <= 0:
        return None
    return limit, left


_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,18})")


def _parameter(headers: Mapping[str, str], name: str, prefix: str) -> int | None:
    """Return the number that follows a prefix in a header; None if there is none."""
    value = headers.get(name, "")
    if prefix not in value:
        return None
    number = _NUMBER.match(value, value.index(prefix) + len(prefix))
    return int(number[1]) if number else None
