"""Each event is kept once, whoever charges it, and none is lost without a word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedgame.errors import DuplicateRow, LedgerError
from fedgame.ledger.events import LaplaceVector, PrivacyEvent, SampledGaussian, UnaccountedRelease
from fedgame.ledger.store import Ledger, merge, missing
from tests.ledger.support import CHOICE, GAUSSIAN, UNCOVERED, VECTOR, row, written

ALL: tuple[PrivacyEvent, ...] = (GAUSSIAN, CHOICE, VECTOR, UNCOVERED)


def events_in(ledger: Ledger) -> int:
    return int(ledger.connection.execute("SELECT count(*) FROM event").fetchone()[0])


def test_an_event_is_stored_once_however_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "l"
    with Ledger(path) as ledger:
        ledger.append(row(k, event=ALL[k % 4]) for k in range(40))
        ledger.append(row(k, 2, event=replace(ALL[k % 4])) for k in range(40))  # equal objects
        assert events_in(ledger) == 4
    with Ledger(path) as ledger:
        ledger.append(row(k, 3, event=event) for k, event in enumerate(reversed(ALL)))
        assert events_in(ledger) == 4
        assert len(ledger.rows()) == 84
        of_client_2 = ledger.events_by_client()[2]
        assert of_client_2 == [VECTOR, VECTOR, CHOICE]
        assert of_client_2[0] is of_client_2[1]


@pytest.mark.parametrize("added", [1, 100])
def test_an_event_is_found_among_many(tmp_path: Path, added: int) -> None:
    many: list[PrivacyEvent] = [
        *(replace(GAUSSIAN, strength=0.1 * k) for k in range(100)),
        *(replace(GAUSSIAN, strength=None, mechanism=f"m{k}") for k in range(100)),
        *(UnaccountedRelease("example", f"m{k}") for k in range(100)),
    ]
    with Ledger(tmp_path / "l") as ledger:
        ledger.append(row(k, event=event) for k, event in enumerate(many))
        again = [row(k, 2, event=event) for k, event in enumerate(many[:: 300 // added])]
        ledger.append([*again, row(0, 3, event=replace(GAUSSIAN, strength=77.0))])
        assert events_in(ledger) == len(many) + 1
        assert [one for one in ledger.rows() if one.round == 2] == again
        assert ledger.events_by_client()[0][-1] == replace(GAUSSIAN, strength=77.0)


def test_what_is_not_written_leaves_no_event(tmp_path: Path) -> None:
    with Ledger(written(tmp_path / "l", row(1))) as ledger:
        with pytest.raises(DuplicateRow, match="client 1"):
            ledger.append([row(2, event=CHOICE), row(1)])
        assert events_in(ledger) == 1


def test_the_first_row_that_cannot_be_stored_is_named(tmp_path: Path) -> None:
    bad = replace(GAUSSIAN, strength=float("nan"))
    with Ledger(tmp_path / "l") as ledger:
        with pytest.raises(LedgerError, match=r"client 2, .*strength = nan: must be finite"):
            ledger.append([row(1), row(2, event=bad), row(3, event=bad)])
        assert ledger.rows() == []
        assert events_in(ledger) == 0


def test_numbers_that_differ_in_the_last_bit_are_different_events(tmp_path: Path) -> None:
    floats = [0.1, 0.1 + 2**-56, 1.0, 1.0 + 2**-52, 5e-324, 1e-323, 1.7976931348623157e308]
    events = [SampledGaussian(one, 1.0, 1, "example", "jko", one) for one in floats]
    with Ledger(tmp_path / "l") as ledger:
        ledger.append(row(k, event=event) for k, event in enumerate(events))
        assert events_in(ledger) == len(floats)
        stored: list[Any] = [one.event for one in ledger.rows()]
    assert [one.noise_multiplier.hex() for one in stored] == [one.hex() for one in floats]
    assert [one.strength.hex() for one in stored] == [one.hex() for one in floats]


def test_a_negative_zero_is_the_zero_that_it_equals(tmp_path: Path) -> None:
    events = [LaplaceVector(0.5, zero, 3, "client", "laplace") for zero in (-0.0, 0.0)]
    with Ledger(tmp_path / "l") as ledger:
        ledger.append([row(0, event=events[0])])
        ledger.append([row(1, event=events[1])])
        assert events_in(ledger) == 1
        stored: list[Any] = [one.event for one in ledger.rows()]
    assert [one.sensitivity.hex() for one in stored] == [(0.0).hex()] * 2


def damaged(path: Path) -> Path:
    """Make a ledger in which the event of client 2's row is gone."""
    with Ledger(written(path, row(2, event=CHOICE), row(1), row(3))) as ledger:
        ledger.connection.execute("DELETE FROM event WHERE kind = 'pure-dp-choice'")
    return path


READERS: dict[str, Callable[[Ledger], object]] = {
    "rows": Ledger.rows,
    "events": Ledger.events_by_client,
    "digest": Ledger.digest,
    "count": lambda ledger: ledger.count(2, "u"),
    "missing": lambda ledger: missing(ledger, []),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_row_without_its_event_is_refused(tmp_path: Path, reader: str) -> None:
    path = damaged(tmp_path / "l")
    with Ledger(path) as ledger:
        with pytest.raises(LedgerError, match=r"client 2.*: its event is missing") as error:
            READERS[reader](ledger)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)
        assert ledger.count(1, "u") == GAUSSIAN.steps  # other clients are none the wiser
        rows = ledger.connection.execute("SELECT client, kind FROM release ORDER BY client")
        assert rows.fetchall() == [(1, "sampled-gaussian"), (2, None), (3, "sampled-gaussian")]


def test_a_source_without_an_event_is_not_merged(tmp_path: Path) -> None:
    source = damaged(tmp_path / "0")
    with Ledger(tmp_path / "all") as target:
        for read in (merge, missing):
            with pytest.raises(LedgerError, match=r"0: row \(client 2.*: its event is missing"):
                read(target, [source])
        assert target.rows() == []


def test_a_target_without_an_event_contradicts_its_source(tmp_path: Path) -> None:
    source = written(tmp_path / "0", row(2, event=CHOICE))
    with (
        Ledger(damaged(tmp_path / "all")) as target,
        pytest.raises(LedgerError, match=r"client 2.*differs"),
    ):
        merge(target, [source])
