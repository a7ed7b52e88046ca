"""How releases and purchases are written as the values of SQLite, and read back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, fields
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias, get_args

from fedgame.errors import LedgerError
from fedgame.ledger.events import (
    LaplaceVector,
    LedgerRow,
    Neighbours,
    PrivacyEvent,
    PureDPChoice,
    SampledGaussian,
    UnaccountedRelease,
)
from fedgame.ledger.layout import ADDED, CHARGE, EVENT, KEY, PURCHASE
from fedgame.ledger.purchases import Purchase

Content: TypeAlias = tuple[Any, ...]
"""An event as SQLite stores it, in the order of the content of EVENT."""

KINDS: dict[str, type[PrivacyEvent]] = {
    "sampled-gaussian": SampledGaussian,
    "pure-dp-choice": PureDPChoice,
    "laplace-vector": LaplaceVector,
    "unaccounted-release": UnaccountedRelease,
}
"""How each event is named in the file; an event of another type cannot be stored."""

NO_EVENT = "its event is missing"
"""What is wrong with a row whose event is not in the file."""

FLOATS = frozenset(
    {"noise_multiplier", "sampling_rate", "strength", "epsilon", "scale", "sensitivity"}
)
INTEGERS = frozenset({"steps", "dimension"})
FIELDS = {name: tuple(field.name for field in fields(kind)) for name, kind in KINDS.items()}
NAMES = {kind: name for name, kind in KINDS.items()}


def contents_of(rows: Iterable[LedgerRow]) -> dict[int, Content]:
    """Return what to store of each event, by `id` of the event; the rows must outlive the result.

    A large population's rows share few events, so that each is looked at once and not once a row.

    Raises:
        LedgerError: An event's type is unknown, or a number is not finite.
    """
    contents: dict[int, Content] = {}
    for row in rows:
        if id(row.event) not in contents:
            contents[id(row.event)] = _to_content(row)
    return contents


def _to_content(row: LedgerRow) -> Content:
    if type(row.event) not in NAMES:
        raise LedgerError(f"cannot store an event of type {type(row.event).__name__}")
    try:
        return _content(row.event)
    except ValueError as error:
        key = (row.client, row.round, row.step, row.purpose)
        raise LedgerError(f"{CHARGE.describe(key)}: {error}") from error


@lru_cache(maxsize=4096)  # most rows of a run hold one of few events
def _content(event: PrivacyEvent) -> Content:
    name = NAMES[type(event)]
    values: list[Any] = [name]
    for column in EVENT.content[1:]:
        value = getattr(event, column) if column in FIELDS[name] else None
        if value is not None and column in FLOATS:
            value = float(value)
            if not math.isfinite(value):
                raise ValueError(f"{column} = {value}: must be finite")
        values.append(int(value) if column in INTEGERS and value is not None else value)
    return tuple(values)


def digestible(record: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a stored release as it enters a digest: where it fits an older file, as it was there.

    The digest of a ledger thus outlives its upgrade.
    """
    kept, added = record[: -len(ADDED)], record[-len(ADDED) :]
    return kept if added == (None,) * len(ADDED) else record


def from_record(path: Path, record: tuple[Any, ...]) -> LedgerRow:
    """Return a stored row, checked as if it were new; `path` is for the message.

    Raises:
        LedgerError: The row is not what it should be.
    """
    client, round_, step, purpose, *content = record
    try:
        return LedgerRow(client, round_, step, purpose, to_event(*content))
    except (TypeError, ValueError) as error:
        raise damaged(path, record[: len(KEY)], error) from error


def damaged(path: Path, key: tuple[Any, ...], reason: object) -> LedgerError:
    """Return the error of a stored row that is not what it should be."""
    return LedgerError(f"ledger {path}: {CHARGE.describe(key)}: {reason}")


@lru_cache(maxsize=4096)
def to_event(kind: str | None, *rest: Any) -> PrivacyEvent:
    """Return a stored event, checked as if it were new.

    Args:
        kind: Its kind; None where a row has no event.
        *rest: The other values of its content.

    Raises:
        ValueError: It is not what it should be.
        TypeError: Likewise.
    """
    if kind is None:
        raise ValueError(NO_EVENT)
    values = dict(zip(EVENT.content[1:], rest, strict=True))
    if kind not in KINDS:
        raise ValueError(f"kind = {kind!r}: unknown event")
    if values["neighbours"] not in get_args(Neighbours):
        raise ValueError(f"neighbours = {values['neighbours']!r}: unknown relation")
    return KINDS[kind](**{name: values[name] for name in FIELDS[kind]})


def to_purchase_record(purchase: Purchase) -> tuple[Any, ...]:
    """Return the purchase as SQLite stores it, in the order of the columns of PURCHASE."""
    return tuple(
        int(value) if isinstance(value, Integral) else float(value) for value in astuple(purchase)
    )


def from_purchase_record(path: Path, record: tuple[Any, ...]) -> Purchase:
    """Return a stored purchase, checked as if it were new; `path` is for the message.

    Raises:
        LedgerError: The purchase is not what it should be.
    """
    try:
        return Purchase(*record)
    except (TypeError, ValueError) as error:
        raise LedgerError(f"ledger {path}: {PURCHASE.describe(record[:1])}: {error}") from error
