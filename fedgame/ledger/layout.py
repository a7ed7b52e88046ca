"""The tables of a ledger's file, those of older versions, and the SQL that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

VERSION = 5
"""The layout of the tables, kept in the file's user_version; see LAYOUTS for the older ones."""


@dataclass(frozen=True)
class Table:
    """A table of the ledger, and the SQL that follows from its columns.

    Attributes:
        name: Its name in the file.
        key: The columns of its primary key, by which it is ordered.
        content: The other columns.
        types: Everything that CREATE says after the name.
        label: What the user reads for a row, with the values of the key.
        what: What CREATE makes.
    """

    name: str
    key: tuple[str, ...]
    content: tuple[str, ...]
    types: str
    label: str
    what: str = "TABLE"

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

    @property
    def create(self) -> str:
        """The statement that makes it."""
        return f"CREATE {self.what} {self.name} {self.types}"

    @property
    def create_beside(self) -> str:
        """The statement that makes it for this connection only."""
        return f"CREATE TEMP {self.what} {self.name} {self.types}"

    @property
    def where(self) -> str:
        """The condition on the key, with a mark for each of its values."""
        return " AND ".join(f"{column} = ?" for column in self.key)

    @property
    def same(self) -> str:
        """The condition that `have` and `new` have the same content, be it unknown in both."""
        return " AND ".join(f"have.{column} IS new.{column}" for column in self.content)

    def describe(self, key: tuple[Any, ...]) -> str:
        """Return a row's key as the user reads it."""
        return self.label.format(*key)


KEY = ("client", "round", "step", "purpose")
"""What tells a release from all others."""

BY_ROUND = "round, client, step, purpose"
"""The order of the releases in the file, as SQL: rounds come one after the other, so that a large
population's rows are added at the end of the file and not all over it."""

ADDED = ("scale", "sensitivity", "dimension")
"""The columns that version 3 added at the end of a release."""

EVENT = Table(
    "event",
    ("id",),
    (
        *("kind", "neighbours", "mechanism"),
        *("noise_multiplier", "sampling_rate", "steps", "strength", "epsilon"),
        *ADDED,
    ),
    """(
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL, neighbours TEXT NOT NULL, mechanism TEXT NOT NULL,
    noise_multiplier REAL, sampling_rate REAL, steps INTEGER, strength REAL, epsilon REAL,
    scale REAL, sensitivity REAL, dimension INTEGER
) STRICT""",
    "event {}",
)

EVENT_INDEX = """CREATE INDEX event_numbers ON event (
    noise_multiplier, sampling_rate, epsilon, scale, sensitivity
)"""
"""Finds an event by the numbers that tell events of one kind apart."""

CHARGE = Table(
    "charge",
    KEY,
    ("event",),
    f"""(
    client INTEGER NOT NULL, round INTEGER NOT NULL, step INTEGER NOT NULL, purpose TEXT NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY ({BY_ROUND})
) STRICT, WITHOUT ROWID""",
    "row (client {}, round {}, step {}, {})",
)

# a charge whose event is gone stays in sight, as a row without a kind, which readers refuse
RELEASE = Table(
    "release",
    KEY,
    EVENT.content,
    f"""AS
    SELECT {", ".join((*KEY, *EVENT.content))}
    FROM charge LEFT JOIN event ON event.id = charge.event""",
    CHARGE.label,
    "VIEW",
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
    4: (RELEASE, PURCHASE, ANSWER),
    VERSION: (RELEASE, EVENT, CHARGE, PURCHASE, ANSWER),
}
"""The tables that a file of each version has, the releases first, by which older ones are read."""


def stored_in(version: int, name: str) -> Table | None:
    """Return a table as files of a version have it, None where they have none."""
    return {table.name: table for table in LAYOUTS[version]}.get(name)
