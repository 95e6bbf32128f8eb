"""The exceptions that calls raise, and how they follow from responses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from ._quota import Quota, quota_in


@dataclass(frozen=True)
class FieldError:
    """An invalid field or query parameter of a request."""

    field: str  # name, or path such as attributes/a/0
    detail: str  # what to change


class Error(Exception):
    """Says why a call failed.

    Attributes:
        detail: Explanation for people.
        route: Name of the route, such as create-event.
        tries: Number of requests that were sent.
        status: HTTP status of the last response; 0 if there was none.
        code: Stable code for programs, such as not_found; may be empty.
        errors: Invalid fields of the request.
        retry_after: Seconds that the last response asks the client to wait; 0 if it does not.
        request_id: Id of the request, for reports to the operator of the service.
        retryable: Whether the same call can succeed later. If it can, the client gave up only
            because it reached one of its bounds.
        results: Results of the records, if a batch failed.
        current_revision: Revision of the entity, if it is not the one that a change was made for;
            0 if there is no such entity. Otherwise None.
    """

    def __init__(
        self,
        detail: str,
        *,
        status: int = 0,
        code: str = "",
        errors: Sequence[FieldError] = (),
        request_id: str = "",
        retryable: bool = False,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.route = ""
        self.tries = 0
        self.status = status
        self.code = code
        self.errors = tuple(errors)
        self.retry_after = 0.0
        self.request_id = request_id
        self.retryable = retryable
        self.results: Sequence[Any] = ()
        self.current_revision: int | None = None

    def __str__(self) -> str:
        text = f"{self.route}: " if self.route else ""
        if self.retryable and self.tries > 1:
            text += f"gave up after {self.tries} tries: "
        if self.status:
            text += f"status {self.status}: "
        if isinstance(self, UnknownOutcomeError):
            text += "the change may have been made: "
        text += self.detail or "the response does not say why"
        if self.retryable and self.retry_after and not isinstance(self, QuotaError):
            text += f"; the service asks to wait {self.retry_after:.0f} s"
        if self.request_id:
            text += f" (request id {self.request_id})"
        return text


class NotFoundError(Error):
    """There is no such record (status 404, code not_found)."""


class ConflictError(Error):
    """The id exists with different content, or a job to cancel has ended (409, conflict)."""


class RevisionMismatchError(Error):
    """The entity has another revision (412, revision_mismatch). Nothing was changed."""


class UnknownOutcomeError(Error):
    """A change for a revision may have been made.

    One of its requests failed without saying whether it was, and the repeats did not tell either:
    if the entity now has another revision, that may be due to this change.
    """


class RateLimitError(Error):
    """The service refused the request (status 429) until the client reached a bound."""


class QuotaError(RateLimitError):
    """The API key's quota has no room for the request (status 429).

    Attributes:
        quota: Policy of the quota, such as records-month.
        quota_ends: When that day or month ends.
    """

    quota: str
    quota_ends: datetime


# Codes of errors that come before a request does anything, although their status is 503.
_NOTHING_DONE = ("rate_limiter_unavailable", "access_unavailable")


def is_unsure(error: Error) -> bool:
    """Return whether the request that failed may have been carried out."""
    if not error.retryable or error.code in _NOTHING_DONE:
        return False
    return error.status == 0 or error.status >= 500


def unknown(error: Error) -> UnknownOutcomeError:
    """Return the error for a change that may have been made, and whose last request failed."""
    e = UnknownOutcomeError(error.detail)
    vars(e).update(vars(error), retryable=False)
    return e


def from_problem(status: int, problem: Mapping[str, Any], quota: Quota | None = None) -> Error:
    """Return the error for the problem details of a response (RFC 9457).

    Args:
        status: HTTP status.
        problem: The problem details.
        quota: The quota that the response's headers are about; None if there is none.
    """
    code = str(problem.get("code") or "")
    kind = Error
    if status == 429 and quota:
        kind = QuotaError
    elif status == 429:
        kind = RateLimitError
    elif (status, code) == (404, "not_found"):
        kind = NotFoundError
    elif (status, code) == (409, "conflict"):
        kind = ConflictError
    elif (status, code) == (412, "revision_mismatch"):
        kind = RevisionMismatchError
    error = kind(
        str(problem.get("detail") or problem.get("message") or ""),  # message: from API Gateway
        status=status,
        code=code,
        errors=[FieldError(str(e["field"]), str(e["detail"])) for e in problem.get("errors") or ()],
        request_id=str(problem.get("instance") or ""),
        retryable=status in (408, 429) or status >= 500 and status not in (501, 505),
    )
    error.current_revision = problem.get("current_revision")
    if isinstance(error, QuotaError) and quota:
        error.quota, error.quota_ends = quota.policy, quota.ends
    return error


def over_quota(quota: Quota) -> Error:
    """Return the error of a request that is not sent, because a quota has no room for it."""
    ends = quota.ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    said = (
        f"an earlier response said that the quota {quota.policy} has {quota.left} left until {ends}"
    )
    return from_problem(429, {"detail": said}, quota)


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> Error:
    """Return the error for a response with status 300 or above."""
    try:
        problem = json.loads(body)
        error = from_problem(status, problem, quota_in(headers))
    except (ValueError, TypeError, KeyError, AttributeError):
        text = body[:200].decode(errors="replace")
        error = from_problem(
            status,
            {"detail": f"the response is not an error of this API: {text!r}"},
            quota_in(headers),
        )
    if status < 400:
        error.detail = (
            f"the service redirects to {headers.get('location', '')!r}; "
            "the client does not follow redirects, so use the URL of the service itself"
        )
    error.request_id = error.request_id or headers.get("apigw-requestid", "")
    return error


# The most that retry_after returns, in seconds. No call waits that long.
_YEAR = 365 * 24 * 3600


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the wait in seconds from Retry-After, a number or a date (RFC 9110); 0 if none."""
    value = headers.get("retry-after", "")
    if value.isascii() and value.isdigit():
        return min(float(value), _YEAR)
    at = date(value)
    if at is None:
        return 0
    now = date(headers.get("date", "")) or datetime.now(timezone.utc)  # of Retry-After's clock
    return min(max((at - now).total_seconds(), 0), _YEAR)


def date(value: str) -> datetime | None:
    """Parse a date of a header; None if it is not one."""
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc)
