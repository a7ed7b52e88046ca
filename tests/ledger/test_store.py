from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedgame.errors import DuplicateRow, LedgerError
from fedgame.ledger.events import LaplaceVector, LedgerRow, PureDPChoice, SampledGaussian
from fedgame.ledger.store import Ledger
from tests.ledger.support import (
    BOUGHT,
    CHOICE,
    GAUSSIAN,
    UNCOVERED,
    VECTOR,
    VERSION_1_DIGEST,
    deal,
    row,
    written,
    written_by_version_1,
)


def test_rows_come_back_ordered_and_equal(tmp_path: Path) -> None:
    rows = [
        row(10, event=CHOICE, purpose="choice"),
        row(2, round_=2, event=UNCOVERED),
        row(2, round_=1, step=1),
        row(2, round_=3, event=VECTOR),
        row(2, round_=1, step=0, purpose="update"),
        row(2, round_=1, step=0, purpose="choice", event=CHOICE),
    ]
    with Ledger(tmp_path / "l") as ledger:
        ledger.append(rows)
        stored = ledger.rows()
        by_client = ledger.events_by_client()
    expected = sorted(rows, key=lambda r: (r.client, r.round, r.step, r.purpose))
    assert stored == expected
    assert by_client == {2: [CHOICE, GAUSSIAN, GAUSSIAN, UNCOVERED, VECTOR], 10: [CHOICE]}


positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@given(
    z=positive,
    q=st.floats(min_value=0, max_value=1, exclude_min=True),
    strength=st.none() | positive,
    epsilon=positive,
    scale=st.floats(min_value=1e-9, allow_infinity=False),
    sensitivity=st.floats(min_value=0, max_value=1e200),
    dimension=st.integers(1, 2**40),
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_floats_round_trip_exactly(
    tmp_path: Path,
    z: float,
    q: float,
    strength: float | None,
    epsilon: float,
    scale: float,
    sensitivity: float,
    dimension: int,
) -> None:
    path = tmp_path / "l"
    path.unlink(missing_ok=True)
    rows = [
        row(0, event=SampledGaussian(z, q, 1, "example", "jko", strength)),
        row(1, event=PureDPChoice(epsilon, "client", "exponential")),
        row(2, event=LaplaceVector(scale, sensitivity, dimension, "client", "laplace")),
    ]
    written(path, *rows)
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == rows


def test_numpy_numbers_are_stored_as_plain_ones(tmp_path: Path) -> None:
    rate: Any = np.float32(0.5)
    count: Any = np.int64(2)
    event = SampledGaussian(np.float64(1.5), rate, count, "example", "g")
    vector = LaplaceVector(rate, np.float64(0.25), count, "example", "laplace")
    with Ledger(tmp_path / "l") as ledger:
        ledger.append([LedgerRow(count, count, 0, "u", event), row(3, event=vector)])
        stored, other = ledger.rows()
    assert other == row(3, event=LaplaceVector(0.5, 0.25, 2, "example", "laplace"))
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
    class Staircase:
        neighbours: str = "example"

    with (
        Ledger(tmp_path / "l") as ledger,
        pytest.raises(LedgerError, match="type Staircase"),
    ):
        ledger.append([row(1, event=Staircase())])  # type: ignore[arg-type]


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
ledger.connection.execute("DELETE FROM charge")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with Ledger(path, read_only=True) as ledger:
        assert len(ledger.rows()) == 5
    with Ledger(path) as ledger:
        assert len(ledger.rows()) == 5


def test_a_file_cut_short_is_an_error_not_an_empty_ledger(tmp_path: Path) -> None:
    path = written(tmp_path / "l", *(row(k) for k in range(2000)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(LedgerError, match=str(path)), Ledger(path, read_only=True) as ledger:
        ledger.rows()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("noise_multiplier = -1.0", "noise_multiplier = -1.0"),
        ("noise_multiplier = NULL", "client 1"),
        ("kind = 'gossip'", "gossip"),
        ("neighbours = 'twins'", "twins"),
        ("sampling_rate = 2.0", "sampling_rate = 2.0"),
        ("kind = 'laplace-vector'", "client 1"),
        ("kind = 'laplace-vector', scale = 0, sensitivity = 1, dimension = 1", "scale = 0.0"),
        ("kind = 'laplace-vector', scale = 1, sensitivity = 1, dimension = 0", "dimension = 0"),
    ],
)
def test_a_tampered_row_is_refused_when_read(tmp_path: Path, change: str, complaint: str) -> None:
    path = written(tmp_path / "l", row(1))
    with Ledger(path) as ledger:
        ledger.connection.execute(f"UPDATE event SET {change}")
        for read in (ledger.rows, ledger.events_by_client):
            with pytest.raises(LedgerError, match=complaint) as error:
                read()
            assert "row (client 1, round 1, step 0, u): " in str(error.value)
            assert "\n" not in str(error.value)


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


def test_purchases_come_back_by_client(tmp_path: Path) -> None:
    unused = deal(3, draws=0, noise_multiplier=0.0, epsilon=0.0, payment=0.0)
    with Ledger(tmp_path / "l") as ledger:
        assert ledger.purchases() == {}
        ledger.append_purchases([deal(10), unused])
        ledger.append_purchases([deal(4, payment=0.1)])
        assert list(ledger.purchases()) == [3, 4, 10]
        assert ledger.purchases() == {3: unused, 4: deal(4, payment=0.1), 10: deal(10)}
        assert ledger.rows() == []


amount = st.floats(min_value=0, allow_infinity=False)


@given(
    epsilon=positive,
    delta=st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True),
    payment=amount,
    noise=positive,
    report=amount,
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_amounts_round_trip_exactly(
    tmp_path: Path, epsilon: float, delta: float, payment: float, noise: float, report: float
) -> None:
    path = tmp_path / "l"
    path.unlink(missing_ok=True)
    one = deal(
        1, epsilon=epsilon, delta=delta, payment=payment, noise_multiplier=noise, report=report
    )
    written(path, bought=[one])
    with Ledger(path, read_only=True) as ledger:
        assert ledger.purchases() == {1: one}


def test_numpy_amounts_are_stored_as_plain_ones(tmp_path: Path) -> None:
    client: Any = np.int64(2)
    numpy = deal(client, draws=np.int32(7), payment=np.float32(0.5))
    with Ledger(tmp_path / "l") as ledger:
        ledger.append_purchases([numpy])
        [stored] = ledger.purchases().values()
    assert stored == deal(2, draws=7, payment=0.5)
    assert type(stored.client) is int
    assert type(stored.draws) is int


@pytest.mark.parametrize("again", [deal(1), deal(1, epsilon=9.0)])
def test_a_client_sells_once_and_nothing_else_is_written(tmp_path: Path, again: Any) -> None:
    with Ledger(tmp_path / "l") as ledger:
        ledger.append_purchases([deal(1)])
        with pytest.raises(
            DuplicateRow, match="the purchase of client 1 is there already"
        ) as error:
            ledger.append_purchases([deal(0), again, deal(2)])
        assert "\n" not in str(error.value)
        with pytest.raises(DuplicateRow, match="the purchase of client 7"):
            ledger.append_purchases([deal(5), deal(7), deal(7)])
        assert ledger.purchases() == {1: deal(1)}


def test_a_failing_source_of_purchases_writes_nothing(tmp_path: Path) -> None:
    def purchases() -> Any:
        yield deal(1)
        yield deal(2, payment=float("nan"))

    with Ledger(tmp_path / "l") as ledger:
        with pytest.raises(ValueError, match="payment = nan"):
            ledger.append_purchases(purchases())
        assert ledger.purchases() == {}


def test_a_process_killed_before_the_first_release_has_bought_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "l"
    script = f"""
import os, signal
from pathlib import Path
from fedgame.ledger.purchases import Purchase
from fedgame.ledger.store import Ledger
ledger = Ledger(Path({str(path)!r}))
ledger.append_purchases([{deal(0)!r}, {deal(1)!r}])
ledger.connection.execute("BEGIN IMMEDIATE")
ledger.connection.execute("UPDATE purchase SET payment = 0")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with Ledger(path, read_only=True) as ledger:
        assert ledger.purchases() == {0: deal(0), 1: deal(1)}
        assert ledger.rows() == []
    with Ledger(path) as ledger:
        with pytest.raises(DuplicateRow, match="client 0"):
            ledger.append_purchases([deal(0), deal(1)])
        ledger.append([row(0)])
        assert ledger.purchases() == {0: deal(0), 1: deal(1)}


def test_of_two_writers_that_buy_from_one_client_one_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "l"
    script = f"""
import sys
from dataclasses import replace
from pathlib import Path
from fedgame.errors import DuplicateRow
from fedgame.ledger.purchases import Purchase
from fedgame.ledger.store import Ledger
sys.stdin.readline()
with Ledger(Path({str(path)!r})) as ledger:
    own = replace({BOUGHT!r}, payment=float(sys.argv[1]))
    try:
        ledger.append_purchases([replace(own, client=k) for k in range(500)])
    except DuplicateRow:
        sys.exit(3)
"""
    racers = [
        subprocess.Popen([sys.executable, "-c", script, str(n)], stdin=subprocess.PIPE)
        for n in (1, 2)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"\n")
        racer.stdin.close()
    codes = [racer.wait(timeout=60) for racer in racers]
    assert sorted(codes) == [0, 3]
    winner = float(codes.index(0) + 1)
    with Ledger(path, read_only=True) as ledger:
        assert ledger.purchases() == {k: deal(k, payment=winner) for k in range(500)}


def test_two_open_ledgers_see_each_others_purchases(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l") as first, Ledger(tmp_path / "l") as second:
        first.append_purchases([deal(1)])
        second.append_purchases([deal(2)])
        assert first.purchases() == second.purchases() == {1: deal(1), 2: deal(2)}
        with pytest.raises(DuplicateRow, match="client 1"):
            second.append_purchases([deal(1)])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("payment = -1.0", "the purchase of client 0: payment = -1.0"),
        ("delta = 2.0", r"delta = 2.0"),
        ("draws = 0", "noise_multiplier = 2.5"),
        ("epsilon = 9e999", "epsilon = inf"),
    ],
)
def test_a_tampered_purchase_is_refused_when_read(
    tmp_path: Path, change: str, complaint: str
) -> None:
    path = written(tmp_path / "l", row(0), bought=[deal(0)])
    with Ledger(path) as ledger:
        ledger.connection.execute(f"UPDATE purchase SET {change}")
        with pytest.raises(LedgerError, match=complaint):
            ledger.purchases()
        assert ledger.rows() == [row(0)]


def test_releases_are_counted_by_client_and_purpose(tmp_path: Path) -> None:
    single = SampledGaussian(2.5, 0.1, 1, "example", "gaussian")
    rows = [row(1, r, event=single, purpose="update") for r in range(4)]
    rows += [row(1, 9, event=CHOICE, purpose="choice"), row(2, event=single, purpose="update")]
    with Ledger(tmp_path / "l") as ledger:
        ledger.append(rows)
        assert ledger.count(1, "update") == 4
        assert ledger.count(1, "choice") == 1
        assert ledger.count(2, "choice") == 0
        assert ledger.count(3, "update") == 0
        ledger.append([row(1, 10, event=GAUSSIAN, purpose="update")])
        assert ledger.count(1, "update") == 4 + GAUSSIAN.steps
        assert type(ledger.count(1, "update")) is int


def test_digest_covers_purchases_where_there_are_any(tmp_path: Path) -> None:
    old = written_by_version_1(tmp_path / "old")
    releases = [row(1), row(1, round_=2, event=CHOICE)]
    same = written(tmp_path / "same", *releases)
    one = written(tmp_path / "one", *releases, bought=[deal(1), deal(2)])
    again = written(tmp_path / "again", *releases[::-1], bought=[deal(2)])
    written(again, bought=[deal(1)])
    cheaper = written(tmp_path / "cheaper", *releases, bought=[deal(1), deal(2, payment=0.74)])
    digests = []
    for path in (old, same, one, again, cheaper):
        with Ledger(path, read_only=True) as ledger:
            digests.append(ledger.digest())
    assert digests[:2] == [VERSION_1_DIGEST] * 2
    assert digests[2] == digests[3]
    assert len(set(digests)) == 3
