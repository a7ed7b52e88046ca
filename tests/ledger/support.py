"""Releases, purchases and ledgers that several test files share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgame.ledger.events import (
    LaplaceVector,
    LedgerRow,
    PrivacyEvent,
    PureDPChoice,
    SampledGaussian,
    UnaccountedRelease,
)
from fedgame.ledger.purchases import Purchase
from fedgame.ledger.store import Ledger

GAUSSIAN = SampledGaussian(2.5, 0.1, 3, "example", "jko", strength=1e-4)
CHOICE = PureDPChoice(0.1, "example", "exponential")
VECTOR = LaplaceVector(0.5, 0.2, 3, "client", "laplace")
UNCOVERED = UnaccountedRelease("example", "argmin")
BOUGHT = Purchase(0, 1.5, 1e-5, 0.75, 12, 2.5, 0.3)

VERSION_1 = """
CREATE TABLE release (
    client INTEGER NOT NULL, round INTEGER NOT NULL, step INTEGER NOT NULL, purpose TEXT NOT NULL,
    kind TEXT NOT NULL, neighbours TEXT NOT NULL, mechanism TEXT NOT NULL,
    noise_multiplier REAL, sampling_rate REAL, steps INTEGER, strength REAL, epsilon REAL,
    PRIMARY KEY (client, round, step, purpose)
) STRICT, WITHOUT ROWID;
INSERT INTO release VALUES
    (1, 1, 0, 'u', 'sampled-gaussian', 'example', 'jko', 2.5, 0.1, 3, 0.0001, NULL),
    (1, 2, 0, 'u', 'pure-dp-choice', 'example', 'exponential', NULL, NULL, NULL, NULL, 0.1);
PRAGMA user_version = 1;
"""
"""A ledger of version 1, which had no purchases."""

VERSION_1_DIGEST = "7ea633768dcdd6dc937fdd20fb737de6926ee91dd23eca3cddbcb0bc5ee981fc"
"""The digest that the code of that version computed of it."""

VERSION_2 = VERSION_1.replace(
    "PRAGMA user_version = 1;",
    """
CREATE TABLE purchase (
    client INTEGER NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, payment REAL NOT NULL,
    draws INTEGER NOT NULL, noise_multiplier REAL NOT NULL, report REAL NOT NULL,
    PRIMARY KEY (client)
) STRICT, WITHOUT ROWID;
INSERT INTO purchase VALUES (1, 1.5, 0.00001, 0.75, 12, 2.5, 0.3);
PRAGMA user_version = 2;
""",
)
"""A ledger of version 2, which had no Laplace vectors."""

VERSION_3 = VERSION_2.replace(
    "PRAGMA user_version = 2;",
    """
ALTER TABLE release ADD COLUMN scale REAL;
ALTER TABLE release ADD COLUMN sensitivity REAL;
ALTER TABLE release ADD COLUMN dimension INTEGER;
INSERT INTO release VALUES (
    1, 3, 0, 'u', 'laplace-vector', 'client', 'laplace', NULL, NULL, NULL, NULL, NULL, 0.5, 0.2, 3
);
PRAGMA user_version = 3;
""",
)
"""A ledger of version 3, which kept no answers."""

VERSION_4 = VERSION_3.replace(
    "PRAGMA user_version = 3;",
    """
CREATE TABLE answer (
    action TEXT NOT NULL, round INTEGER NOT NULL, digest BLOB NOT NULL, reply BLOB NOT NULL,
    PRIMARY KEY (action)
) STRICT, WITHOUT ROWID;
INSERT INTO answer VALUES ('train', 3, x'01', x'02');
PRAGMA user_version = 4;
""",
)
"""A ledger of version 4, which had the whole event in every row."""

VERSION_2_DIGEST = "5285cb70a8499c4c4688a746d26aba18ac3a54222e7fd7bda931de5b7a8193f4"
"""The digest that the code of that version computed of it."""

VERSION_3_DIGEST = "0997de53b8888a03cdf157152eb8e0ae38eb09c899ebdf2ceb42d2b2b375be77"
"""The digest that the code of version 3 computed of its ledger, and that of version 4 of its."""


def row(
    client: int, round_: int = 1, step: int = 0, event: PrivacyEvent = GAUSSIAN, purpose: str = "u"
) -> LedgerRow:
    return LedgerRow(client, round_, step, purpose, event)


def deal(client: int, **change: Any) -> Purchase:
    return replace(BOUGHT, client=client, **change)


def written(path: Path, *rows: LedgerRow, bought: Iterable[Purchase] = ()) -> Path:
    with Ledger(path) as ledger:
        ledger.append(rows)
        ledger.append_purchases(bought)
    return path


def written_by_version_1(path: Path) -> Path:
    """Make a ledger of client 1's two releases, as it was before purchases."""
    return written_by_script(path, VERSION_1)


def written_by_version_2(path: Path) -> Path:
    """Make the same ledger with a purchase from client 1, as it was before Laplace vectors."""
    return written_by_script(path, VERSION_2)


def written_by_version_3(path: Path) -> Path:
    """Make the same ledger with a Laplace vector, as it was before answers."""
    return written_by_script(path, VERSION_3)


def written_by_version_4(path: Path) -> Path:
    """Make the same ledger with an answer, as it was before events were kept once."""
    return written_by_script(path, VERSION_4)


def written_by_script(path: Path, script: str) -> Path:
    old = sqlite3.connect(path)
    old.executescript(script)
    old.close()
    return path
