from __future__ import annotations

from pathlib import Path

import pytest

from fedgame.errors import LedgerError
from fedgame.ledger.events import LedgerRow, PureDPChoice, SampledGaussian
from fedgame.ledger.replay import LEDGER_FILE, read_events
from fedgame.ledger.store import Ledger

STEP = SampledGaussian(4.0, 0.1, 1, "example", "gaussian")
CHOICE = PureDPChoice(0.1, "example", "exponential")


def test_events_are_read_back_by_client_and_round(tmp_path: Path) -> None:
    with Ledger(tmp_path / LEDGER_FILE) as ledger:
        ledger.append([LedgerRow(k, r, 0, "update", STEP) for k in range(3) for r in (2, 1)])
        ledger.append([LedgerRow(1, 0, 0, "choice", CHOICE)])
    assert read_events(tmp_path) == {0: [STEP] * 2, 1: [CHOICE, STEP, STEP], 2: [STEP] * 2}


def test_resuming_10_and_10_rounds_reads_as_20(tmp_path: Path) -> None:
    for first in (1, 11):
        with Ledger(tmp_path / LEDGER_FILE) as ledger:
            ledger.append(LedgerRow(0, r, 0, "update", STEP) for r in range(first, first + 10))
    assert read_events(tmp_path) == {0: [STEP] * 20}


def test_a_folder_without_a_ledger_is_one_line(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(LedgerError) as error:
            read_events(folder)
        assert str(folder) in str(error.value)
        assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_counts_what_its_nodes_had_released(tmp_path: Path) -> None:
    with Ledger(tmp_path / LEDGER_FILE) as server:
        server.append(LedgerRow(k, 1, 0, "update", STEP) for k in range(2))
    for node in range(2):
        with Ledger(tmp_path / f"node-{node}.sqlite") as own:
            own.append(LedgerRow(node, r, 0, "update", STEP) for r in (1, 2))
    assert read_events(tmp_path) == {0: [STEP] * 2, 1: [STEP] * 2}
    # reading changes nothing
    assert read_events(tmp_path) == {0: [STEP] * 2, 1: [STEP] * 2}


def test_a_ledger_with_flipped_bytes_is_one_line_or_reads_as_before(tmp_path: Path) -> None:
    with Ledger(tmp_path / LEDGER_FILE) as ledger:
        ledger.append(LedgerRow(0, r, 0, "update", STEP) for r in range(3))
    content = bytearray((tmp_path / LEDGER_FILE).read_bytes())
    messages = []
    for place in range(0, min(len(content), 4096), 37):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (tmp_path / LEDGER_FILE).write_bytes(bytes(damaged))
        try:
            read_events(tmp_path)
        except LedgerError as error:
            messages.append(str(error))
    assert messages
    assert not any("\n" in message for message in messages)
