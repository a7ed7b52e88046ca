"""Releases, purchases and ledgers that several test files share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedgame.ledger.events import (
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
"""What the first release of the package wrote."""

VERSION_1_DIGEST = "7ea633768dcdd6dc937fdd20fb737de6926ee91dd23eca3cddbcb0bc5ee981fc"
"""The digest that the same release computed of it."""


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
    old = sqlite3.connect(path)
    old.executescript(VERSION_1)
    old.close()
    return path
