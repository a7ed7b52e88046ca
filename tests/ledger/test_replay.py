from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedgame.errors import LedgerError
from fedgame.ledger.events import LedgerRow, PureDPChoice, SampledGaussian
from fedgame.ledger.replay import LEDGER_FILE, read_events, read_purchases
from fedgame.ledger.store import Ledger
from tests.ledger.support import GAUSSIAN, deal, written, written_by_version_1

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


@pytest.mark.parametrize("read", [read_events, read_purchases])
def test_a_folder_without_a_ledger_is_one_line(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(LedgerError) as error:
            read(folder)
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


def test_purchases_are_read_back_in_the_order_of_the_clients(tmp_path: Path) -> None:
    written(tmp_path / LEDGER_FILE, bought=[deal(2), deal(0)])
    written(tmp_path / "node-0.sqlite", bought=[deal(1, payment=0.1), deal(2)])
    assert list(read_purchases(tmp_path).items()) == [
        (0, deal(0)),
        (1, deal(1, payment=0.1)),
        (2, deal(2)),
    ]
    assert read_events(tmp_path) == {}


def test_a_node_that_recorded_another_deal_is_named(tmp_path: Path) -> None:
    written(tmp_path / LEDGER_FILE, bought=[deal(2)])
    written(tmp_path / "node-0.sqlite", bought=[deal(2, epsilon=1.4)])
    with pytest.raises(LedgerError, match=r"node-0\.sqlite: the purchase of client 2 differs"):
        read_purchases(tmp_path)


def test_a_run_of_version_1_is_audited_as_it_was(tmp_path: Path) -> None:
    path = written_by_version_1(tmp_path / LEDGER_FILE)
    before = path.read_bytes()
    assert read_events(tmp_path) == {1: [GAUSSIAN, CHOICE]}
    assert read_purchases(tmp_path) == {}
    assert path.read_bytes() == before
