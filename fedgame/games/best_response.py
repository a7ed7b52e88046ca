"""Best responses over finite action sets: the minimiser, and the set of all minimisers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def best_response(disutilities: FloatArray) -> IntArray:
    """Return each player's action of least disutility; of equals, the one with the lowest index.

    Over a grid of strengths in increasing order the tie rule picks the smallest strength, that is
    the least noise. It keeps the answer non-decreasing in a player's privacy preference: of all
    minimisers the smallest one is monotone (Topkis 1978).

    Args:
        disutilities: U, shape (..., actions); +inf marks an action that is never wanted.

    Returns:
        Indices of actions, shape (...).

    Raises:
        ValueError: There is no action, or a disutility is NaN.

    >>> best_response(np.array([[3.0, 1.0, 1.0], [0.0, 2.0, 5.0]])).tolist()
    [1, 0]
    """
    checked = check_disutilities(disutilities)
    return np.asarray(np.argmin(checked, axis=-1), dtype=np.int64)


def best_response_set(disutilities: FloatArray, tolerance: float = 0.0) -> BoolArray:
    """Mark each player's best responses: all actions within `tolerance` of the least disutility.

    Args:
        disutilities: U, shape (..., actions).
        tolerance: How much worse than the best an action may be, in units of U; at least 0.

    Returns:
        True for a best response, shape (..., actions); at least one a player.

    Raises:
        ValueError: There is no action, a disutility is NaN, or the tolerance is negative or NaN.

    >>> best_response_set(np.array([3.0, 1.0, 1.001]), tolerance=0.01).tolist()
    [False, True, True]
    """
    if not tolerance >= 0:
        raise ValueError(f"tolerance = {tolerance}: must be at least 0")
    checked = check_disutilities(disutilities)
    return np.asarray(checked <= checked.min(axis=-1, keepdims=True) + tolerance, dtype=np.bool_)


def check_disutilities(disutilities: FloatArray) -> FloatArray:
    """Return the disutilities as float64.

    Raises:
        ValueError: There is no action to choose from, or an entry is NaN; a minimiser would hide
            it, since NumPy takes NaN for the least value.
    """
    checked = np.asarray(disutilities, dtype=np.float64)
    if checked.ndim == 0 or checked.shape[-1] == 0:
        raise ValueError(f"disutilities of shape {checked.shape}: there is no action to choose")
    if np.isnan(checked).any():
        raise ValueError("a disutility is NaN")
    return checked
