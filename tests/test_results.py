"""What the recorded results must show; `make results` makes them anew."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import mean

import pytest

RESULTS = Path(__file__).parents[1] / "results"


def _rows(table: str, cell: str) -> list[dict[str, str]]:
    with (RESULTS / f"{table}.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["cell"] == cell]
    assert len({row["seed"] for row in rows}) == 3
    return rows


@pytest.mark.parametrize("cell", ["mfpg", "dp-sgd"])
def test_full_mnist_is_learnt_within_an_epsilon_of_2(cell: str) -> None:
    rows = _rows("sound_mnist", cell)
    assert all(float(row["accuracy"]) >= 0.9 for row in rows)
    assert all(float(row["worst_epsilon"]) <= 2 for row in rows)
    assert all(float(row["realised_max"]) <= float(row["worst_epsilon"]) for row in rows)


def test_both_are_compared_at_one_worst_epsilon() -> None:
    worst = {
        cell: max(float(row["worst_epsilon"]) for row in _rows("sound_mnist", cell))
        for cell in ("mfpg", "dp-sgd")
    }
    assert worst["dp-sgd"] == pytest.approx(worst["mfpg"], abs=0.01)


def test_the_demo_learns() -> None:
    assert mean(float(row["accuracy"]) for row in _rows("demo", "mfpg")) > 0.8
