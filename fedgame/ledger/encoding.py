"""How a row of the ledger is laid out in SQLite."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedgame.errors import LedgerError
from fedgame.ledger.events import (
    LedgerRow,
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
    kind = NAMES.get(type(row.event))
    if kind is None:
        raise LedgerError(f"cannot store an event of type {type(row.event).__name__}")
    values: list[Any] = [int(row.client), int(row.round), int(row.step), row.purpose, kind]
    for column in CONTENT[1:]:
        value = getattr(row.event, column, None)
        if value is not None and column in FLOATS:
            value = float(value)
            if not math.isfinite(value):
                raise LedgerError(f"{describe(tuple(values))}: {column} = {value}: must be finite")
        values.append(int(value) if column == "steps" and value is not None else value)
    return tuple(values)


def from_record(path: Path, record: tuple[Any, ...]) -> LedgerRow:
    """Return a stored row, checked as if it were new; `path` is for the message.

    Raises:
        LedgerError: The row is not what it should be.
    """
    values = dict(zip(CONTENT, record[4:], strict=True))
    try:
        kind = values["kind"]
        event = KINDS[kind](**{name: values[name] for name in FIELDS[kind]})
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"ledger {path}: {describe(record[:4])}: {error}") from error
    client, round_, step, purpose = record[:4]
    return LedgerRow(client, round_, step, purpose, event)
