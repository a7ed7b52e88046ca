"""Games and runs that several tests share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.aggregative import AGGREGATIVE
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.graphs import CompleteGraph, WeightedGraph
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.sets import Box, Everywhere, KnownSet
from fedgame.games.best_response import FloatArray

LINE = np.array([[0, 0.4, 0], [0.4, 0, 0.3], [0, 0.3, 0]])

Prior = Callable[[Sequence[int]], float]


class Example(NamedTuple):
    """A run of scalar messages, a prior on types, and what both must give."""

    dynamics: Dynamics
    transcript: FloatArray
    prior: Prior
    log_probability: float
    leakage: float
    individual: list[float]

    @property
    def profiles(self) -> list[tuple[int, ...]]:
        game = self.dynamics.game
        return list(itertools.product(range(game.num_types), repeat=game.num_players))


def product_prior(types: Sequence[int]) -> float:
    """P(f0) = .3 for player 0 and .6 for player 1."""
    first, second = types
    return (0.3, 0.7)[first] * (0.6, 0.4)[second]


def correlated_prior(types: Sequence[int]) -> float:
    """The PML paper's eq. 8 with alpha = .4, beta = .7."""
    same = all(other == types[0] for other in types)
    return (0.4, 0.6)[types[0]] * (0.7 if same else 0.3 / (2 ** (len(types) - 1) - 1))


def scalars(values: ArrayLike) -> FloatArray:
    """Append the axis of strategies of one dimension."""
    return np.asarray(values, dtype=np.float64)[..., None]


def two_players() -> Example:
    """Rule ye, no projection, a product prior."""
    a, b = np.array([1.0, 2.0]), np.array([2.0, 0.5])
    game = QuadraticGame.of(np.tile(a, (2, 1))[..., None], coupling=-b[:, None, None])
    schedules = Schedules.of(3, noise="1, 1.5, 2", step=".5, .4")
    return Example(
        Dynamics(game, CompleteGraph(2), schedules, scalars([0.5, 0.25]), "ye", "paper"),
        scalars([[0.7, -0.4], [-0.6, 0.9], [1.1, -1.3]]),
        product_prior,
        -9.495264128897434,
        0.1066564682015426,
        [0.02451463410558621, 0.08214183409595643],
    )


def three_players() -> Example:
    """Rule wang on a line, projection on a box, a correlated prior."""
    a, b = np.array([0.8, -0.6]), np.array([-1.0, 0.5])
    game = QuadraticGame.of(
        np.tile(a, (3, 1))[..., None],
        coupling=-b[:, None, None],
        curvature=0.3 * np.arange(1, 4)[:, None, None, None],
        feasible=Box(),
    )
    schedules = Schedules.of(3, noise=".8, .6, .5", step=".6, .5", gamma=".9, .7")
    initial = scalars([0.5, 0.2, 0.9])
    return Example(
        Dynamics(game, WeightedGraph(LINE), schedules, initial, "wang", "paper"),
        scalars([[0.3, 0.6, 1.2], [0.9, -0.2, 0.4], [0.1, 0.8, 0.7]]),
        correlated_prior,
        -7.918243395804884,
        1.421601171019146,
        [0.214531510430509, 0.1236432818873581, 0.4306356833972542],
    )


EXAMPLES = {"two players": two_players, "three players": three_players}


def cournot(num_players: int = 3, feasible: Everywhere | Box | None = None) -> QuadraticGame:
    """One type of firm, no curvature, price 10 - 3 delta, cost 1: the textbook's game."""
    return QuadraticGame.of(np.full((num_players, 1, 1), -9.0), coupling=3.0, feasible=feasible)


def random_game(
    seed: int,
    num_players: int,
    dimension: int,
    feasible: KnownSet,
    *,
    own: float = 1.0,
    types: int = 2,
) -> QuadraticGame:
    """Return a game with every parameter drawn; `own` is added to each own curvature."""
    rng = np.random.default_rng(seed)
    rows = (num_players, types)
    square = (*rows, dimension, dimension)
    return QuadraticGame.of(
        rng.normal(size=(*rows, dimension)),
        constant=rng.normal(size=rows),
        curvature=0.3 * rng.normal(size=square) + own * np.eye(dimension),
        coupling=0.3 * rng.normal(size=square),
        aggregate_linear=rng.normal(size=(*rows, dimension)),
        aggregate_curvature=0.3 * rng.normal(size=square),
        feasible=feasible,
    )


def named_game(name: str, num_players: int, /, seed: int = 0, **settings: Any) -> QuadraticGame:
    """Return a registered game, drawn from a seed."""
    section: Any = AGGREGATIVE.get(name)
    game = section(**settings).build(num_players, np.random.default_rng(seed))
    assert isinstance(game, QuadraticGame)
    return game
