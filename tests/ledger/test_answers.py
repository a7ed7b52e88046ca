"""The last answer of a node, and a killed run that writes its last round once more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedgame.errors import DuplicateRow, InvalidOrder
from fedgame.ledger.answers import Answer
from fedgame.ledger.store import Ledger
from tests.ledger.support import GAUSSIAN, deal, row, written

FIRST = Answer("train", 1, b"order 1", b"reply 1")
SECOND = Answer("train", 2, b"order 2", b"reply 2")
OTHER = Answer("contract", 0, b"offer", b"signed")


def check() -> None:
    """Nothing stands against it."""


def test_the_last_answer_of_each_kind_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "l"
    with Ledger(path) as ledger:
        assert ledger.answer("train") is None
        ledger.append([row(1)], check, FIRST)
        ledger.append_purchases([deal(1)], OTHER)
        assert ledger.answer("train") == FIRST
    with Ledger(path) as ledger:
        ledger.append([row(1, round_=2)], check, SECOND)
        assert ledger.answer("train") == SECOND
        assert ledger.answer("contract") == OTHER


def test_an_answer_is_kept_with_its_releases_or_not_at_all(tmp_path: Path) -> None:
    def refuse() -> None:
        raise InvalidOrder("no")

    with Ledger(tmp_path / "l") as ledger:
        ledger.append([row(1)], check, FIRST)
        with pytest.raises(DuplicateRow):
            ledger.append([row(2), row(1)], check, SECOND)
        with pytest.raises(InvalidOrder):
            ledger.append([row(2)], refuse, SECOND)
        assert ledger.answer("train") == FIRST
        assert ledger.rows() == [row(1)]


def test_answers_are_no_part_of_the_digest(tmp_path: Path) -> None:
    plain = written(tmp_path / "a", row(1))
    with Ledger(tmp_path / "b") as ledger, Ledger(plain) as other:
        ledger.append([row(1)], check, FIRST)
        assert ledger.digest() == other.digest()


def test_a_resumed_run_may_write_the_same_again_and_nothing_else(tmp_path: Path) -> None:
    path = written(tmp_path / "l", row(1), bought=[deal(1)])
    with Ledger(path, repeats=True) as ledger:
        ledger.append([row(1), row(2)])
        ledger.append_purchases([deal(1), deal(2)])
        assert ledger.rows() == [row(1), row(2)]
        assert ledger.purchases() == {1: deal(1), 2: deal(2)}
        less_noise = replace(GAUSSIAN, noise_multiplier=2.0)
        with pytest.raises(DuplicateRow):
            ledger.append([row(3), row(1, event=less_noise)])
        with pytest.raises(DuplicateRow):
            ledger.append_purchases([deal(1, epsilon=2.0)])
        assert ledger.rows() == [row(1), row(2)]
