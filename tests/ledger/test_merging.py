from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedgame.errors import LedgerError
from fedgame.ledger.events import PrivacyEvent
from fedgame.ledger.store import Ledger, merge, missing
from tests.ledger.support import (
    CHOICE,
    GAUSSIAN,
    UNCOVERED,
    VECTOR,
    deal,
    row,
    written,
    written_by_version_1,
    written_by_version_2,
    written_by_version_4,
)


def test_merge_is_the_union(tmp_path: Path) -> None:
    sources = [
        written(tmp_path / "0", row(0), row(0, round_=2)),
        written(tmp_path / "1", row(1, event=CHOICE)),
    ]
    with Ledger(tmp_path / "all") as target:
        target.append([row(0)])
        merge(target, sources)
        merge(target, sources)
        assert target.rows() == [row(0), row(0, round_=2), row(1, event=CHOICE)]
        assert missing(target, sources) == []


def test_merging_node_ledgers_gives_the_bits_of_one_ledger(tmp_path: Path) -> None:
    rows = [row(k, round_=r) for k in range(20) for r in range(1, 4)]
    whole = written(tmp_path / "whole", *rows)
    sources = [
        written(tmp_path / f"node{n}", *(r for r in rows if r.client % 3 == n)) for n in range(3)
    ]
    with Ledger(tmp_path / "all") as target, Ledger(whole) as reference:
        merge(target, sources)
        assert target.digest() == reference.digest()


def test_files_that_number_their_events_differently_merge_into_one(tmp_path: Path) -> None:
    events: list[PrivacyEvent] = [GAUSSIAN, CHOICE, VECTOR, UNCOVERED]
    rows = [row(k, event=events[k % 4]) for k in range(24)]
    whole = written(tmp_path / "whole", *rows)
    sources = [
        written(tmp_path / "0", *rows[:8]),
        written(tmp_path / "1", *rows[15:7:-1]),
        written(tmp_path / "2", rows[18], rows[16], rows[17]),
    ]
    with Ledger(tmp_path / "all") as target, Ledger(whole) as reference:
        target.append([rows[19], rows[7], rows[6], *rows[20:], rows[10]])
        merge(target, sources)
        assert target.rows() == rows
        assert target.digest() == reference.digest()
        assert target.connection.execute("SELECT count(*) FROM event").fetchone() == (4,)
        assert missing(target, sources) == rows[19:]


def test_equal_numbers_of_different_events_are_a_contradiction(tmp_path: Path) -> None:
    # in both files the event has the number 1
    source = written(tmp_path / "0", row(1, event=CHOICE))
    with Ledger(written(tmp_path / "all", row(1))) as target:
        with pytest.raises(LedgerError, match=r"client 1.*differs"):
            merge(target, [source])
        assert target.rows() == [row(1)]
        assert target.connection.execute("SELECT count(*) FROM event").fetchone() == (1,)


def test_different_numbers_of_one_event_are_none(tmp_path: Path) -> None:
    source = written(tmp_path / "0", row(1), row(2))
    with Ledger(written(tmp_path / "all", row(1), row(2))) as target:
        columns = "kind, neighbours, mechanism, noise_multiplier, sampling_rate, steps, strength"
        target.connection.execute(
            f"INSERT INTO event (id, {columns}) SELECT 7, {columns} FROM event"
        )
        target.connection.execute("UPDATE charge SET event = 7 WHERE client = 2")
        merge(target, [source])
        assert target.rows() == [row(1), row(2)]


def test_merge_refuses_a_row_that_two_sources_hold(tmp_path: Path) -> None:
    sources = [written(tmp_path / "0", row(0), row(5)), written(tmp_path / "1", row(1), row(5))]
    with Ledger(tmp_path / "all") as target:
        with pytest.raises(LedgerError, match=r"client 5.*row twice"):
            merge(target, sources)
        with pytest.raises(LedgerError, match="row twice"):
            missing(target, sources)
        assert target.rows() == []
        merge(target, sources[:1])


def test_merge_refuses_a_contradiction_and_changes_nothing(tmp_path: Path) -> None:
    source = written(tmp_path / "0", row(0), row(1, event=CHOICE))
    with Ledger(tmp_path / "all") as target:
        target.append([row(1)])
        with pytest.raises(LedgerError, match=r"client 1.*differs"):
            merge(target, [source])
        assert target.rows() == [row(1)]


def test_missing_lists_what_no_source_holds(tmp_path: Path) -> None:
    source = written(tmp_path / "0", row(0))
    with Ledger(tmp_path / "all") as target:
        target.append([row(0), row(3), row(2)])
        assert missing(target, [source]) == [row(2), row(3)]
        assert missing(target, []) == [row(0), row(2), row(3)]


def test_merge_names_a_source_that_cannot_be_read(tmp_path: Path) -> None:
    corrupt = tmp_path / "corrupt"
    corrupt.write_bytes(b"no database at all, really not" * 100)
    with Ledger(tmp_path / "all") as target:
        for path in (corrupt, tmp_path / "absent"):
            with pytest.raises(LedgerError, match=path.name):
                merge(target, [path])
        assert not (tmp_path / "absent").exists()
        assert target.rows() == []


