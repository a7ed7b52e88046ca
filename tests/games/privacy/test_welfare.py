"""The social optimum against linear programs and brute force, the price of anarchy by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.equilibrium import (
    MeanFieldGame,
    mean_field_equilibria,
    mean_field_equilibrium,
)
from fedgame.games.privacy.release import StrengthDisutility
from fedgame.games.privacy.welfare import (
    PriceOfAnarchy,
    SocialOptimum,
    average_disutility,
    price_of_anarchy,
    social_optimum,
    symmetric_optimum,
)


def free_riders(num_clients: int, grid: FloatArray, betas: FloatArray) -> MeanFieldGame:
    """Each pays s/2 for its own noise; the sum T of all noise costs beta .3/T in privacy."""
    disutility = StrengthDisutility(
        grid, betas, lambda s: 0.5 * s, lambda total: 0.3 / total, num_clients, "own", "aggregate"
    )
    return MeanFieldGame(grid, np.ones(len(betas)), disutility)


@pytest.mark.parametrize("num_clients", [1, 4, 9, 25])
def test_price_of_anarchy_of_a_public_good_is_n_plus_1_over_2_root_n(num_clients: int) -> None:
    # Alone, a client stops where c = b/T^2, T = sqrt(b/c); together at T = sqrt(N b/c).
    grid = np.linspace(0.001, 1.0, 400)
    game = free_riders(num_clients, grid, np.ones(1))
    equilibria = mean_field_equilibria(game)
    optimum = symmetric_optimum(game)
    step = grid[1] - grid[0]
    assert len(equilibria) == 1
    assert equilibria[0].unique is True
    assert equilibria[0].mean_strength == pytest.approx(np.sqrt(0.6) / num_clients, abs=step)
    assert optimum.mean_strength == pytest.approx(np.sqrt(0.6 / num_clients), abs=step)
    price = price_of_anarchy(game, equilibria, optimum)
    assert price.anarchy == pytest.approx((num_clients + 1) / (2 * np.sqrt(num_clients)), rel=3e-3)
    assert price.gap == pytest.approx(price.worst - optimum.disutility)


@given(
    st.lists(st.floats(-1, 1), min_size=18, max_size=18),
    st.lists(st.floats(0.1, 5), min_size=2, max_size=2),
)
@settings(max_examples=8, deadline=None)
def test_the_optimum_is_that_of_linear_programs_and_beats_every_pure_profile(
    numbers: list[float], weights: list[float]
) -> None:
    grid = np.array([0.2, 0.5, 1.7])
    a, b, c = np.array(numbers).reshape(3, 2, 3)
    game = MeanFieldGame(grid, np.array(weights), lambda x: a + b * x + c * np.cos(2 * x))
    pure = [np.eye(3)[list(pair)] for pair in product(range(3), repeat=2)]
    means = [float(game.weights @ profile @ grid) for profile in pure]
    optimum = social_optimum(game, scan=21, extra=means)
    assert optimum.strategies.sum(axis=1) == pytest.approx(1, abs=1e-12)
    cost = average_disutility(game, optimum.strategies)
    assert cost == pytest.approx(optimum.disutility, abs=1e-9)

    def program(mean: float) -> float:
        costs = (game.weights[:, None] * game.table(mean)).ravel()
        sums = np.kron(np.eye(2), np.ones(3))
        means = (game.weights[:, None] * grid).ravel()
        solved = linprog(costs, A_eq=np.vstack([sums, means]), b_eq=[1, 1, mean], bounds=(0, 1))
        return float(solved.fun)

    assert program(optimum.mean_strength) == pytest.approx(optimum.disutility, abs=1e-8)
    assert all(program(mean) >= optimum.disutility - 1e-8 for mean in np.linspace(0.2, 1.7, 21))
    for profile in pure:
        assert optimum.disutility <= average_disutility(game, profile) + 1e-9
    assert optimum.disutility <= symmetric_optimum(game).disutility + 1e-9


def test_the_symmetric_optimum_is_the_best_of_the_grid() -> None:
    grid = np.array([0.1, 0.3, 0.5, 1.0])
    game = free_riders(6, grid, np.array([0.5, 3.0]))
    averages = [average_disutility(game, np.tile(np.eye(4)[j], (2, 1))) for j in range(4)]
    optimum = symmetric_optimum(game)
    assert optimum.disutility == pytest.approx(min(averages))
    assert optimum.mean_strength == grid[int(np.argmin(averages))]


def test_without_coupling_selfish_choice_costs_nothing() -> None:
    grid = np.array([0.1, 0.3, 0.5, 1.0])
    betas = np.array([0.1, 0.4, 2.0])
    disutility = StrengthDisutility(grid, betas, lambda s: 0.5 * s, lambda s: 0.3 / s, 6, "own")
    game = MeanFieldGame(grid, np.ones(3), disutility)
    price = price_of_anarchy(game, mean_field_equilibria(game))
    assert price.anarchy == pytest.approx(1.0, abs=1e-12)
    assert price.stability == pytest.approx(1.0, abs=1e-12)


def test_free_riding_costs_something_and_noise_falls_short() -> None:
    grid = np.linspace(0.01, 1.0, 30)
    game = free_riders(10, grid, np.array([0.5, 1.0, 2.0]))
    equilibria = mean_field_equilibria(game)
    price = price_of_anarchy(game, equilibria)
    assert price.anarchy is not None
    assert price.anarchy > 1.2
    assert equilibria[0].mean_strength < price.optimum.mean_strength


def test_several_equilibria_give_a_best_and_a_worst() -> None:
    # Meeting at 1 costs 1, meeting at 0 costs 2, missing costs 3: both meetings are equilibria.
    game = MeanFieldGame(np.array([0.0, 1.0]), np.ones(1), lambda x: np.array([[2 + x, 3 - 2 * x]]))
    price = price_of_anarchy(game, mean_field_equilibria(game))
    assert price.stability == pytest.approx(1.0)
    # The mixture, at x = 1/3, is the worst: 2 + 1/3.
    assert price.anarchy == pytest.approx(7 / 3)


def test_no_ratio_is_shown_for_an_optimum_of_zero() -> None:
    optimum = SocialOptimum(0.1, np.ones((1, 1)), 0.0)
    price = PriceOfAnarchy(optimum, worst=1.0, best=0.5)
    assert price.anarchy is None
    assert price.stability is None
    assert price.gap == 1.0


def test_one_strength_is_its_own_optimum() -> None:
    game = MeanFieldGame(np.array([0.5]), np.ones(2), lambda _: np.array([[1.0], [3.0]]))
    assert social_optimum(game).disutility == 2.0
    assert price_of_anarchy(game, mean_field_equilibria(game)).anarchy == 1.0


def test_bad_questions_are_refused() -> None:
    game = free_riders(4, np.array([0.1, 0.5]), np.ones(1))
    with pytest.raises(ValueError, match="scan = 1"):
        social_optimum(game, scan=1)
    with pytest.raises(ValueError, match="at least one is needed"):
        price_of_anarchy(game, [])
    unfinished = replace(mean_field_equilibrium(game), converged=False)
    with pytest.raises(ValueError, match="each must have converged"):
        price_of_anarchy(game, [unfinished])
