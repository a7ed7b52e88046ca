"""Equilibria against SciPy, dense linear algebra, closed forms, and brute force."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from scipy.optimize import minimize

from fedgame.games.aggregative.affine import AffineMap, solve_coupled
from fedgame.games.aggregative.base import pseudo_gradient, realised
from fedgame.games.aggregative.best_responses import exploitability
from fedgame.games.aggregative.equilibrium import distance_to, solve_equilibrium
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Box, Everywhere, KnownSet, Simplex
from fedgame.games.aggregative.variational import solve_inequality
from fedgame.games.best_response import FloatArray
from tests.games.aggregative.cases import cournot, named_game, random_game
from tests.games.aggregative.test_best_responses import QuarticGame


def jacobian(function: AffineMap) -> FloatArray:
    """Return the matrix of a map, column by column."""
    size = function.offset.size
    units = np.eye(size).reshape(size, *function.offset.shape)
    columns = [(function(unit) - function.offset).ravel() for unit in units]
    return np.stack(columns, axis=1)


def potential_game(seed: int, feasible: Box | Simplex) -> QuadraticGame:
    """Return a game whose equilibrium minimises the function below."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(3, 3))
    return QuadraticGame.of(
        2 * rng.normal(size=(5, 2, 3)),
        curvature=rng.uniform(0.2, 2, (5, 2, 3))[..., None] * np.eye(3),
        coupling=factor @ factor.T,
        feasible=feasible,
    )


def potential(game: QuadraticGame, types: list[int], x: FloatArray) -> float:
    """Return sum_i (a x_i + x_i Q x_i/2 + x_i S x_i/(2 N)) + N mean S mean/2."""
    table = game.table[np.arange(5), np.array(types)]
    shared, mean = table.coupling[0], x.mean(axis=0)
    own = ((table.linear + (table.curvature @ x[..., None])[..., 0] / 2) * x).sum()
    return float(own + ((x @ shared) * x).sum() / 10 + 5 * mean @ shared @ mean / 2)


