"""Best responses against a loop in plain Python, and what bad input shows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedgame.games.best_response import FloatArray, best_response, best_response_set

SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 5))
# Few distinct values, so that ties are common.
TABLES = arrays(np.float64, SHAPES, elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0, np.inf]))


@given(TABLES)
def test_the_first_minimiser_is_taken(table: FloatArray) -> None:
    expected = [row.index(min(row)) for row in table.tolist()]
    assert best_response(table).tolist() == expected


@given(TABLES, st.sampled_from([0.0, 0.5, 1.0]))
def test_the_set_holds_all_within_the_tolerance(table: FloatArray, tolerance: float) -> None:
    expected = [[value <= min(row) + tolerance for value in row] for row in table.tolist()]
    assert best_response_set(table, tolerance).tolist() == expected


@given(TABLES)
def test_the_best_response_is_the_first_of_its_set(table: FloatArray) -> None:
    assert np.array_equal(best_response(table), best_response_set(table).argmax(axis=1))


def test_one_player_needs_no_client_axis() -> None:
    assert best_response(np.array([2.0, 1.0, 1.0])) == 1


@pytest.mark.parametrize("table", [np.array([[1.0, np.nan]]), np.empty((2, 0)), np.array(1.0)])
def test_nan_and_missing_actions_are_refused(table: FloatArray) -> None:
    with pytest.raises(ValueError, match=r"NaN|no action"):
        best_response(table)
    with pytest.raises(ValueError, match=r"NaN|no action"):
        best_response_set(table)


@pytest.mark.parametrize("tolerance", [-1e-9, float("nan")])
def test_a_tolerance_below_zero_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="must be at least 0"):
        best_response_set(np.zeros((1, 2)), tolerance)
