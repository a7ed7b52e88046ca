from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from fedgame.errors import LedgerError
from fedgame.ledger.answers import Answer
from fedgame.ledger.events import LedgerRow
from fedgame.ledger.layout import VERSION
from fedgame.ledger.store import Ledger
from tests.ledger.support import (
    CHOICE,
    GAUSSIAN,
    VECTOR,
    VERSION_1_DIGEST,
    VERSION_2_DIGEST,
    VERSION_3_DIGEST,
    VERSION_4,
    deal,
    row,
    written,
    written_by_script,
    written_by_version_1,
    written_by_version_2,
    written_by_version_3,
    written_by_version_4,
)

OLDER = (written_by_version_1, written_by_version_2, written_by_version_3, written_by_version_4)
DIGESTS = (VERSION_1_DIGEST, VERSION_2_DIGEST, VERSION_3_DIGEST, VERSION_3_DIGEST)
ROWS: list[LedgerRow] = [
    row(1),
    row(1, round_=2, event=CHOICE),
    row(1, round_=3, event=VECTOR),
]


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
    for path in (
        written(tmp_path / "new", row(1)),
        written_by_version_1(tmp_path / "1"),
        written_by_version_2(tmp_path / "2"),
    ):
        before = path.read_bytes()
        with Ledger(path, read_only=True) as ledger:
            with pytest.raises(LedgerError, match="open for reading only"):
                ledger.append([row(2)])
            with pytest.raises(LedgerError, match="open for reading only"):
                ledger.append_purchases([deal(2)])
        assert path.read_bytes() == before


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


def version_of(path: Path) -> int:
    other = sqlite3.connect(path)
    try:
        return int(other.execute("PRAGMA user_version").fetchone()[0])
    finally:
        other.close()


def test_a_ledger_of_version_1_is_read_as_one_without_purchases(tmp_path: Path) -> None:
    path = written_by_version_1(tmp_path / "old")
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == [row(1), row(1, round_=2, event=CHOICE)]
        assert ledger.purchases() == {}
        assert ledger.count(1, "u") == 4
        assert ledger.digest() == VERSION_1_DIGEST
    assert version_of(path) == 1


def test_a_ledger_of_version_1_is_upgraded_by_its_next_writer(tmp_path: Path) -> None:
    path = written_by_version_1(tmp_path / "old")
    with Ledger(path, read_only=True) as reader:
        assert reader.purchases() == {}
        with Ledger(path) as first, Ledger(path) as second:
            assert first.digest() == VERSION_1_DIGEST
            second.append_purchases([deal(1)])
            first.append([row(1, round_=3)])
        assert reader.purchases() == {1: deal(1)}
    assert version_of(path) == VERSION
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == [row(1), row(1, round_=2, event=CHOICE), row(1, round_=3)]
        assert ledger.purchases() == {1: deal(1)}


def test_a_ledger_of_version_2_is_read_as_one_without_vectors(tmp_path: Path) -> None:
    path = written_by_version_2(tmp_path / "old")
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == [row(1), row(1, round_=2, event=CHOICE)]
        assert ledger.purchases() == {1: deal(1)}
        assert ledger.count(1, "u") == 4
        assert ledger.digest() == VERSION_2_DIGEST
    assert version_of(path) == 2


def test_a_ledger_of_version_2_is_upgraded_by_its_next_writer(tmp_path: Path) -> None:
    path = written_by_version_2(tmp_path / "old")
    vector = row(1, round_=3, event=VECTOR)
    with Ledger(path, read_only=True) as reader:
        assert reader.digest() == VERSION_2_DIGEST
        with Ledger(path) as first, Ledger(path) as second:
            assert first.digest() == VERSION_2_DIGEST
            second.append([vector])
            assert first.rows()[-1] == vector
        assert reader.rows() == [row(1), row(1, round_=2, event=CHOICE), vector]
        assert reader.digest() != VERSION_2_DIGEST
    assert version_of(path) == VERSION
    with Ledger(path, read_only=True) as ledger:
        assert ledger.purchases() == {1: deal(1)}


def test_a_ledger_of_version_3_is_upgraded_by_its_next_writer(tmp_path: Path) -> None:
    path = written_by_version_3(tmp_path / "old")
    vector = row(1, round_=3, event=VECTOR)
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == [row(1), row(1, round_=2, event=CHOICE), vector]
        assert ledger.digest() == VERSION_3_DIGEST
    with Ledger(path) as ledger:
        assert ledger.answer("train") is None
        assert ledger.digest() == VERSION_3_DIGEST
    assert version_of(path) == VERSION


