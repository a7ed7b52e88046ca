"""How releases, purchases and answers are laid out in SQLite."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields, replace
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Any, get_args

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
from fedgame.ledger.purchases import Purchase

KINDS: dict[str, type[PrivacyEvent]] = {
    "sampled-gaussian": SampledGaussian,
    "pure-dp-choice": PureDPChoice,
    "laplace-vector": LaplaceVector,
    "unaccounted-release": UnaccountedRelease,
}
"""How each event is named in the file; an event of another type cannot be stored."""

VERSION = 4
"""The layout of the tables, kept in the file's user_version; see LAYOUTS for the older ones."""

ADDED = {"scale": "REAL", "sensitivity": "REAL", "dimension": "INTEGER"}
"""The columns that version 3 added at the end of a release, with their types."""


@dataclass(frozen=True)
class Table:
    """A table of the ledger, and the SQL that follows from its columns.

    Attributes:
        name: Its name in the file.
        key: The columns of its primary key, by which it is ordered.
        content: The other columns.
        types: Everything that CREATE TABLE says after the name.
        label: What the user reads for a row, with the values of the key.
    """

    name: str
    key: tuple[str, ...]
    content: tuple[str, ...]
    types: str
    label: str

    @property
    def columns(self) -> str:
        """All columns, the key first, as SQL."""
        return ", ".join(self.key + self.content)

    @property
    def order(self) -> str:
        """The key as SQL."""
        return ", ".join(self.key)

    @property
    def select(self) -> str:
        """The query for all rows in order."""
        return f"SELECT {self.columns} FROM {self.name} ORDER BY {self.order}"

    @property
    def insert(self) -> str:
        """The statement that adds a record."""
        marks = ", ".join("?" * len(self.key + self.content))
        return f"INSERT INTO {self.name} ({self.columns}) VALUES ({marks})"

    def describe(self, key: tuple[Any, ...]) -> str:
        """Return a row's key as the user reads it."""
        return self.label.format(*key)


# rounds come one after the other: with the round first in the key, a large population's rows are
# added at the end of the file and not all over it
RELEASE = Table(
    "release",
    ("client", "round", "step", "purpose"),
    (
        *("kind", "neighbours", "mechanism"),
        *("noise_multiplier", "sampling_rate", "steps", "strength", "epsilon"),
        *ADDED,
    ),
    """(
    client INTEGER NOT NULL, round INTEGER NOT NULL, step INTEGER NOT NULL, purpose TEXT NOT NULL,
    kind TEXT NOT NULL, neighbours TEXT NOT NULL, mechanism TEXT NOT NULL,
    noise_multiplier REAL, sampling_rate REAL, steps INTEGER, strength REAL, epsilon REAL,
    scale REAL, sensitivity REAL, dimension INTEGER,
    PRIMARY KEY (round, client, step, purpose)
) STRICT, WITHOUT ROWID""",
    "row (client {}, round {}, step {}, {})",
)

PURCHASE = Table(
    "purchase",
    ("client",),
    ("epsilon", "delta", "payment", "draws", "noise_multiplier", "report"),
    """(
    client INTEGER NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, payment REAL NOT NULL,
    draws INTEGER NOT NULL, noise_multiplier REAL NOT NULL, report REAL NOT NULL,
    PRIMARY KEY (client)
) STRICT, WITHOUT ROWID""",
    "the purchase of client {}",
)

ANSWER = Table(
    "answer",
    ("action",),
    ("round", "digest", "reply"),
    """(
    action TEXT NOT NULL, round INTEGER NOT NULL, digest BLOB NOT NULL, reply BLOB NOT NULL,
    PRIMARY KEY (action)
) STRICT, WITHOUT ROWID""",
    "the answer to {}",
)

RELEASE_BEFORE_3 = replace(RELEASE, content=RELEASE.content[: -len(ADDED)])

LAYOUTS: dict[int, tuple[Table, ...]] = {
    1: (RELEASE_BEFORE_3,),
    2: (RELEASE_BEFORE_3, PURCHASE),
    3: (RELEASE, PURCHASE),
    VERSION: (RELEASE, PURCHASE, ANSWER),
}
"""The tables that a file of each version has, by which older ones are read."""

FLOATS = frozenset(
    {"noise_multiplier", "sampling_rate", "strength", "epsilon", "scale", "sensitivity"}
)
INTEGERS = frozenset({"steps", "dimension"})
FIELDS = {name: tuple(field.name for field in fields(kind)) for name, kind in KINDS.items()}
NAMES = {kind: name for name, kind in KINDS.items()}


def to_record(row: LedgerRow) -> tuple[Any, ...]:
    """Return the row as SQLite stores it, in the order of the columns of RELEASE.

    Raises:
        LedgerError: The event's type is unknown, or a number is not finite.
    """
    key = (int(row.client), int(row.round), int(row.step), row.purpose)
    if type(row.event) not in NAMES:
        raise LedgerError(f"cannot store an event of type {type(row.event).__name__}")
    try:
        return key + _content(row.event)
    except ValueError as error:
        raise LedgerError(f"{RELEASE.describe(key)}: {error}") from error


@lru_cache(maxsize=4096)  # most rows of a run hold one of few events
def _content(event: PrivacyEvent) -> tuple[Any, ...]:
    name = NAMES[type(event)]
    values: list[Any] = [name]
    for column in RELEASE.content[1:]:
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
    client, round_, step, purpose, *_ = record
    return LedgerRow(client, round_, step, purpose, event_of(path, record))


def event_of(path: Path, record: tuple[Any, ...]) -> PrivacyEvent:
    """Return the event of a stored row, checked as if it were new; `path` is for the message.

    Raises:
        LedgerError: The event is not what it should be.
    """
    try:
        return _event(*record[len(RELEASE.key) :])
    except (TypeError, ValueError) as error:
        raise LedgerError(f"ledger {path}: {RELEASE.describe(record[:4])}: {error}") from error


@lru_cache(maxsize=4096)
def _event(kind: str, *rest: Any) -> PrivacyEvent:
    values = dict(zip(RELEASE.content[1:], rest, strict=True))
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
