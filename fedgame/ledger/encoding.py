"""How a row of the ledger is laid out in SQLite."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from fedgame.errors import LedgerError
from fedgame.ledger.events import (
    LedgerRow,
    Neighbours,
    PrivacyEvent,
    PureDPChoice,
    SampledGaussian,
    UnaccountedRelease,
)

KINDS: dict[str, type[PrivacyEvent]] = {
    "sampled-gaussian": SampledGaussian,
    "pure-dp-choice": PureDPChoice,
    "unaccounted-release": UnaccountedRelease,
}
"""How each event is named in the file; an event of another type cannot be stored."""

VERSION = 1
"""The layout of the table, kept in the file's user_version."""

TABLE = """CREATE TABLE release (
    client INTEGER NOT NULL, round INTEGER NOT NULL, step INTEGER NOT NULL, purpose TEXT NOT NULL,
    kind TEXT NOT NULL, neighbours TEXT NOT NULL, mechanism TEXT NOT NULL,
    noise_multiplier REAL, sampling_rate REAL, steps INTEGER, strength REAL, epsilon REAL,
    PRIMARY KEY (client, round, step, purpose)
) STRICT, WITHOUT ROWID"""

KEY = ("client", "round", "step", "purpose")
CONTENT = (
    *("kind", "neighbours", "mechanism"),
    *("noise_multiplier", "sampling_rate", "steps", "strength", "epsilon"),
)
FLOATS = frozenset({"noise_multiplier", "sampling_rate", "strength", "epsilon"})
FIELDS = {name: tuple(field.name for field in fields(kind)) for name, kind in KINDS.items()}
NAMES = {kind: name for name, kind in KINDS.items()}

COLUMNS = ", ".join(KEY + CONTENT)
ORDER = ", ".join(KEY)


def describe(key: tuple[Any, ...]) -> str:
    """Return a row's key as the user reads it."""
    return f"row (client {key[0]}, round {key[1]}, step {key[2]}, {key[3]})"


def to_record(row: LedgerRow) -> tuple[Any, ...]:
    """Return the row as SQLite stores it, in the order KEY + CONTENT.

    Raises:
        LedgerError: The event's type is unknown, or a number is not finite.
    """
    key = (int(row.client), int(row.round), int(row.step), row.purpose)
    if type(row.event) not in NAMES:
        raise LedgerError(f"cannot store an event of type {type(row.event).__name__}")
    try:
        return key + _content(row.event)
    except ValueError as error:
        raise LedgerError(f"{describe(key)}: {error}") from error


@lru_cache(maxsize=4096)  # most rows of a run hold one of few events
def _content(event: PrivacyEvent) -> tuple[Any, ...]:
    values: list[Any] = [NAMES[type(event)]]
    for column in CONTENT[1:]:
        value = getattr(event, column, None)
        if value is not None and column in FLOATS:
            value = float(value)
            if not math.isfinite(value):
                raise ValueError(f"{column} = {value}: must be finite")
        values.append(int(value) if column == "steps" and value is not None else value)
    return tuple(values)


def from_record(path: Path, record: tuple[Any, ...]) -> LedgerRow:
    """Return a stored row, checked as if it were new; `path` is for the message.

    Raises:
        LedgerError: The row is not what it should be.
    """
    client, round_, step, purpose, *content = record
    try:
        return LedgerRow(client, round_, step, purpose, _event(*content))
    except (TypeError, ValueError) as error:
        raise LedgerError(f"ledger {path}: {describe(record[:4])}: {error}") from error


@lru_cache(maxsize=4096)
def _event(kind: str, *rest: Any) -> PrivacyEvent:
    values = dict(zip(CONTENT[1:], rest, strict=True))
    if kind not in KINDS:
        raise ValueError(f"kind = {kind!r}: unknown event")
    if values["neighbours"] not in get_args(Neighbours):
        raise ValueError(f"neighbours = {values['neighbours']!r}: unknown relation")
    return KINDS[kind](**{name: values[name] for name in FIELDS[kind]})