def test_a_ledger_of_version_4_keeps_rows_purchases_and_answers(tmp_path: Path) -> None:
    path = written_by_version_4(tmp_path / "old")
    answer = Answer("train", 3, b"\x01", b"\x02")
    for read_only, version in ((True, 4), (False, VERSION), (True, VERSION)):
        with Ledger(path, read_only=read_only) as ledger:
            assert ledger.rows() == ROWS
            assert ledger.events_by_client() == {1: [GAUSSIAN, CHOICE, VECTOR]}
            assert ledger.count(1, "u") == GAUSSIAN.steps + 2
            assert ledger.purchases() == {1: deal(1)}
            assert ledger.answer("train") == answer
            assert ledger.digest() == VERSION_3_DIGEST
        assert version_of(path) == version


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_an_older_ledger_holds_after_its_upgrade_what_a_new_one_holds(
    tmp_path: Path, version: int
) -> None:
    rows, deals = ROWS[: 2 if version < 3 else 3], [deal(1)][: version - 1]
    new = written(tmp_path / "new", *rows, bought=deals)
    old = OLDER[version - 1](tmp_path / "old")
    digest = DIGESTS[version - 1]
    with Ledger(new) as reference, Ledger(old, read_only=True) as reader:
        assert reader.digest() == reference.digest() == digest
        assert reader.events_by_client() == reference.events_by_client()
        with Ledger(old, repeats=True) as ledger:
            ledger.append(rows)  # they are there already, word for word
            assert ledger.digest() == digest
            assert ledger.rows() == rows
        # the reader goes on in the new layout
        assert reader.digest() == digest
        assert reader.rows() == rows
        assert reader.events_by_client() == reference.events_by_client()


def test_an_upgrade_keeps_each_event_once_and_every_row(tmp_path: Path) -> None:
    path = written_by_version_4(tmp_path / "old")
    other = sqlite3.connect(path)
    copies = "SELECT client + value, round, step, purpose, kind, neighbours, mechanism, "
    copies += "noise_multiplier, sampling_rate, steps, strength, epsilon, scale, sensitivity, "
    copies += "dimension FROM release, json_each(?)"
    other.execute(f"INSERT INTO release {copies}", (str(list(range(1, 200))),))
    before = other.execute("SELECT * FROM release ORDER BY client, round").fetchall()
    other.commit()
    other.close()
    with Ledger(path, read_only=True) as ledger:
        rows, digest = ledger.rows(), ledger.digest()
    assert len(rows) == 600
    with Ledger(path) as ledger:
        assert ledger.rows() == rows
        assert ledger.digest() == digest
        assert ledger.connection.execute("SELECT count(*) FROM event").fetchone() == (3,)
        # people's own queries find the same columns with the same values
        order = "SELECT * FROM release ORDER BY client, round"
        columns = [name for name, *_ in ledger.connection.execute(order).description]
        after = ledger.connection.execute(order).fetchall()
    names = "client round step purpose kind neighbours mechanism noise_multiplier sampling_rate "
    names += "steps strength epsilon scale sensitivity dimension"
    assert columns == names.split()
    assert after == before


def test_an_upgrade_that_fails_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    script = VERSION_4 + "CREATE TABLE charge (fee REAL);"
    path = written_by_script(tmp_path / "old", script)
    with pytest.raises(LedgerError, match="charge") as error:
        Ledger(path)
    assert one_line(error, path)
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == ROWS
        assert ledger.digest() == VERSION_3_DIGEST
    assert version_of(path) == 4


def test_an_upgraded_ledger_has_the_layout_of_a_new_one(tmp_path: Path) -> None:
    made = [make(tmp_path / make.__name__) for make in OLDER]
    layouts = []
    for path in (*made, tmp_path / "new"):
        with Ledger(path) as ledger:
            schema = ledger.connection.execute(
                "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"
            )
            layouts.append([(kind, name, " ".join(sql.split())) for kind, name, sql in schema])
    assert layouts == layouts[-1:] * len(layouts)
    assert [name for _, name, _ in layouts[0]] == [
        *("event_numbers", "answer", "charge", "event", "purchase", "release")
    ]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5, 6])
def test_another_program_may_use_the_same_number(tmp_path: Path, version: int) -> None:
    path = tmp_path / "other"
    other = sqlite3.connect(path)
    other.executescript(f"CREATE TABLE recipes (name TEXT); PRAGMA user_version = {version}")
    other.close()
    for read_only in (True, False):
        with pytest.raises(LedgerError) as error:
            Ledger(path, read_only=read_only)
        assert one_line(error, path)
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("recipes",)]
    other.close()
    assert version_of(path) == version


def test_a_ledger_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "l", row(1))
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA user_version = {VERSION + 1}")
    other.close()
    for read_only in (True, False):
        with pytest.raises(LedgerError, match="not a ledger of version 1 to 5"):
            Ledger(path, read_only=read_only)
