"""Checks of what callers of the equilibrium solvers hand in: grids and tables of disutilities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.best_response import FloatArray, check_disutilities

NO_GAIN = 1e-9
"""A gain that counts as none, as a fraction of the spread of a player's disutilities."""

ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""The same as a fraction of the largest of them: what rounding errors alone can come to."""


def check_grid(grid: ArrayLike) -> FloatArray:
    """Return a grid of actions as float64, shape (m,).

    Raises:
        ValueError: It is not one row of finite, strictly increasing numbers.
    """
    checked = np.asarray(grid, dtype=np.float64)
    rising = checked.ndim == 1 and len(checked) > 0 and bool((np.diff(checked) > 0).all())
    if not rising or not np.isfinite(checked).all():
        raise ValueError(f"grid = {checked}: must be finite and strictly increasing numbers")
    return checked


def check_finite(
    values: ArrayLike, shape: tuple[int, int], where: Callable[[int, int], str]
) -> FloatArray:
    """Return a table of disutilities as float64 after checking shape and finiteness.

    Args:
        values: What a caller's disutility returned.
        shape: The shape that it must have.
        where: From row and column of a bad entry to words that name it.

    Raises:
        ValueError: The shape is wrong or an entry is not finite.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.shape != shape:
        raise ValueError(f"disutilities of shape {table.shape}: {shape} is needed")
    if not np.isfinite(table).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(table))[0])
        raise ValueError(
            f"disutility of {where(row, column)} is {table[row, column]}: must be finite"
        )
    return check_disutilities(table)


def allowed_gains(table: FloatArray) -> FloatArray:
    """Return the gain that counts as none for each player, shape (players,), in units of U.

    It follows the spread of the player's disutilities, so that a small stake, such as one client's
    part in an average over many, is not taken for none.

    Args:
        table: U, shape (players, actions).
    """
    highest, lowest = table.max(axis=1), table.min(axis=1)
    largest = np.maximum(highest, -lowest)
    return np.asarray(np.maximum(NO_GAIN * (highest - lowest), ROUNDING * largest))
