"""What a transcript was good for: how near its strategies came to equilibrium."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml_logs import FloatArray, IntArray
from fedgame.games.aggregative.affine import AffineMap
from fedgame.games.aggregative.base import AggregativeGame, Costs, realised
from fedgame.games.aggregative.best_responses import best_responses
from fedgame.games.aggregative.dynamics import Dynamics, check_messages
from fedgame.games.aggregative.equilibrium import Equilibrium, distance_to, solve_equilibrium
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import FeasibleSet

SEARCHES = 20
"""On how many iterations the best responses are looked for where they have no formula."""


def replay(dynamics: Dynamics, transcript: FloatArray, types: ArrayLike) -> Iterator[FloatArray]:
    """Yield the strategies behind the messages of each iteration, which follow from the types.

    Args:
        dynamics: The public part of the run.
        transcript: o, shape (..., K', N, n), K' >= 1; a sender's last message where it sent none.
        types: Index of each player's type, shape (N,).

    Yields:
        x_k, shape (..., N, n); without the leading axes for k = 0.

    Raises:
        ValueError: The transcript or the types do not fit the dynamics.
    """
    check_messages(dynamics, transcript, "transcript")
    costs = realised(dynamics.game, types)
    state = dynamics.start(np.arange(dynamics.game.num_players))
    yield state.x
    for k in range(transcript.shape[-3] - 1):
        state = dynamics.step(costs, state, dynamics.signal(transcript[..., k, :, :]), k)
        yield state.x


@dataclass(frozen=True, eq=False)
class Progress:
    """How near strategies came to equilibrium, iteration by iteration.

    Attributes:
        error: Euclidean distance to the equilibrium, shape (K',); None where the game is not
            strongly monotone or its equilibrium cannot be computed.
        exploitability: The most that a player could gain by itself, shape (K',).
        is_exact: Whether that is the largest gain, or only the largest found.
    """

    error: FloatArray | None
    exploitability: FloatArray
    is_exact: bool


def progress(dynamics: Dynamics, transcript: FloatArray, types: IntArray) -> Progress:
    """Return how near the strategies behind a transcript came to equilibrium.

    Where best responses have no formula they are searched for, on at most 20 iterations spread
    evenly, the last one included; the iterations after each get its number.

    Args:
        dynamics: The public part of the run.
        transcript: o, shape (K', N, n), K' may be 0.
        types: Index of each player's type, shape (N,).

    Raises:
        ValueError: The transcript or the types do not fit the dynamics.
    """
    game, count = dynamics.game, len(transcript)
    equilibrium = _equilibrium(game, types)
    errors, gains = np.zeros(count), np.zeros(count)
    responding, exact = _responding(game, types, np.asarray(dynamics.initial))
    searched = set(range(count))
    if not exact and count > SEARCHES:
        searched = set(np.linspace(0, count - 1, SEARCHES).round().astype(int).tolist())
    for k, x in enumerate(replay(dynamics, transcript, types) if count else ()):
        if equilibrium is not None:
            errors[k] = distance_to(equilibrium, x)
        if k in searched:
            gains[k] = best_responses(responding, types, x).gains.max()
        else:
            gains[k] = gains[k - 1]
    return Progress(None if equilibrium is None else errors, gains, exact)


@dataclass(frozen=True)
class _Searched:
    """A game of which nobody is to know that it has formulas."""

    num_players: int
    dimension: int
    num_types: int
    feasible: FeasibleSet
    game: AggregativeGame

    def costs(self, players: IntArray, types: IntArray) -> Costs:
        return self.game.costs(players, types)


def _responding(
    game: AggregativeGame, types: IntArray, strategies: FloatArray
) -> tuple[AggregativeGame, bool]:
    """Return the game that answers are sought in, and whether they are exact."""
    try:
        return game, best_responses(game, types, strategies).exact
    except ValueError:  # quadratic, with too many dimensions for its curvature
        sizes = game.num_players, game.dimension, game.num_types
        return _Searched(*sizes, game.feasible, game), False


def _equilibrium(game: AggregativeGame, types: IntArray) -> Equilibrium | None:
    """Return the only equilibrium, None where there may be others or none is found."""
    if not isinstance(game, QuadraticGame):
        return None
    if AffineMap.of(game, types).smallest_eigenvalue() <= 0:
        return None  # without the search for one of several
    try:
        found = solve_equilibrium(game, types)
    except ValueError:  # a feasible set of one's own
        return None
    return found if found.unique else None
