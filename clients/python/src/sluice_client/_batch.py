"""Calls that send several records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import _json, _records
from ._call import Call, Reply, decoded
from ._errors import Error, RevisionMismatchError, from_problem, is_unsure, unknown
from ._records import BatchResult, NewEntity, NewEvent

T = TypeVar("T")


@dataclass(kw_only=True)
class Batch(Call[list[BatchResult[T]]]):
    """A call that repeats only the records that failed with a retryable error.

    A record that JSON cannot represent is not sent, and its result has the reason.
    """

    member: str  # name of the array in the request
    new: Iterable[NewEntity | NewEvent]
    stored: Callable[[Any], T | None]  # returns the record in a result; None if it has none
    _ids: list[str] = field(default_factory=list, init=False)
    _encoded: dict[int, bytes] = field(default_factory=dict, init=False)
    _results: dict[int, BatchResult[T]] = field(default_factory=dict, init=False)
    _pending: list[int] = field(default_factory=list, init=False)  # indexes without a final result
    _conditional: set[int] = field(default_factory=set, init=False)  # only for one revision
    _unsure: set[int] = field(default_factory=set, init=False)  # a failed try may have stored them

    def __post_init__(self) -> None:
        for i, record in enumerate(self.new):
            try:
                draft = _records.draft(record)
                self._encoded[i] = _json.dumps(draft)
                self._ids.append(draft["id"])
                self._pending.append(i)
                if "if_revision" in draft:
                    self._conditional.add(i)
            except (TypeError, ValueError, RecursionError) as e:
                self._ids.append(record.id or "")
                error = Error(f"record {i} of the batch was not sent: {e}", code="invalid_record")
                error.route = self.route
                self._results[i] = BatchResult(self._ids[i], None, False, error)
        self.result = None if self._pending else self._all(None)
        self._encode()

    def _encode(self) -> None:
        records = b",".join(self._encoded[i] for i in self._pending)
        self.body = b'{"' + self.member.encode() + b'":[' + records + b"]}"

    def read(
        self, reply: Reply, error: Error | None, parse_float: _json.ParseFloat
    ) -> list[BatchResult[T]]:
        """See Call. An error has the results so far."""
        try:
            results = decoded(reply, lambda _, members: self._checked(members), parse_float)
            error = self._take(results, error)
        except Error as undecodable:
            error = error or undecodable
            if is_unsure(error):
                self._unsure.update(self._pending)
        if error is not None:
            error.results = self._all(error)
            raise error
        return self._all(None)

    def ended(self, error: Error) -> Error:
        """See Call."""
        results = self._all(error)
        for i in self._conditional.intersection(self._pending, self._unsure):
            error = unknown(error)
            results[i] = BatchResult(self._ids[i], None, False, error)
        error.results = results
        return error

    def _all(self, error: Error | None) -> list[BatchResult[T]]:
        results = dict(self._results)
        for i in self._pending:
            results[i] = BatchResult(self._ids[i], None, False, error)
        return [results[i] for i in range(len(self._ids))]

    def _checked(self, members: Any) -> list[tuple[Any, T | None]]:
        """Return each result with its record, or raise a ValueError."""
        got = members["results"]
        if len(got) != len(self._pending):
            raise ValueError(f"{len(got)} results for {len(self._pending)} {self.member}")
        checked: list[tuple[Any, T | None]] = []
        for i, r in enumerate(got):
            failed = r.get("problem") is not None
            if r["index"] != i or not failed and r["status"] >= 300:
                raise ValueError(f"result {i} is not a result for {self.member}")
            checked.append((r, None if failed else self.stored(r)))
        return checked

    def _take(self, got: list[tuple[Any, T | None]], whole: Error | None) -> Error | None:
        """Store the results, and return the last retryable error; None if no record is pending."""
        left, retryable = [], None
        for i, (r, record) in zip(self._pending, got, strict=True):
            id_ = self._ids[i]
            if r.get("problem") is None:
                self._results[i] = BatchResult(
                    id_, record, r["status"] == 201, None, bool(r.get("deleted"))
                )
                continue
            error = from_problem(r["status"], r["problem"])
            error.route, error.tries = self.route, 1
            if whole is not None:
                error.request_id, error.retry_after = whole.request_id, whole.retry_after
            if is_unsure(error):
                self._unsure.add(i)
            if isinstance(error, RevisionMismatchError) and i in self._unsure:
                error = unknown(error)
            if error.retryable:
                left.append(i)
                retryable = error
            else:
                self._results[i] = BatchResult(id_, None, False, error)
        self._pending = left
        self._encode()
        return retryable
