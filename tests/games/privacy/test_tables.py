"""Checks of grids and tables; they are also seen through the solvers that use them."""

from __future__ import annotations

import numpy as np
import pytest

from fedgame.games.privacy.tables import allowed_gains, check_finite, check_grid


def test_a_grid_comes_back_as_floats() -> None:
    checked = check_grid([0, 1, 3])
    assert checked.dtype == np.float64
    assert checked.tolist() == [0.0, 1.0, 3.0]


def test_the_first_bad_entry_is_named() -> None:
    table = np.array([[0.0, 1.0], [np.inf, np.nan]])
    with pytest.raises(ValueError, match=r"disutility of r1 c0 is inf: must be finite"):
        check_finite(table, (2, 2), lambda row, column: f"r{row} c{column}")


def test_a_gain_is_measured_by_the_spread_and_by_rounding() -> None:
    table = np.array([[1e-6, 3e-6], [5.0, 5.0], [1e8, 1e8 + 1]])
    rounding = 64 * 2.0**-52
    expected = [2e-15, 5 * rounding, (1e8 + 1) * rounding]
    assert allowed_gains(table) == pytest.approx(expected, rel=1e-9)