@pytest.mark.parametrize("feasible", [Box(-0.5, 0.5), Simplex()], ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_with_a_potential_scipy_finds_the_same_equilibrium(
    seed: int, feasible: Box | Simplex
) -> None:
    game, types = potential_game(seed, feasible), [0, 1, 1, 0, 1]
    box = isinstance(feasible, Box)
    whole = [] if box else [{"type": "eq", "fun": lambda y: y.reshape(5, 3).sum(axis=1) - 1}]
    judge = minimize(
        lambda y: potential(game, types, y.reshape(5, 3)),
        np.full(15, 0.0 if box else 1 / 3),
        bounds=[(-0.5, 0.5) if box else (0, 1)] * 15,
        constraints=whole,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    found = solve_equilibrium(game, types)
    assert found.unique
    assert found.strategies.ravel() == pytest.approx(judge.x, abs=1e-5)
    assert potential(game, types, found.strategies) <= judge.fun + 1e-12
    assert found.gain < 1e-13


@pytest.mark.parametrize("seed", range(12))
def test_random_monotone_games_are_solved_to_rounding(seed: int) -> None:
    sets: list[KnownSet] = [Everywhere(), Box(-0.2, 0.3), Simplex()]
    feasible = sets[seed % 3]
    game = random_game(seed, 6, 4, feasible, own=2.5)
    types = np.random.default_rng(seed).integers(0, 2, 6)
    found = solve_equilibrium(game, types)
    assert found.unique
    mean = np.broadcast_to(found.strategies.mean(axis=0), found.strategies.shape)
    slope = pseudo_gradient(realised(game, types), found.strategies, mean, 6, "full")
    moved = feasible.project(found.strategies - slope)
    assert moved == pytest.approx(found.strategies, abs=1e-13)
    assert found.gain < 1e-13


def test_all_ways_that_bounds_can_bind_leave_one_equilibrium() -> None:
    game = random_game(31, 3, 2, Box(-0.2, 0.2), own=1.5)
    function = AffineMap.of(game, [0, 0, 1])
    matrix, offset = jacobian(function), function.offset.ravel()
    solutions = []
    for where in itertools.product((-1, 0, 1), repeat=6):
        bound = np.array(where)
        free = bound == 0
        x = 0.2 * bound.astype(np.float64)
        x[free] = np.linalg.solve(matrix[np.ix_(free, free)], -(offset + matrix @ x)[free])
        slope = matrix @ x + offset
        if np.abs(x).max() <= 0.2 and (slope * bound <= 1e-12).all():
            solutions.append(x)
    assert len(solutions) == 1
    found = solve_equilibrium(game, [0, 0, 1]).strategies
    assert found.ravel() == pytest.approx(solutions[0], abs=1e-13)


def test_without_a_feasible_set_it_is_a_linear_system() -> None:
    game = random_game(32, 7, 3, Everywhere())
    types = [0, 1, 1, 0, 0, 1, 0]
    function = AffineMap.of(game, types)
    expected = np.linalg.solve(jacobian(function), -function.offset.ravel())
    found = solve_equilibrium(game, types).strategies
    assert found.ravel() == pytest.approx(expected, rel=1e-11)


def test_the_map_is_the_gradient_at_the_true_mean() -> None:
    game, types = random_game(33, 5, 3, Everywhere()), [0, 1, 0, 1, 1]
    x = np.random.default_rng(34).normal(size=(5, 3))
    mean = np.broadcast_to(x.mean(axis=0), x.shape)
    slope = pseudo_gradient(realised(game, types), x, mean, 5, "full")
    assert AffineMap.of(game, types)(x) == pytest.approx(slope, abs=1e-13)


@pytest.mark.parametrize("seed", range(10))
def test_the_smallest_eigenvalue_is_that_of_the_whole_matrix(seed: int) -> None:
    own = (2.0, 0.0, -2.0)[seed % 3]
    game = random_game(seed, 2 + 3 * seed, 1 + seed % 4, Everywhere(), own=own)
    function = AffineMap.of(game, np.zeros(game.num_players, dtype=np.int64))
    matrix = jacobian(function)
    expected = np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]
    assert function.smallest_eigenvalue() == pytest.approx(expected, abs=1e-12)
    assert np.linalg.norm(matrix, ord=2) <= function.bound


@pytest.mark.parametrize("couple", [0.0, 1.0, -1.0])
def test_the_smallest_eigenvalue_of_players_who_are_alike(couple: float) -> None:
    game = QuadraticGame.of(np.zeros((9, 1, 2)), curvature=np.eye(2), coupling=couple * np.eye(2))
    function = AffineMap.of(game, [0] * 9)
    # X = 1 + couple/9, and the mean adds couple in one direction
    expected = 1 + couple / 9 + min(couple, 0)
    assert function.smallest_eigenvalue() == pytest.approx(expected, abs=1e-13)


def test_coupled_systems_are_solved_and_singular_ones_told() -> None:
    rng = np.random.default_rng(35)
    blocks, couplings = rng.normal(size=(2, 5, 3, 3))
    right = rng.normal(size=(5, 3))
    found = solve_coupled(blocks, couplings, right)
    again = (blocks @ found[..., None])[..., 0] + couplings @ found.mean(axis=0)
    assert again == pytest.approx(right, abs=1e-12)
    assert np.isnan(solve_coupled(0 * blocks, 0 * couplings, right)).all()


@pytest.mark.parametrize("ends", [(0.0, 2.0), (-2.0, 0.0)])
def test_where_newton_fails_steps_along_the_gradient_go_on(ends: tuple[float, float]) -> None:
    # a rotation: monotone, not strongly, singular wherever a bound binds
    own = np.array([[[0.0, 1.0], [-1.0, 0.0]]] * 2)
    function = AffineMap(own, np.zeros_like(own), np.array([[-1.0, 0.5], [0.3, -0.2]]))
    feasible = Box(*ends)
    found = solve_inequality(function, feasible, np.full((2, 2), ends[0]), monotone=True)
    assert found.residual < 1e-12
    assert feasible.project(found.x - function(found.x)) == pytest.approx(found.x, abs=1e-11)


def test_cournot_in_closed_form() -> None:
    for players in (2, 3, 50):
        # 9 - 3 (mean + x/N) = 0 where all are alike
        found = solve_equilibrium(cournot(players), [0] * players)
        assert found.strategies == pytest.approx(3 / (1 + 1 / players), rel=1e-14)
        assert found.unique
        assert found.smallest_eigenvalue == pytest.approx(3 / players)


def test_distances_are_told_where_there_is_one_equilibrium() -> None:
    found = solve_equilibrium(cournot(), [0, 0, 0])
    profiles = np.array([[[2.25]] * 3, [[3.25], [2.25], [2.25]], [[3.25]] * 3])
    distances = distance_to(found, profiles)
    assert distances is not None
    assert distances == pytest.approx([0, 1, np.sqrt(3)], abs=1e-13)


@pytest.mark.parametrize("dimension", [1, 3])
def test_vaccination_has_an_equilibrium_at_each_end(dimension: int) -> None:
    game = named_game("vaccination", 5, dimension=dimension, a="0.2, 0.4", b="1, 1")
    types = [0, 1, 1, 0, 1]
    for end in (0.0, 1.0):
        profile = np.full((5, dimension), end)
        assert exploitability(game, types, profile).largest == 0
        found = solve_equilibrium(game, types, profile)
        assert np.array_equal(found.strategies, profile)
        assert found.smallest_eigenvalue == pytest.approx(-6 / 5)
        assert not found.unique
        assert distance_to(found, profile) is None
    function = AffineMap.of(game, types)
    matrix = jacobian(function)
    assert np.linalg.eigvalsh(matrix + matrix.T).max() < 0


def test_vaccination_has_no_equilibrium_without_a_feasible_set() -> None:
    game = named_game("vaccination", 3, a="0.2, 0.4", b="1, 2", feasible="none")
    with pytest.raises(ValueError, match="no equilibrium: the cost of player 1 falls without end"):
        solve_equilibrium(game, [0, 1, 0])


def test_vaccination_on_the_simplex_ends_at_vertices() -> None:
    game = named_game("vaccination", 6, seed=4, dimension=3, per_player=True, feasible="simplex")
    found = solve_equilibrium(game, [0, 1, 0, 1, 0, 1])
    assert found.gain < 1e-12
    assert found.strategies.max(axis=1) == pytest.approx(1)


def test_a_game_without_a_pure_equilibrium_is_told() -> None:
    # one player wants to be where the other is, the other one where it is not; both costs concave
    game = QuadraticGame.of(
        np.zeros((2, 1, 1)),
        curvature=np.full((2, 1, 1, 1), -1.0),
        coupling=np.array([-8.0, 8.0])[:, None, None, None],
        feasible=Box(-1.0, 1.0),
    )
    with pytest.raises(ValueError, match="no equilibrium found: a player can still gain"):
        solve_equilibrium(game, [0, 0], [[1.0], [1.0]])


def test_costs_that_are_linear_everywhere_have_no_equilibrium() -> None:
    game = QuadraticGame.of(np.ones((3, 1, 1)))
    with pytest.raises(ValueError, match="no equilibrium found: a player can still gain inf"):
        solve_equilibrium(game, [0, 0, 0])


def test_only_quadratic_games_are_solved() -> None:
    with pytest.raises(ValueError, match="QuarticGame: only quadratic games are solved exactly"):
        solve_equilibrium(QuarticGame(), [0, 0, 0])


def test_ten_thousand_players_take_a_moment() -> None:
    game = named_game("energy", 10_000, types=4, per_player=True, most=5.0)
    types = np.random.default_rng(36).integers(0, 4, 10_000)
    begin = time.perf_counter()
    found = solve_equilibrium(game, types)
    assert found.gain < 1e-12
    assert 0.1 < (found.strategies == 5.0).mean() < 0.9
    assert time.perf_counter() - begin < 10