def test_merge_reads_a_ledger_that_a_worker_still_has_open(tmp_path: Path) -> None:
    worker = Ledger(tmp_path / "0")
    worker.append([row(0)])
    with Ledger(tmp_path / "all") as target:
        merge(target, [worker.path])
        assert target.rows() == [row(0)]
    worker.append([row(1)])
    worker.close()


def test_merge_brings_the_purchases_in(tmp_path: Path) -> None:
    sources = [
        written(tmp_path / "0", row(0), bought=[deal(0)]),
        written(tmp_path / "1", row(1), bought=[deal(1, payment=0.2)]),
    ]
    with Ledger(tmp_path / "all") as target:
        for _ in range(2):
            merge(target, sources)
            assert target.purchases() == {0: deal(0), 1: deal(1, payment=0.2)}
        assert target.rows() == [row(0), row(1)]
        assert missing(target, sources) == []


def test_a_purchase_that_only_the_client_knows_was_never_agreed_on(tmp_path: Path) -> None:
    source = written(tmp_path / "0", row(0), row(1), bought=[deal(0), deal(1)])
    with Ledger(tmp_path / "all") as target:
        target.append_purchases([deal(1), deal(7)])
        merge(target, [source])
        assert target.purchases() == {1: deal(1), 7: deal(7)}
        assert target.rows() == [row(0), row(1)]


@pytest.mark.parametrize(
    "change", [{"epsilon": 1.6}, {"delta": 2e-5}, {"payment": 0.7}, {"draws": 13}, {"report": 0.2}]
)
def test_merge_refuses_a_deal_that_contradicts_the_targets(
    tmp_path: Path, change: dict[str, float]
) -> None:
    source = written(tmp_path / "0", row(0), bought=[deal(0), deal(3, **change)])
    with Ledger(tmp_path / "all") as target:
        target.append_purchases([deal(3)])
        with pytest.raises(LedgerError, match=r"all: the purchase of client 3 differs") as error:
            merge(target, [source])
        assert "\n" not in str(error.value)
        assert target.purchases() == {3: deal(3)}
        assert target.rows() == []
        merge(target, [])  # nothing is left over from what failed


def test_merge_refuses_two_sources_that_contradict_each_other(tmp_path: Path) -> None:
    sources = [
        written(tmp_path / "0", row(0), bought=[deal(3), deal(4)]),
        written(tmp_path / "1", row(1), bought=[deal(3), deal(4, noise_multiplier=2.4)]),
    ]
    with Ledger(tmp_path / "all") as target:
        with pytest.raises(LedgerError, match=r"1: the purchase of client 4 differs"):
            merge(target, sources)
        assert target.purchases() == {}
        assert target.rows() == []
        # the releases can still be compared
        assert missing(target, sources) == []


def test_merge_accepts_a_deal_that_both_sides_recorded(tmp_path: Path) -> None:
    sources = [written(tmp_path / str(n), row(n), bought=[deal(3)]) for n in range(2)]
    with Ledger(tmp_path / "all") as target:
        merge(target, sources)
        assert target.purchases() == {3: deal(3)}


def test_merge_reads_a_source_of_version_1(tmp_path: Path) -> None:
    source = written_by_version_1(tmp_path / "0")
    with Ledger(tmp_path / "all") as target:
        target.append_purchases([deal(1)])
        merge(target, [source])
        assert target.rows() == [row(1), row(1, round_=2, event=CHOICE)]
        assert target.purchases() == {1: deal(1)}
        assert missing(target, [source]) == []


def test_merge_reads_a_source_of_version_2_beside_one_of_today(tmp_path: Path) -> None:
    sources = [
        written_by_version_2(tmp_path / "0"),
        written(tmp_path / "1", row(1, round_=3, event=VECTOR)),
    ]
    rows = [row(1), row(1, round_=2, event=CHOICE), row(1, round_=3, event=VECTOR)]
    whole = written(tmp_path / "whole", *rows, bought=[deal(1)])
    with Ledger(tmp_path / "all") as target, Ledger(whole) as reference:
        merge(target, sources)
        assert target.rows() == rows
        assert target.digest() == reference.digest()
        assert missing(target, sources) == []


def test_merge_reads_a_source_of_version_4_beside_one_of_today(tmp_path: Path) -> None:
    rows = [row(1), row(1, round_=2, event=CHOICE), row(1, round_=3, event=VECTOR)]
    sources = [written_by_version_4(tmp_path / "0"), written(tmp_path / "1", row(2, event=VECTOR))]
    with Ledger(written(tmp_path / "all", rows[2], bought=[deal(1)])) as target:
        merge(target, sources)
        assert target.rows() == [*rows, row(2, event=VECTOR)]
        assert missing(target, sources) == []


@pytest.mark.parametrize("change", [{"scale": 0.6}, {"sensitivity": 0.1}, {"dimension": 2}])
def test_merge_refuses_a_vector_that_contradicts_the_targets(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    source = written(tmp_path / "0", row(1, event=replace(VECTOR, **change)))
    with Ledger(tmp_path / "all") as target:
        target.append([row(1, event=VECTOR)])
        with pytest.raises(LedgerError, match=r"client 1.*differs"):
            merge(target, [source])
        assert target.rows() == [row(1, event=VECTOR)]
