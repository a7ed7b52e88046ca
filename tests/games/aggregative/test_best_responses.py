"""Best responses and exploitability against SciPy, grids, and closed forms."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.optimize import minimize

from fedgame.games.aggregative.base import realised
from fedgame.games.aggregative.best_responses import (
    best_responses,
    exploitability,
    least_quadratics,
)
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Box, Everywhere, FeasibleSet, Simplex
from fedgame.games.best_response import FloatArray, IntArray
from tests.games.aggregative.cases import cournot, named_game, random_game


def least_on_a_grid(hessian: FloatArray, linear: FloatArray, feasible: Box | Simplex) -> float:
    """Return the least value on a grid, polished by SciPy from its best points."""
    n, bounds = len(linear), [(0, 1)] * len(linear)
    points = np.array(list(itertools.product(np.linspace(0, 1, 13), repeat=n)))
    constraints = []
    if isinstance(feasible, Simplex):
        points = points[points.sum(axis=1) > 0]
        points = points / points.sum(axis=1, keepdims=True)
        constraints = [{"type": "eq", "fun": lambda y: y.sum() - 1}]
    values = ((points @ hessian / 2 + linear) * points).sum(axis=1)
    polished = [
        minimize(
            lambda y: y @ hessian @ y / 2 + linear @ y,
            points[start],
            jac=lambda y: hessian @ y + linear,
            bounds=bounds,
            constraints=constraints,
            method="SLSQP",
            options={"ftol": 1e-14},
        ).fun
        for start in np.argsort(values)[:5]
    ]
    return float(min(*polished, values.min()))


@pytest.mark.parametrize("feasible", [Box(), Simplex()], ids=repr)
@pytest.mark.parametrize("own", [2.0, 0.0, -2.0])
def test_nobody_finds_a_better_response(feasible: Box | Simplex, own: float) -> None:
    rng = np.random.default_rng(21)
    hessians = rng.normal(size=(6, 3, 3)) + own * np.eye(3)
    hessians = (hessians + np.swapaxes(hessians, 1, 2)) / 2
    linear = rng.normal(size=(6, 3))
    found = least_quadratics(hessians, linear, feasible)
    assert feasible.project(found) == pytest.approx(found, abs=1e-14)
    for y, h, g in zip(found, hessians, linear, strict=True):
        assert y @ h @ y / 2 + g @ y == pytest.approx(least_on_a_grid(h, g, feasible), abs=1e-9)


@pytest.mark.parametrize("feasible", [Box(), Simplex()], ids=repr)
def test_many_dimensions(feasible: Box | Simplex) -> None:
    n, rng = 12, np.random.default_rng(22)
    factor = rng.normal(size=(4, n, n))
    convex = factor @ np.swapaxes(factor, 1, 2) / n
    linear = rng.normal(size=(4, n))
    found = least_quadratics(convex, linear, feasible)
    # a minimiser of a convex cost: no vertex lies downhill
    slope = (convex @ found[..., None])[..., 0] + linear
    assert feasible.project(found - slope) == pytest.approx(found, abs=1e-12)
    concave = least_quadratics(-convex, linear, feasible)
    for y, h, g in zip(concave, convex, linear, strict=True):
        vertices = np.array([point for point, _ in feasible.faces(n, 0)])
        values = ((-vertices @ h / 2 + g) * vertices).sum(axis=1)
        assert -y @ h @ y / 2 + g @ y == pytest.approx(values.min())
    mixed = np.stack([np.diag(np.linspace(-1, 1, n))] * 4)
    with pytest.raises(ValueError, match="dimension = 12: an exact best response needs"):
        least_quadratics(mixed, linear, feasible)


def test_over_all_strategies_only_convex_costs_have_a_least_value() -> None:
    hessians = np.array([np.diag([1.0, 2.0]), np.diag([1.0, -1.0]), np.diag([1.0, 0.0])])
    hessians = np.concatenate([hessians, hessians[2:]])
    linear = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    found = least_quadratics(hessians, linear, Everywhere())
    assert found[[0, 3]] == pytest.approx(np.array([[-1, -0.5], [-1, 0]]))
    assert np.isnan(found[1:3]).all()


@pytest.mark.parametrize("feasible", [Box(), Simplex()], ids=repr)
def test_gains_are_differences_of_costs(feasible: Box | Simplex) -> None:
    game, types = random_game(23, 4, 3, feasible), np.array([0, 1, 1, 0])
    x = feasible.project(np.random.default_rng(24).normal(size=(4, 3)))
    answer = best_responses(game, types, x)
    costs = realised(game, types)
    paid = costs.value(x, np.broadcast_to(x.mean(axis=0), x.shape))
    for i in range(4):
        changed = x.copy()
        changed[i] = answer.strategies[i]
        mean = np.broadcast_to(changed.mean(axis=0), x.shape)
        assert answer.gains[i] == pytest.approx(paid[i] - costs.value(changed, mean)[i], abs=1e-12)
    assert answer.exact
    assert exploitability(game, types, x).largest == answer.gains.max() > 0.01


def test_cournot_by_hand() -> None:
    # against two firms that supply 3 each, 9 y - y (6 + y) is largest at y = 1.5, and 0 at 3
    certificate = exploitability(cournot(), [0, 0, 0], np.full((3, 1), 3.0))
    assert certificate.gains == pytest.approx(1.5**2)
    assert exploitability(cournot(), [0, 0, 0], np.full((3, 1), 2.25)).largest < 1e-15


def test_vaccination_has_no_best_response_without_a_feasible_set() -> None:
    game = named_game("vaccination", 3, feasible="none", a="1", b="1", types=1)
    assert exploitability(game, [0, 0, 0], np.zeros((3, 1))).largest == np.inf


@dataclass(frozen=True)
class Quartic:
    """Costs (x - target)^4 + x delta, one target a row: a game of one's own."""

    targets: FloatArray

    def value(self, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        return np.asarray((x[..., 0] - self.targets) ** 4 + x[..., 0] * aggregate[..., 0])

    def own_gradient(self, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        return 4 * (x - self.targets[:, None]) ** 3 + aggregate

    def aggregate_gradient(self, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        return x + 0 * aggregate


@dataclass(frozen=True)
class QuarticGame:
    """A game of one's own with two types a player."""

    feasible: FeasibleSet = field(default_factory=lambda: Box(-2.0, 2.0))
    num_players: int = 3
    dimension: int = 1
    num_types: int = 2

    def costs(self, players: IntArray, types: IntArray) -> Quartic:
        return Quartic(players + 0.5 * types - 1.0)


def test_a_game_of_ones_own_has_lower_bounds() -> None:
    game, types, x = QuarticGame(), [0, 1, 0], np.array([[0.5], [0.5], [-0.5]])
    answer = best_responses(game, types, x)
    assert not answer.exact
    costs, grid = game.costs(np.arange(3), np.array(types)), np.linspace(-2, 2, 400_001)
    for i in range(3):
        others = (x.sum() - x[i, 0]) / 3
        line = (grid - costs.targets[i]) ** 4 + grid * (others + grid / 3)
        paid = (x[i, 0] - costs.targets[i]) ** 4 + x[i, 0] * (others + x[i, 0] / 3)
        assert answer.gains[i] == pytest.approx(paid - line.min(), abs=1e-8)


class Orthant:
    """A feasible set of one's own: everything >= 0."""

    def project(self, points: FloatArray) -> FloatArray:
        return np.maximum(points, 0.0)


def test_over_a_set_of_ones_own_a_cost_may_fall_without_end() -> None:
    game = QuadraticGame.of([[[1.0]], [[-1.0]]], curvature=0.0, feasible=Orthant())
    answer = best_responses(game, [0, 0], [[3.0], [0.0]])
    assert answer.gains[0] == pytest.approx(3)
    assert answer.gains[1] > 1e100
    assert not answer.exact


def test_a_profile_outside_the_feasible_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"player 1 = \[2.0\]: is 1 outside the feasible set"):
        exploitability(cournot(3, Box()), [0, 0, 0], [[0.0], [2.0], [1.0]])
