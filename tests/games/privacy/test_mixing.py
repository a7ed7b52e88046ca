"""Mixed answers: any mean between the extremes is reached, with the nearest answers only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedgame.games.best_response import BoolArray
from fedgame.games.privacy.mixing import mean_range, mix, population_mean

GRID = np.array([0.1, 0.3, 0.5, 1.0, 2.0])


@given(arrays(np.bool_, st.tuples(st.integers(1, 5), st.just(5))), st.floats(0, 1))
def test_every_mean_in_the_range_is_reached(marked: BoolArray, way: float) -> None:
    answers = marked.copy()
    answers[~answers.any(axis=1), 2] = True
    weights = np.arange(1.0, len(answers) + 1)
    by_hand = [(GRID[row].min(), GRID[row].max()) for row in answers]
    least, greatest = mean_range(answers, GRID, weights)
    assert (least, greatest) == pytest.approx(tuple(weights @ np.array(by_hand) / weights.sum()))
    target = least + way * (greatest - least)
    strategies = mix(answers, GRID, weights, target)
    assert weights @ strategies @ GRID / weights.sum() == pytest.approx(target, abs=1e-15)
    assert strategies.sum(axis=1) == pytest.approx(1, abs=1e-15)
    assert (strategies[~answers] == 0).all()
    for row, chances in zip(answers, strategies, strict=True):
        used = np.flatnonzero(chances)
        assert len(used) <= 2
        assert not row[used[0] + 1 : used[-1]].any()  # no answer between the two that are mixed


@pytest.mark.parametrize(("target", "column"), [(-5.0, 1), (9.0, 3)])
def test_a_mean_out_of_reach_gives_the_nearer_end(target: float, column: int) -> None:
    answers = np.array([[False, True, False, True, False]])
    assert mix(answers, GRID, np.ones(1), target)[0, column] == 1.0


def test_the_mean_of_equal_actions_is_exact() -> None:
    for action, strength in enumerate(GRID):
        played = np.full(10, action)
        assert population_mean(played, GRID, np.full(10, 0.1)) == strength
