from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from fedgame.errors import LedgerError
from fedgame.ledger.store import Ledger
from tests.ledger.support import (
    CHOICE,
    VECTOR,
    VERSION_1_DIGEST,
    VERSION_2_DIGEST,
    deal,
    row,
    written,
    written_by_version_1,
    written_by_version_2,
    written_by_version_3,
)


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
    assert version_of(path) == 4
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
    assert version_of(path) == 4
    with Ledger(path, read_only=True) as ledger:
        assert ledger.purchases() == {1: deal(1)}


def test_a_ledger_of_version_3_is_upgraded_by_its_next_writer(tmp_path: Path) -> None:
    path = written_by_version_3(tmp_path / "old")
    vector = row(1, round_=3, event=VECTOR)
    with Ledger(path, read_only=True) as ledger:
        assert ledger.rows() == [row(1), row(1, round_=2, event=CHOICE), vector]
        digest = ledger.digest()
    with Ledger(path) as ledger:
        assert ledger.answer("train") is None
        assert ledger.digest() == digest
    assert version_of(path) == 4


def test_an_upgraded_ledger_has_the_layout_of_a_new_one(tmp_path: Path) -> None:
    made = (
        written_by_version_1(tmp_path / "1"),
        written_by_version_2(tmp_path / "2"),
        written_by_version_3(tmp_path / "3"),
        tmp_path / "new",
    )
    layouts = []
    for path in made:
        with Ledger(path) as ledger:
            layouts.append(
                [
                    # older files have their key in another order, which only costs time
                    [
                        (name, kind, notnull, default, key > 0)
                        for _, name, kind, notnull, default, key, _ in ledger.connection.execute(
                            f"PRAGMA table_xinfo({table})"
                        )
                    ]
                    for table in ("release", "purchase", "answer")
                ]
            )
    assert layouts[0] == layouts[1] == layouts[2] == layouts[3]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
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
    other.execute("PRAGMA user_version = 5")
    other.close()
    for read_only in (True, False):
        with pytest.raises(LedgerError, match="not a ledger of version 1 to 4"):
            Ledger(path, read_only=read_only)
