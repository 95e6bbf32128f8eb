"""JSON in which numbers keep their values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

ParseFloat = Callable[[str], Any]


def parse_float(text: str) -> float | Decimal:
    """Return a float, or a Decimal if the number is too large for a float."""
    value = float(text)
    return value if math.isfinite(value) else Decimal(text)


def loads(text: bytes, parse_float: ParseFloat) -> Any:
    """Decode JSON. Integers become int, or Decimal if they have too many digits for int."""
    try:
        return json.loads(text, parse_float=parse_float)
    except json.JSONDecodeError:
        raise
    except (
        ValueError
    ):  # too many digits (docs.python.org/3/library/stdtypes.html#int-max-str-digits)
        return json.loads(text, parse_float=parse_float, parse_int=_parse_int)


def _parse_int(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


def dumps(value: object) -> bytes:
    """Encode a value, in which any number may be a Decimal.

    Raises:
        TypeError: If JSON has no such value, such as a datetime.
        ValueError: If a number is infinite or NaN, or text is not Unicode.
    """
    try:
        return _plain(value).encode()
    except _HasDecimalError:
        return _with_decimals(value).encode()


class _HasDecimalError(Exception):
    pass


def _plain(value: object) -> str:
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_refuse
    )


def _refuse(value: object) -> None:
    if isinstance(value, Decimal):
        raise _HasDecimalError
    raise TypeError(f"JSON has no {type(value).__name__}; pass text or a number instead")


def _with_decimals(value: object) -> str:
    # The encoder of the standard library cannot write the digits of a Decimal.
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"JSON has no number {value}")
        return str(value)
    if isinstance(value, dict):
        members = (_plain(str(k)) + ":" + _with_decimals(v) for k, v in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_with_decimals, value)) + "]"
    return _plain(value)
