"""Best responses to a profile, and what each player could gain by its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.aggregative.affine import AffineMap
from fedgame.games.aggregative.base import (
    AggregativeGame,
    Costs,
    check_feasible,
    pseudo_gradient,
    realised,
)
from fedgame.games.aggregative.quadratic import QuadraticGame, times
from fedgame.games.aggregative.sets import Box, Everywhere, KnownSet, Polyhedron, Simplex
from fedgame.games.aggregative.variational import solve_inequality
from fedgame.games.best_response import BoolArray, FloatArray
from fedgame.games.certificate import Exploitability

ALL_FACES_UP_TO = {Box: 6, Simplex: 10}
"""Dimensions up to which all faces, 729 or 1,023, are searched whatever the costs are like."""

VERTICES_UP_TO = {Box: 12, Simplex: 10_000}
SLACK = 1e-12
"""How far below 0 an eigenvalue may be, relative to the largest one, and count as 0."""

SINGULAR = 1e-13
DESCENT_STEPS = 2_000
ENOUGH = 1e-4
"""By how much of what its slope promises a step must lower a cost (Armijo 1966)."""


class BestResponses(NamedTuple):
    """What each player would do if all others kept their strategies.

    Attributes:
        strategies: Shape (N, n); NaN for a player whose cost has no least value.
        gains: Cost paid less the least cost, shape (N,), at least 0; infinite for such a player.
        exact: Whether they are best responses up to rounding, or only the best that was found, so
            that gains are lower bounds.
    """

    strategies: FloatArray
    gains: FloatArray
    exact: bool


def exploitability(
    game: AggregativeGame, types: ArrayLike, strategies: ArrayLike
) -> Exploitability:
    """Return what each player could gain by changing its strategy alone, in units of cost.

    Args:
        game: The game; for other than quadratic ones the gains are lower bounds.
        types: Index of each player's type, shape (N,).
        strategies: The profile, shape (N, n).

    Raises:
        ValueError: As for `best_responses`.
    """
    return Exploitability(best_responses(game, types, strategies).gains)


def best_responses(game: AggregativeGame, types: ArrayLike, strategies: ArrayLike) -> BestResponses:
    """Return each player's best response to the others' strategies.

    Exact for quadratic games: a search over all faces of the feasible set, or, for more dimensions,
    over its vertices if all costs are concave and by a variational inequality if they are convex.
    For other games by projected descent from the profile.

    Args:
        game: The game.
        types: Index of each player's type, shape (N,).
        strategies: The profile, shape (N, n).

    Raises:
        ValueError: A type or a strategy is not one of the game's; or costs of too many dimensions
            are neither all convex nor all concave.
    """
    x = check_feasible(game, strategies)
    costs = realised(game, types)
    others = x.mean(axis=0) - x / game.num_players
    if not (isinstance(game, QuadraticGame) and isinstance(game.feasible, KnownSet)):
        return _descend(game, costs, x, others)
    hessians = AffineMap.of(game, types).hessians
    none = np.zeros_like(x)
    linear = pseudo_gradient(costs, none, others, game.num_players, "full")
    best = least_quadratics(hessians, linear, game.feasible)
    gains = ((x - best) * (linear + times(hessians, x + best) / 2)).sum(axis=-1)
    gains = np.where(np.isnan(gains), np.inf, np.maximum(gains, 0.0))
    return BestResponses(best, gains, exact=True)


def least_quadratics(hessians: FloatArray, linear: FloatArray, feasible: Polyhedron) -> FloatArray:
    """Return minimisers of y^T H y/2 + g^T y over a set, one a player.

    Args:
        hessians: H, symmetric, shape (N, n, n).
        linear: g, shape (N, n).
        feasible: The set: everywhere, a box or the simplex.

    Returns:
        Shape (N, n); NaN where there is no least value.

    Raises:
        ValueError: There are too many dimensions for costs that are neither all convex nor all
            concave.
    """
    n = linear.shape[1]
    values = np.linalg.eigvalsh(hessians)
    slack = SLACK * float(np.abs(values).max())
    if isinstance(feasible, Everywhere):
        return _stationary(hessians, linear, values[:, 0] >= -slack)
    kind = type(feasible)
    if n <= ALL_FACES_UP_TO[kind]:
        return _over_faces(hessians, linear, feasible, n)
    if values.max() <= slack and n <= VERTICES_UP_TO[kind]:
        return _over_faces(hessians, linear, feasible, 0)
    if values.min() >= -slack:
        gradient = AffineMap(hessians, np.zeros_like(hessians), linear)
        return solve_inequality(gradient, feasible, np.zeros_like(linear), monotone=True).x
    allowed = f"needs costs that are all convex, or at most {ALL_FACES_UP_TO[kind]} dimensions"
    raise ValueError(f"dimension = {n}: an exact best response {allowed}")


def _over_faces(
    hessians: FloatArray, linear: FloatArray, feasible: Polyhedron, largest: int
) -> FloatArray:
    """Return the best of the stationary points of all faces of at most `largest` dimensions.

    A point that lies outside its face is projected: it cannot be better than the minimiser, which
    is stationary on the face that it is inside of.
    """
    least = np.full(len(linear), np.inf)
    best = np.full_like(linear, np.nan)
    for point, basis in feasible.faces(linear.shape[1], largest):
        slope = (linear + hessians @ point) @ basis
        inner = basis.T @ hessians @ basis
        candidate = feasible.project(point + _solve(inner, -slope) @ basis.T)
        cost = (candidate * (linear + times(hessians, candidate) / 2)).sum(axis=-1)
        better = cost < least
        least = np.where(better, cost, least)
        best[better] = candidate[better]
    return best


def _solve(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Solve symmetric systems, shapes (N, f, f) and (N, f); anything where one is singular.

    On a face where the curvature is singular the least value is met on a smaller face as well.
    """
    if right.shape[1] == 0:
        return right
    sizes = np.abs(np.linalg.eigvalsh(matrices))
    singular = sizes.min(axis=1) <= SINGULAR * sizes.max(axis=1)
    safe = np.where(singular[:, None, None], np.eye(right.shape[1]), matrices)
    return np.asarray(np.linalg.solve(safe, right[..., None])[..., 0])


