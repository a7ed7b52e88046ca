"""Exact Nash equilibria of quadratic games, and how far a profile is from one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.aggregative.affine import AffineMap
from fedgame.games.aggregative.base import AggregativeGame, check_feasible, realised
from fedgame.games.aggregative.best_responses import SLACK, best_responses
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Everywhere, KnownSet
from fedgame.games.aggregative.variational import solve_inequality
from fedgame.games.best_response import FloatArray

TURNS = 1_000
CERTIFIED = 1e-10


@dataclass(frozen=True)
class Equilibrium:
    """A Nash equilibrium, with its certificate.

    Attributes:
        strategies: x*, shape (N, n).
        gain: The most that any player could gain by changing its strategy alone, in units of cost;
            about 1e-16 of the costs from rounding.
        smallest_eigenvalue: Of the symmetric part of the pseudo-gradient's matrix: the game is
            monotone if it is >= 0.
        unique: Whether the game is strongly monotone, so that there is no other equilibrium.
    """

    strategies: FloatArray
    gain: float
    smallest_eigenvalue: float
    unique: bool


def solve_equilibrium(
    game: AggregativeGame, types: ArrayLike, start: ArrayLike | None = None
) -> Equilibrium:
    """Return a Nash equilibrium of a quadratic game.

    Where every cost is convex in the player's own strategy, it solves a variational inequality.
    Otherwise players answer each other, all at once, until nobody moves.

    Args:
        game: The game.
        types: Index of each player's type, shape (N,).
        start: The profile to begin at, shape (N, n); matters where there are several equilibria.
            By default the projection of 0.

    Raises:
        ValueError: The game is not quadratic over all of R^n, a box or the simplex; it has no
            equilibrium; or none was found from the start.
    """
    if not isinstance(game, QuadraticGame):
        raise ValueError(f"{type(game).__name__}: only quadratic games are solved exactly")
    feasible = game.feasible
    if not isinstance(feasible, KnownSet):
        raise ValueError(f"feasible set {type(feasible).__name__}: must be a box or the simplex")
    function = AffineMap.of(game, types)
    smallest = function.smallest_eigenvalue()
    slack = SLACK * function.bound
    none = np.zeros((game.num_players, game.dimension))
    first = feasible.project(none) if start is None else check_feasible(game, start)
    lowest = np.linalg.eigvalsh(function.hessians)[:, 0]
    x = first
    if lowest.min() >= -slack:
        x = solve_inequality(function, feasible, first, monotone=smallest >= -slack).x
    elif isinstance(feasible, Everywhere):
        player = int(np.argmin(lowest))
        raise ValueError(
            f"no equilibrium: the cost of player {player} falls without end in its own strategy "
            f"(second derivative {lowest[player]:.6g}); it needs a box or the simplex"
        )
    return _certified(game, types, x, smallest, unique=smallest > slack)


def distance_to(equilibrium: Equilibrium, strategies: FloatArray) -> FloatArray | None:
    """Return Euclidean distances of profiles to the equilibrium, shape (...).

    Args:
        equilibrium: The equilibrium.
        strategies: Shape (..., N, n).

    Returns:
        None if the game is not strongly monotone: another equilibrium could be nearer.
    """
    if not equilibrium.unique:
        return None
    apart = strategies - equilibrium.strategies
    return np.asarray(np.sqrt((apart**2).sum(axis=(-2, -1))))


def _certified(
    game: QuadraticGame, types: ArrayLike, x: FloatArray, smallest: float, *, unique: bool
) -> Equilibrium:
    """Let players answer each other until nobody can gain, which may be at once."""
    costs = realised(game, types)
    for _ in range(TURNS):
        answer = best_responses(game, types, x)
        gain = float(answer.gains.max())
        paid = np.abs(costs.value(x, np.broadcast_to(x.mean(axis=0), x.shape))).max()
        if gain <= CERTIFIED * (1 + paid):
            return Equilibrium(x, gain, smallest, unique=unique)
        if not np.isfinite(gain):
            break
        x = answer.strategies
    raise ValueError(
        f"no equilibrium found: a player can still gain {gain:.3g} after {TURNS} best responses of "
        f"all (smallest eigenvalue of the pseudo-gradient: {smallest:.6g})"
    )
