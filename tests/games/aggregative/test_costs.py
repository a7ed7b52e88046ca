"""Costs of quadratic and registered games: formulas by hand, gradients by finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgame.games.aggregative.base import Costs, check_types, pseudo_gradient, realised
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Everywhere
from fedgame.games.best_response import FloatArray
from tests.games.aggregative.cases import named_game, random_game

NAMES = ["vaccination", "cournot", "energy"]
SETTINGS: dict[str, Any] = {"dimension": 3, "types": 2, "per_player": True}


def differences(costs: Costs, x: FloatArray, mean: FloatArray, share: float) -> FloatArray:
    """Return central differences of fbar(x, mean) by x, where the mean moves by share times x."""
    columns = []
    for unit in 1e-4 * np.eye(x.shape[1]):
        ahead = costs.value(x + unit, mean + share * unit)
        behind = costs.value(x - unit, mean - share * unit)
        columns.append((ahead - behind) / 2e-4)
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("name", [*NAMES, "random"])
def test_gradients_are_differences_of_costs(name: str) -> None:
    n, players = 3, 5
    game = (
        random_game(0, players, n, Everywhere())
        if name == "random"
        else named_game(name, players, **SETTINGS)
    )
    rng = np.random.default_rng(1)
    costs = realised(game, rng.integers(0, 2, players))
    x, mean = rng.normal(size=(2, players, n))
    full = pseudo_gradient(costs, x, mean, players, "full")
    paper = pseudo_gradient(costs, x, mean, players, "paper")
    assert full == pytest.approx(differences(costs, x, mean, 1 / players), abs=1e-8)
    assert paper == pytest.approx(differences(costs, x, mean, 0.0), abs=1e-8)
    assert np.abs(full - paper).max() > 1e-3


def test_vaccination_by_hand() -> None:
    game = named_game("vaccination", 2, dimension=2, types=1, a=(1, 2), b=(1, 2, 3, 4))
    a, b = np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]])
    x, mean = np.array([[0.2, 0.5], [0.1, 0.9]]), np.array([[0.3, 0.4], [0.6, 0.7]])
    costs = realised(game, [0, 0])
    value = [a @ x[i] + mean[i] @ b @ (1 - x[i]) for i in (0, 1)]
    slope = [a - b.T @ mean[i] + b @ (1 - x[i]) / 2 for i in (0, 1)]
    assert costs.value(x, mean) == pytest.approx(value)
    assert pseudo_gradient(costs, x, mean, 2, "full") == pytest.approx(np.array(slope))


def test_cournot_by_hand() -> None:
    settings: dict[str, Any] = {"price": 9, "slope": 2, "cost": (1, 3), "curvature": (4, 0)}
    costs = realised(named_game("cournot", 2, **settings), [1, 0])
    x, mean = np.array([[0.5], [0.25]]), np.array([[0.4], [0.6]])
    value = [3 * 0.5 - 0.5 * (9 - 0.8), 0.25 + 4 * 0.25**2 / 2 - 0.25 * (9 - 1.2)]
    assert costs.value(x, mean) == pytest.approx(value)


def test_energy_by_hand() -> None:
    settings: dict[str, Any] = {"price": 1, "slope": 0.5, "demand": (5, 7), "weight": (2, 3)}
    costs = realised(named_game("energy", 2, **settings), [1, 0])
    x, mean = np.array([[4.0], [6.0]]), np.array([[3.0], [2.0]])
    value = [3 * (4 - 7) ** 2 + 4 * (1 + 1.5), 2 * (6 - 5) ** 2 + 6 * (1 + 1)]
    assert costs.value(x, mean) == pytest.approx(value)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_has_the_same_bits_alone_and_among_others(name: str) -> None:
    game = named_game(name, 50, **SETTINGS)
    rng = np.random.default_rng(2)
    players, types = np.arange(50), rng.integers(0, 2, 50)
    x, mean = rng.normal(size=(2, 50, 3))
    together = pseudo_gradient(game.costs(players, types), x, mean, 50, "full")
    for i in (0, 17, 49):
        row = slice(i, i + 1)
        alone = game.costs(players[row], types[row])
        slope = pseudo_gradient(alone, x[row], mean[row], 50, "full")
        assert slope.tobytes() == together[row].tobytes()


def test_parameters_broadcast_and_curvatures_are_made_symmetric() -> None:
    game = QuadraticGame.of(np.ones((3, 2, 2)), curvature=[[1.0, 4.0], [0.0, 1.0]], coupling=2.0)
    assert (game.num_players, game.num_types, game.dimension) == (3, 2, 2)
    assert game.table.curvature[2, 1].tolist() == [[1, 2], [2, 1]]
    assert game.table.coupling.shape == (3, 2, 2, 2)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"linear": np.ones((1, 2, 2))}, r"shape \(1, 2, 2\): must be \(players, types, n\)"),
        ({"linear": np.ones(3)}, r"shape \(3,\): must be"),
        ({"linear": np.full((2, 1, 1), np.nan)}, "linear: must be finite"),
        ({"linear": np.ones((2, 1, 1)), "coupling": np.inf}, "coupling: must be finite"),
        (
            {"linear": np.ones((2, 1, 2)), "curvature": np.ones((3, 3))},
            r"curvature of shape \(3, 3\): must broadcast to \(2, 1, 2, 2\)",
        ),
    ],
)
def test_what_is_no_game_is_refused(arguments: dict[str, FloatArray], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        QuadraticGame.of(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("types", "error"),
    [
        ([0, 2, 1], "type of player 1 = 2: must be from 0 to 1"),
        ([0, 0, -1], "type of player 2 = -1: must be from 0 to 1"),
        ([0, 1], "must be 3 indices"),
        ([0.0, 1.0, 1.0], "float64 of shape"),
    ],
)
def test_types_outside_the_support_are_refused(types: list[int], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        check_types(random_game(0, 3, 1, Everywhere()), types)