def _stationary(hessians: FloatArray, linear: FloatArray, convex: BoolArray) -> FloatArray:
    """Return the minimisers over all of R^n, NaN where there is none."""
    found = -(np.linalg.pinv(hessians, hermitian=True) @ linear[..., None])[..., 0]
    left = np.abs(times(hessians, found) + linear).max(axis=1)
    solves = left <= 1e-9 * (np.abs(linear).max(axis=1) + np.finfo(float).tiny)
    return np.where((convex & solves)[:, None], found, np.nan)


def _descend(
    game: AggregativeGame, costs: Costs, x: FloatArray, others: FloatArray
) -> BestResponses:
    """Go down each player's cost by projected gradient steps, halved until they help."""
    share = 1 / game.num_players

    def value(y: FloatArray) -> FloatArray:
        return costs.value(y, others + share * y)

    y, paid = x, value(x)
    least, steps = paid, np.ones(len(x))
    with np.errstate(over="ignore", invalid="ignore"):  # a cost may fall without end
        for _ in range(DESCENT_STEPS):
            slope = pseudo_gradient(costs, y, others + share * y, game.num_players, "full")
            moved = game.feasible.project(y - steps[:, None] * slope)
            cost = value(moved)
            better = cost < least - ENOUGH * ((moved - y) ** 2).sum(axis=-1) / steps
            y = np.where(better[:, None], moved, y)
            least = np.where(better, cost, least)
            steps = np.where(better, 2 * steps, np.maximum(steps / 2, np.finfo(float).tiny))
    return BestResponses(y, np.maximum(paid - least, 0.0), exact=False)
