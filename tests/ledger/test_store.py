from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedgame.errors import DuplicateRow, LedgerError
from fedgame.ledger.events import (
    LedgerRow,
    PrivacyEvent,
    PureDPChoice,
    SampledGaussian,
    UnaccountedRelease,
)
from fedgame.ledger.store import Ledger, merge, missing

GAUSSIAN = SampledGaussian(2.5, 0.1, 3, "example", "jko", strength=1e-4)
CHOICE = PureDPChoice(0.1, "example", "exponential")
UNCOVERED = UnaccountedRelease("example", "argmin")


def row(
    client: int, round_: int = 1, step: int = 0, event: PrivacyEvent = GAUSSIAN, purpose: str = "u"
) -> LedgerRow:
    return LedgerRow(client, round_, step, purpose, event)


def written(path: Path, *rows: LedgerRow) -> Path:
    with Ledger(path) as ledger:
        ledger.append(rows)
    return path


def test_rows_come_back_ordered_and_equal(tmp_path: Path) -> None:
    rows = [
        row(10, event=CHOICE, purpose="choice"),
        row(2, round_=2, event=UNCOVERED),
        row(2, round_=1, step=1),
        row(2, round_=1, step=0, purpose="update"),
        row(2, round_=1, step=0, purpose="choice", event=CHOICE),
    ]
    with Ledger(tmp_path / "l") as ledger:
        ledger.append(rows)
        stored = ledger.rows()
        by_client = ledger.events_by_client()
    expected = sorted(rows, key=lambda r: (r.client, r.round, r.step, r.purpose))
    assert stored == expected
    assert by_client == {2: [CHOICE, GAUSSIAN, GAUSSIAN, UNCOVERED], 10: [CHOICE]}


positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@given(
    z=positive,
    q=st.floats(min_value=0, max_value=1, exclude_min=True),
    strength=st.none() | positive,
    epsilon=positive,
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_floats_round_trip_exactly(
    tmp_path: Path, z: float, q: float, strength: float | None, epsilon: float
) -> None:
    path = tmp_path / "l"
    path.unlink(missing_ok=True)
    rows = [
        row(0, event=SampledGaussian(z, q, 1, "example", "jko", strength)),
        row(1, event=PureDPChoice(epsilon, "client", "exponential")),
    ]
    written(path, *rows)
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == rows


def test_numpy_numbers_are_stored_as_plain_ones(tmp_path: Path) -> None:
    rate: Any = np.float32(0.5)
    count: Any = np.int64(2)
    event = SampledGaussian(np.float64(1.5), rate, count, "example", "g")
    with Ledger(tmp_path / "l") as ledger:
        ledger.append([LedgerRow(count, count, 0, "u", event)])
        stored = ledger.rows()[0]
    assert stored == row(2, 2, event=SampledGaussian(1.5, 0.5, 2, "example", "g"))
    assert type(stored.client) is int


@pytest.mark.parametrize("again", [row(1), row(1, event=CHOICE)])
def test_a_duplicate_is_named_and_nothing_is_written(tmp_path: Path, again: LedgerRow) -> None:
    with Ledger(tmp_path / "l") as ledger:
        ledger.append([row(1)])
        with pytest.raises(DuplicateRow, match=r"client 1, round 1, step 0, u\) is there already"):
            ledger.append([row(0), again, row(2)])
        assert ledger.rows() == [row(1)]


def test_a_row_that_comes_twice_in_one_call_is_a_duplicate(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l") as ledger:
        with pytest.raises(DuplicateRow, match="client 7"):
            ledger.append([row(5), row(7), row(7)])
        assert ledger.rows() == []


def test_a_failing_source_of_rows_writes_nothing(tmp_path: Path) -> None:
    def rows() -> Any:
        yield row(1)
        raise RuntimeError("cut")

    with Ledger(tmp_path / "l") as ledger:
        with pytest.raises(RuntimeError, match="cut"):
            ledger.append(rows())
        assert ledger.rows() == []


@pytest.mark.parametrize("strength", [float("nan"), float("inf")])
def test_a_strength_that_is_not_finite_is_refused(tmp_path: Path, strength: float) -> None:
    event = SampledGaussian(1.0, 1.0, 1, "client", "jko", strength)
    with (
        Ledger(tmp_path / "l") as ledger,
        pytest.raises(LedgerError, match=r"client 1.*strength = .*must be finite"),
    ):
        ledger.append([row(1, event=event)])


def test_an_unknown_event_is_refused_by_name(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class LaplaceVector:
        neighbours: str = "example"

    with (
        Ledger(tmp_path / "l") as ledger,
        pytest.raises(LedgerError, match="type LaplaceVector"),
    ):
        ledger.append([row(1, event=LaplaceVector())])  # type: ignore[arg-type]


def test_processes_one_after_another_share_a_ledger(tmp_path: Path) -> None:
    path = written(tmp_path / "l", row(1))
    script = f"""
from pathlib import Path
from fedgame.ledger.events import LedgerRow, SampledGaussian
from fedgame.ledger.store import Ledger
with Ledger(Path({str(path)!r})) as ledger:
    ledger.append([LedgerRow(1, 2, 0, "u", SampledGaussian(2.5, .1, 3, "example", "jko", 1e-4))])
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    written(path, row(1, round_=3))
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == [row(1), row(1, round_=2), row(1, round_=3)]


def test_a_killed_process_loses_no_row_that_it_had_appended(tmp_path: Path) -> None:
    path = tmp_path / "l"
    script = f"""
import os, signal
from pathlib import Path
from fedgame.ledger.events import LedgerRow, PureDPChoice
from fedgame.ledger.store import Ledger
ledger = Ledger(Path({str(path)!r}))
for round_ in range(5):
    ledger.append([LedgerRow(1, round_, 0, "u", PureDPChoice(.1, "example", "e"))])
ledger.connection.execute("BEGIN IMMEDIATE")
ledger.connection.execute("DELETE FROM release")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with Ledger(path, read_only=True) as ledger:
        assert len(ledger.rows()) == 5
    with Ledger(path) as ledger:
        assert len(ledger.rows()) == 5


def test_a_closed_ledger_is_one_file_and_reading_leaves_no_other(tmp_path: Path) -> None:
    path = written(tmp_path / "l", row(1))
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == [row(1)]
    assert [p.name for p in tmp_path.iterdir()] == ["l"]


def test_closing_beside_another_user_waits_for_nobody(tmp_path: Path) -> None:
    first, second = Ledger(tmp_path / "l"), Ledger(tmp_path / "l")
    first.append([row(1)])
    start = time.perf_counter()
    first.close()
    first.close()
    assert time.perf_counter() - start < 2
    assert second.rows() == [row(1)]
    second.close()


def test_durability_settings(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l") as ledger:
        assert ledger.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert ledger.connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_read_only_ledger_cannot_be_changed(tmp_path: Path) -> None:
    path = written(tmp_path / "l", row(1))
    with (
        Ledger(path, read_only=True) as ledger,
        pytest.raises(LedgerError, match="readonly"),
    ):
        ledger.append([row(2)])


def one_line(error: pytest.ExceptionInfo[LedgerError], path: Path) -> bool:
    text = str(error.value)
    return "\n" not in text and str(path) in text


def test_errors_are_one_line_that_names_the_file(tmp_path: Path) -> None:
    absent = tmp_path / "no" / "l"
    with pytest.raises(LedgerError) as error:
        Ledger(absent)
    assert one_line(error, absent)
    with pytest.raises(LedgerError, match="no such file") as error:
        Ledger(absent, read_only=True)
    assert one_line(error, absent)
    corrupt = tmp_path / "corrupt"
    corrupt.write_bytes(b"this is no database, whatever its name says" * 100)
    for read_only in (True, False):
        with pytest.raises(LedgerError, match="not a database") as error:
            Ledger(corrupt, read_only=read_only)
        assert one_line(error, corrupt)
    with pytest.raises(LedgerError) as error:
        Ledger(tmp_path)
    assert one_line(error, tmp_path)


def test_a_file_cut_short_is_an_error_not_an_empty_ledger(tmp_path: Path) -> None:
    path = written(tmp_path / "l", *(row(k) for k in range(2000)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(LedgerError, match=str(path)), Ledger(path, read_only=True) as ledger:
        ledger.rows()


def test_another_database_is_no_ledger_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "other"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE recipes (name TEXT)")
    other.commit()
    other.close()
    for read_only in (True, False):
        with pytest.raises(LedgerError, match="not a ledger"):
            Ledger(path, read_only=read_only)
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("recipes",)]
    other.close()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("noise_multiplier = -1.0", "noise_multiplier = -1.0"),
        ("noise_multiplier = NULL", "client 1"),
        ("kind = 'gossip'", "gossip"),
        ("neighbours = 'twins'", "twins"),
        ("sampling_rate = 2.0", "sampling_rate = 2.0"),
    ],
)
def test_a_tampered_row_is_refused_when_read(tmp_path: Path, change: str, complaint: str) -> None:
    path = written(tmp_path / "l", row(1))
    with Ledger(path) as ledger:
        ledger.connection.execute(f"UPDATE release SET {change}")
        with pytest.raises(LedgerError, match=complaint):
            ledger.rows()


def test_digest_depends_on_the_rows_only(tmp_path: Path) -> None:
    rows = [row(1), row(2, event=CHOICE), row(3, event=UNCOVERED)]
    once = written(tmp_path / "once", *rows)
    again = tmp_path / "again"
    for one in reversed(rows):
        written(again, one)
    nudged = SampledGaussian(np.nextafter(2.5, 3).item(), 0.1, 3, "example", "jko", strength=1e-4)
    other = written(tmp_path / "other", row(1, event=nudged), *rows[1:])
    with Ledger(once) as a, Ledger(again) as b, Ledger(other) as c:
        assert a.digest() == b.digest()
        assert len(a.digest()) == 64
        assert a.digest() != c.digest()


def test_a_large_append_is_kept_whole(tmp_path: Path) -> None:
    rows = [row(k) for k in range(100_000)]
    with Ledger(tmp_path / "l") as ledger:
        ledger.append(rows)
        assert ledger.rows() == rows


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
