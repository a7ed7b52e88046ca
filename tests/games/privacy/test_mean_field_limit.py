"""N-player equilibria approach the mean field: distances, rates, and their oracles."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.equilibrium import (
    MeanFieldEquilibrium,
    MeanFieldGame,
    mean_field_equilibrium,
)
from fedgame.games.privacy.mean_field_limit import (
    fitted_exponent,
    mean_field_rate,
    types_in_proportion,
    whole_shares,
)
from fedgame.games.privacy.population import Population

GRID = np.linspace(0.0, 2.0, 11)
SIZES = [2, 10, 100, 1_000, 10_000, 100_000]


def substitutes(num_types: int = 7) -> MeanFieldGame:
    betas = Population(beta_min=0.5, beta_max=2.0).betas(num_types)
    return MeanFieldGame(GRID, np.ones(num_types), lambda mean: (GRID + mean - betas[:, None]) ** 2)


def congestion() -> tuple[MeanFieldGame, MeanFieldEquilibrium]:
    """Playing 1 costs the mean of the others, playing 0 costs 1/3."""
    game = MeanFieldGame(np.array([0.0, 1.0]), np.ones(1), lambda mean: np.array([[1 / 3, mean]]))
    return game, mean_field_equilibrium(game)


@pytest.mark.parametrize("num_types", [7, 400])
def test_a_population_in_proportion_approaches_at_rate_one(num_types: int) -> None:
    game = substitutes(num_types)
    begin = time.process_time()
    rate = mean_field_rate(game, mean_field_equilibrium(game), SIZES)
    assert time.process_time() - begin < 20
    assert rate.converged == (True,) * 6
    assert rate.gains.max() <= 1e-15
    assert -1.15 < rate.exponent < -0.85
    assert rate.distances[-1] < 1e-4
    assert (rate.mean_distances <= rate.distances + 1e-15).all()


def test_a_sampled_population_approaches_at_rate_one_half() -> None:
    game = substitutes()
    generator = np.random.default_rng(5)
    rate = mean_field_rate(game, mean_field_equilibrium(game), SIZES, generator, repeats=12)
    assert rate.converged == (True,) * 6
    assert -0.6 < rate.exponent < -0.4
    assert rate.distances[-1] < 5e-3


def test_rounding_errors_are_no_distance() -> None:
    # Two types in equal parts play as the mean field does from ten players on.
    game = substitutes(2)
    rate = mean_field_rate(game, mean_field_equilibrium(game), [10, 100, 1000])
    assert rate.distances.tolist() == rate.mean_distances.tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(rate.exponent)


def test_equilibria_of_a_congestion_game_are_those_of_counting() -> None:
    # n players at 1 is an equilibrium if (n - 1)/(N - 1) <= 1/3 <= n/(N - 1).
    game, field = congestion()
    assert field.mean_strength == pytest.approx(1 / 3)
    sizes = [2, 3, 5, 8, 11, 50, 1001]
    rate = mean_field_rate(game, field, sizes)
    for size, distance in zip(sizes, rate.distances, strict=True):
        allowed = [
            n for n in range(size + 1) if (n == 0 or 3 * (n - 1) <= size - 1) and 3 * n >= size - 1
        ]
        assert any(distance == pytest.approx(abs(n / size - 1 / 3), abs=1e-12) for n in allowed)
        assert distance <= 1 / size + 1e-12


def test_fictitious_play_ends_at_an_equilibrium_or_says_that_it_did_not() -> None:
    game, field = congestion()
    small = replace(game, disutility=lambda mean: 1e-6 * game.disutility(mean))
    sizes = [3, 8, 50]
    for each in (game, small):  # disutilities have no unit: what is a small gain follows from them
        play = mean_field_rate(each, field, sizes, method="fictitious-play", max_rounds=300)
        spread = np.ptp(each.disutility(0.0))
        assert (play.gains <= 1e-3 * spread + 1e-15).all() == all(play.converged)
        far = play.distances > 1 / np.array(sizes) + 1e-3
        assert not (far & np.array(play.converged)).any()


def test_the_distance_is_wassersteins() -> None:
    def disutility(mean: float) -> FloatArray:
        return (GRID + mean - 1.27) ** 2 + 0.05 * np.sin(9 * GRID)[None, :]

    game = MeanFieldGame(GRID, np.ones(1), disutility)
    moved = replace(
        mean_field_equilibrium(game), population=np.full(11, 1 / 11)
    )  # far from what two players do
    rate = mean_field_rate(game, moved, [2])
    # Two equal players: enumerate what they can end at, and compare with SciPy's distance.
    pairs = [
        (i, j)
        for i in range(11)
        for j in range(11)
        if disutility(GRID[j])[0, i] <= disutility(GRID[j]).min()
        and disutility(GRID[i])[0, j] <= disutility(GRID[i]).min()
    ]
    expected = [wasserstein_distance(GRID[list(pair)], GRID) for pair in pairs]
    assert any(rate.distances[0] == pytest.approx(value, abs=1e-12) for value in expected)


def test_players_without_pure_equilibrium_are_flagged() -> None:
    # Two types: the first wants to be where the second is, the second where the first is not.
    grid = np.array([0.0, 1.0])
    strong = np.array([0.5, 0.5])

    def disutility(mean: float) -> FloatArray:
        return np.array([[mean, 1 - mean], [1 - mean, mean]])

    game = MeanFieldGame(grid, strong, disutility)
    field = mean_field_equilibrium(game)
    rate = mean_field_rate(game, field, [2])
    assert rate.converged == (False,)
    assert rate.gains[0] == 1.0
    assert np.isnan(rate.exponent)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda x: sum(x) > 0.1),
    st.integers(0, 1000),
)
def test_whole_shares_sum_up_and_stay_within_one(shares: list[float], total: int) -> None:
    exact = np.array(shares) / np.sum(shares) * total
    whole = whole_shares(np.array(shares), total)
    assert whole.sum() == total
    assert (np.abs(whole - exact) < 1 + 1e-9).all()


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda x: sum(x) > 0.1),
    st.integers(1, 300),
)
def test_types_in_proportion_keep_every_cumulative_share(shares: list[float], total: int) -> None:
    types = types_in_proportion(np.array(shares), total)
    counts = np.bincount(types, minlength=len(shares))
    assert len(counts) == len(shares)
    assert counts.sum() == total
    exact = np.cumsum(shares) / np.sum(shares) * total
    assert (np.abs(np.cumsum(counts) - exact) <= 0.5 + 1e-9).all()


@pytest.mark.parametrize("power", [-0.5, -1.0, -2.0])
def test_a_power_law_is_fitted_exactly(power: float) -> None:
    sizes = np.array([2.0, 10.0, 1e3, 1e5])
    assert fitted_exponent(sizes, 3 * sizes**power) == pytest.approx(power, abs=1e-12)
    slope = np.polyfit(np.log(sizes), np.log([0.3, 0.2, 0.004, 0.001]), 1)[0]
    assert fitted_exponent(sizes, np.array([0.3, 0.2, 0.004, 0.001])) == pytest.approx(slope)


def test_too_few_distances_give_no_rate() -> None:
    assert np.isnan(fitted_exponent(np.array([2.0, 10.0]), np.array([0.1, 0.0])))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sizes": []}, "sizes = []"),
        ({"sizes": [10, 1]}, "must be at least 2"),
        ({"repeats": 0}, "repeats = 0"),
    ],
)
def test_bad_questions_are_refused(change: dict[str, Any], said: str) -> None:
    game, field = congestion()
    with pytest.raises(ValueError, match=said.replace("[", r"\[")):
        mean_field_rate(game, field, **({"sizes": [2]} | change))
    with pytest.raises(ValueError, match="must have converged"):
        mean_field_rate(game, replace(field, converged=False), [2])
