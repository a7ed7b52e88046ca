"""Affine variational inequalities over a product of boxes or simplices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedgame.games.aggregative.affine import AffineMap, solve_coupled
from fedgame.games.aggregative.sets import Polyhedron
from fedgame.games.best_response import FloatArray

TOLERANCE = 1e-13
ROUNDS = 400
STEPS_A_ROUND = 50
PATIENCE = 8


class Solution(NamedTuple):
    """A point, and how far it is from a solution.

    Attributes:
        x: Shape (N, n), in the set.
        residual: The largest |x - Proj[x - F(x)/L]|, L the map's Lipschitz constant; 0 exactly at
            solutions, and about 1e-16 of the largest strategy from rounding.
    """

    x: FloatArray
    residual: float


def solve_inequality(
    function: AffineMap, feasible: Polyhedron, start: FloatArray, *, monotone: bool
) -> Solution:
    """Return x with F(x)^T (y - x) >= 0 for all y in the set, or the best point found.

    Semismooth Newton steps on the natural map, which end at an exact solution once they know which
    constraints bind; where they do not help and the map is monotone, extragradient steps
    (Korpelevich 1976), which always get nearer.

    Args:
        function: F.
        feasible: The set of one player's strategies.
        start: Where to begin, shape (N, n).
        monotone: Whether F is known to be monotone.
    """
    x = feasible.project(start)
    scale = 1 / function.bound
    found = Solution(x, _residual(function, feasible, x, scale))
    for _ in range(ROUNDS if monotone else 1):
        found = _newton(function, feasible, found, scale)
        if found.residual <= TOLERANCE * (1 + float(np.abs(found.x).max())):
            break
        if monotone:
            x = _extragradient(function, feasible, found.x, scale / 2)
            found = Solution(x, _residual(function, feasible, x, scale))
    return found


def _residual(function: AffineMap, feasible: Polyhedron, x: FloatArray, scale: float) -> float:
    return float(np.abs(x - feasible.project(x - scale * function(x))).max())


def _newton(function: AffineMap, feasible: Polyhedron, found: Solution, scale: float) -> Solution:
    """Take Newton steps until several in a row have not halved the least residual."""
    identity = np.eye(found.x.shape[1])
    x, left = found.x, PATIENCE
    while left > 0 and found.residual > 0:
        moved = x - scale * function(x)
        slope = feasible.slope(moved)
        blocks = identity - slope + scale * slope @ function.own
        gap = feasible.project(moved) - x
        step = solve_coupled(blocks, scale * slope @ function.mean, gap)
        if not np.isfinite(step).all():
            break
        x = feasible.project(x + step)
        residual = _residual(function, feasible, x, scale)
        left = PATIENCE if residual <= found.residual / 2 else left - 1
        if residual < found.residual:
            found = Solution(x, residual)
    return found


def _extragradient(
    function: AffineMap, feasible: Polyhedron, x: FloatArray, step: float
) -> FloatArray:
    """Take extragradient steps of a size below 1/L."""
    for _ in range(STEPS_A_ROUND):
        half = feasible.project(x - step * function(x))
        x = feasible.project(x - step * function(half))
    return x
