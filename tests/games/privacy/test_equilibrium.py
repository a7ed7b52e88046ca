"""The mean-field equilibrium against closed forms and an exact enumeration in fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.games.best_response import FloatArray, best_response
from fedgame.games.privacy.equilibrium import (
    MeanFieldGame,
    mean_field_equilibria,
    mean_field_equilibrium,
)
from fedgame.games.privacy.population import Population
from fedgame.games.privacy.utilities import disutility as disutility_of
from fedgame.games.privacy.utilities import effective_strength, quadratic_loss

GRID = np.linspace(0.0, 2.0, 41)


def substitutes(betas: FloatArray, grid: FloatArray) -> Callable[[float], FloatArray]:
    """U = (s + x - beta)^2: where strengths are free, s = beta - x, so that x = mean(beta)/2."""
    return lambda mean: (grid + mean - betas[:, None]) ** 2


# --- two strategies: the closed form of symmetric games -------------------------------------------

COSTS = st.sampled_from([-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0])


@given(COSTS, COSTS)
def test_two_strategies_have_the_equilibria_of_the_symmetric_game(a: float, b: float) -> None:
    # U(1) - U(0) is a where all play 0, b where all play 1, and linear in between.
    game = MeanFieldGame(
        np.array([0.0, 1.0]), np.ones(1), lambda x: np.array([[0, a + (b - a) * x]])
    )
    mixed = [a / (a - b)] if a * b < 0 else []
    expected = [0.0] * (a > 0) + mixed + [1.0] * (b < 0)
    found = mean_field_equilibria(game)
    assert [each.mean_strength for each in found] == pytest.approx(expected, abs=1e-15)
    for each in found:
        assert each.converged
        assert each.strategies[0, 1] == pytest.approx(each.mean_strength, abs=1e-15)
        assert each.unique is (len(expected) == 1)


# --- several types: every fixed point, in exact arithmetic ----------------------------------------


def exact_range(
    slopes: list[list[tuple[int, int]]], grid: list[int], x: Fraction
) -> tuple[Fraction, Fraction]:
    """Return the least and the greatest mean of the best responses to x."""
    ends = []
    for lines in slopes:
        costs = [p + q * x for p, q in lines]
        best = [s for s, cost in zip(grid, costs, strict=True) if cost == min(costs)]
        ends.append((min(best), max(best)))
    low, high = (sum(column) for column in zip(*ends, strict=True))
    return Fraction(low, len(ends)), Fraction(high, len(ends))


def side(slopes: list[list[tuple[int, int]]], grid: list[int], x: Fraction) -> int:
    """Return 1 if all mean answers to x lie above it, -1 if below, else 0."""
    least, greatest = exact_range(slopes, grid, x)
    return int(least > x) - int(greatest < x)


def merged(intervals: list[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """Return the same points as disjoint intervals in increasing order."""
    disjoint: list[tuple[Fraction, Fraction]] = []
    for a, b in sorted(intervals):
        if disjoint and a <= disjoint[-1][1]:
            disjoint[-1] = (disjoint[-1][0], max(b, disjoint[-1][1]))
        else:
            disjoint.append((a, b))
    return disjoint


def exact_fixed_points(
    slopes: list[list[tuple[int, int]]], grid: list[int]
) -> list[tuple[Fraction, Fraction]]:
    """Return all fixed points of Phi as intervals, for U_ij(x) = p_ij + q_ij x, equal weights.

    The best responses of a type change only where two of its lines cross, so that Phi is constant
    between neighbouring crossings and a fixed point lies on a crossing or is a constant mean.
    """
    low, high = Fraction(grid[0]), Fraction(grid[-1])
    crossings = {low, high}
    for lines in slopes:
        for (p, q), (r, s) in combinations(lines, 2):
            if q != s and low < Fraction(p - r, s - q) < high:
                crossings.add(Fraction(p - r, s - q))

    found = []
    for x in sorted(crossings):
        least, greatest = exact_range(slopes, grid, x)
        if least <= x <= greatest:
            found.append((x, x))
    for left, right in pairwise(sorted(crossings)):
        least, greatest = exact_range(slopes, grid, (left + right) / 2)
        if max(least, left) <= min(greatest, right):
            found.append((max(least, left), min(greatest, right)))
    return merged(found)


LINES = st.lists(
    st.lists(st.tuples(st.integers(-6, 6), st.integers(-3, 3)), min_size=3, max_size=3),
    min_size=1,
    max_size=3,
)


@given(LINES)
@settings(max_examples=100, deadline=None)
def test_found_are_exactly_the_fixed_points_of_an_enumeration(
    lines: list[list[tuple[int, int]]],
) -> None:
    grid = [0, 2, 3]
    coefficients = np.array(lines, dtype=np.float64)
    game = MeanFieldGame(
        np.array(grid),
        np.ones(len(lines)),
        lambda x: coefficients[:, :, 0] + coefficients[:, :, 1] * x,
    )
    exact = exact_fixed_points(lines, grid)
    found = mean_field_equilibria(game, scan=121)
    assert exact
    for each in found:
        assert each.converged
        assert each.residual <= 1e-15
        assert each.exploitability.largest <= 1e-14
        assert any(a - 1e-12 <= each.mean_strength <= b + 1e-12 for a, b in exact)
    # Phi crosses the diagonal at a point, and does not just touch it, where it lies on different
    # sides a step of the scan before and after. Such a point is found if no other is that near.
    step = Fraction(3, 120)
    for a, b in exact:
        others = [end for pair in exact if pair != (a, b) for end in pair]
        isolated = a == b and all(abs(a - other) > 2 * step for other in others)
        if isolated and (a in (0, 3) or side(lines, grid, a - step) != side(lines, grid, a + step)):
            assert any(abs(each.mean_strength - a) <= 1e-12 for each in found)
    if found[0].unique is not None:
        assert found[0].unique == (len({end for pair in exact for end in pair}) == 1)


# --- continuous closed form, homogeneity, order ---------------------------------------------------


@pytest.mark.parametrize("spacing", ["geometric", "linear"])
@pytest.mark.parametrize("num_clients", [1, 2, 9, 400])
def test_quadratic_substitutes_have_the_closed_form_mean(num_clients: int, spacing: Any) -> None:
    # Preferences are close enough for every beta - x to lie inside the grid.
    betas = Population(beta_min=1.0, beta_max=1.8, spacing=spacing).betas(num_clients)
    found = mean_field_equilibrium(
        MeanFieldGame(GRID, np.ones(num_clients), substitutes(betas, GRID))
    )
    assert found.mean_strength == pytest.approx(betas.mean() / 2, abs=0.025)  # half a grid step
    assert found.converged
    assert found.residual <= 1e-15
    assert found.exploitability.largest <= 1e-9
    assert found.unique is True
    assert not found.trivial


@given(st.floats(0.01, 3.9), st.integers(1, 30))
@settings(deadline=None)
def test_equal_clients_play_one_strength_or_mix_two_neighbours(beta: float, copies: int) -> None:
    betas = np.full(copies, beta)
    found = mean_field_equilibrium(MeanFieldGame(GRID, np.ones(copies), substitutes(betas, GRID)))
    alone = mean_field_equilibrium(MeanFieldGame(GRID, np.ones(1), substitutes(betas[:1], GRID)))
    assert found.mean_strength == pytest.approx(alone.mean_strength, abs=1e-12)
    assert (found.strategies == found.strategies[0]).all()
    played = np.flatnonzero(found.strategies[0] > 1e-12)
    assert len(played) <= 2
    if len(played) == 2:
        assert played[1] == played[0] + 1
        costs = substitutes(betas, GRID)(found.mean_strength)[0, played]
        assert costs[0] == pytest.approx(costs[1], abs=1e-12)
    assert found.exploitability.largest <= 1e-9


def test_equal_clients_with_one_best_strength_play_it_exactly() -> None:
    grid = np.array([0.1, 0.3, 0.7])
    costs = np.array([2.0, 1.0, 3.0])
    found = mean_field_equilibrium(
        MeanFieldGame(grid, np.ones(10), lambda _: np.tile(costs, (10, 1)))
    )
    assert found.mean_strength == 0.3
    assert found.residual == 0.0
    assert found.population.tolist() == [0.0, 1.0, 0.0]
    assert found.iterations == 0


def test_weights_count_as_copies() -> None:
    betas = np.array([1.0, 1.8])
    weighted = MeanFieldGame(GRID, np.array([3.0, 1.0]), substitutes(betas, GRID))
    copied = np.array([1.0, 1.0, 1.0, 1.8])
    copies = MeanFieldGame(GRID, np.ones(4), substitutes(copied, GRID))
    first, second = mean_field_equilibrium(weighted), mean_field_equilibrium(copies)
    assert first.mean_strength == pytest.approx(second.mean_strength, abs=1e-14)
    assert first.population == pytest.approx(second.population, abs=1e-12)


def test_own_coupling_leaves_each_client_its_own_decision() -> None:
    grid = np.array([0.1, 0.3, 0.5, 1.0, 2.0])
    betas = Population().betas(8)
    privacy = np.exp(-2 * grid)

    def disutility(mean: float) -> FloatArray:
        loss = quadratic_loss(0.8, 0.5, effective_strength(grid, mean, 8, "own"))
        return disutility_of(loss, privacy, betas)

    found = mean_field_equilibrium(MeanFieldGame(grid, np.ones(8), disutility))
    alone = best_response(disutility(0.0))
    assert found.strategies.argmax(axis=1).tolist() == alone.tolist()
    assert found.mean_strength == pytest.approx(grid[alone].mean(), abs=1e-15)
    assert len(set(alone.tolist())) > 2  # the preferences do spread over the grid
    assert (np.diff(alone) >= 0).all()  # and more sensitive clients choose more noise
    assert found.unique is True


@given(
    st.lists(st.floats(-1, 1), min_size=24, max_size=24),
    st.lists(st.floats(0.1, 5), min_size=2, max_size=2),
)
@settings(deadline=None)
def test_every_continuous_game_ends_in_a_certified_equilibrium(
    numbers: list[float], weights: list[float]
) -> None:
    grid = np.array([0.2, 0.5, 0.9, 1.7])
    a, b, c = np.array(numbers).reshape(3, 2, 4)
    game = MeanFieldGame(
        grid, np.array(weights), lambda x: a + b * np.sin(3 * x) + c * np.cos(5 * x)
    )
    for each in mean_field_equilibria(game, scan=33):
        assert each.converged
        assert each.residual <= 1e-15
        assert each.exploitability.largest <= 1e-9
        assert each.strategies.sum(axis=1) == pytest.approx(1, abs=1e-12)
        # The certificate again, by hand.
        table = game.table(each.mean_strength)
        paid = (table * each.strategies).sum(axis=1)
        assert (paid - table.min(axis=1)).max() <= 1e-9
        mean = game.weights @ each.strategies @ grid
        assert mean == pytest.approx(each.mean_strength, abs=1e-12)


def test_an_interval_of_equilibria_is_shown_by_its_ends() -> None:
    game = MeanFieldGame(np.array([0.1, 0.4, 1.0]), np.ones(3), lambda _: np.zeros((3, 3)))
    found = mean_field_equilibria(game)
    assert [each.mean_strength for each in found] == [0.1, 1.0]
    assert all(each.converged and each.unique is False for each in found)


def test_one_strength_is_the_trivial_equilibrium() -> None:
    game = MeanFieldGame(np.array([0.3]), np.ones(5), lambda _: np.full((5, 1), 7.0))
    found = mean_field_equilibrium(game)
    assert found.trivial
    assert found.converged
    assert found.unique is True
    assert (found.mean_strength, found.residual, found.exploitability.total) == (0.3, 0.0, 0.0)
    assert found.strategies.tolist() == [[1.0]] * 5


# --- what a user sees when it goes wrong ----------------------------------------------------------


def test_too_few_iterations_are_flagged_with_the_gain() -> None:
    game = MeanFieldGame(np.array([0.0, 1.0]), np.ones(1), lambda x: np.array([[0.3, x]]))
    found = mean_field_equilibrium(game, scan=2, max_iterations=2)
    assert not found.converged
    assert found.exploitability.largest > 0.01
    assert found.iterations == 2
    assert mean_field_equilibrium(game, scan=2).converged


def test_a_jump_of_the_disutility_is_flagged() -> None:
    # Nobody wants noise where the mean is above 0.3, and all want it below: no equilibrium exists.
    game = MeanFieldGame(
        np.array([0.0, 1.0]), np.ones(1), lambda x: np.array([[0.0, 1.0 if x > 0.3 else -1.0]])
    )
    found = mean_field_equilibrium(game)
    assert not found.converged
    assert found.exploitability.largest >= 0.29


def test_a_pole_between_the_points_of_the_scan_is_flagged() -> None:
    game = MeanFieldGame(
        np.array([0.0, 1.0]), np.ones(1), lambda x: np.array([[0.0, 1 / (0.3 - x + 1e-17)]])
    )
    found = [each for each in mean_field_equilibria(game) if abs(each.mean_strength - 0.3) < 0.1]
    assert found
    assert not any(each.converged for each in found)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_an_unbounded_disutility_is_refused_by_type_and_strength(bad: float) -> None:
    game = MeanFieldGame(
        np.array([0.1, 0.5]), np.ones(2), lambda _: np.array([[1.0, 2.0], [0.0, bad]])
    )
    with pytest.raises(ValueError, match=r"type 1 at strength 0\.5 .* must be finite"):
        mean_field_equilibrium(game)


def test_a_table_of_the_wrong_shape_is_refused() -> None:
    game = MeanFieldGame(np.array([0.1, 0.5]), np.ones(2), lambda _: np.zeros(2))
    with pytest.raises(ValueError, match=r"\(2,\).*\(2, 2\) is needed"):
        mean_field_equilibrium(game)


@pytest.mark.parametrize(
    "grid", [[], [1.0, 1.0], [2.0, 1.0], [0.1, np.inf], [np.nan], [[0.1, 0.2]]]
)
def test_a_bad_grid_is_refused(grid: Any) -> None:
    with pytest.raises(ValueError, match="finite and strictly increasing"):
        MeanFieldGame(np.array(grid), np.ones(1), lambda _: np.zeros((1, 1)))


@pytest.mark.parametrize("weights", [[], [0.0], [-1.0, 2.0], [np.nan], [np.inf], [[1.0]]])
def test_bad_weights_are_refused(weights: Any) -> None:
    with pytest.raises(ValueError, match="weights must be"):
        MeanFieldGame(np.array([0.1]), np.array(weights), lambda _: np.zeros((1, 1)))


@pytest.mark.parametrize(("scan", "steps"), [(1, 10), (5, -1)])
def test_too_small_arguments_are_refused(scan: int, steps: int) -> None:
    game = MeanFieldGame(np.array([0.1]), np.ones(1), lambda _: np.zeros((1, 1)))
    with pytest.raises(ValueError, match="must be at least 2 and 0"):
        mean_field_equilibria(game, scan, steps)


def test_types_are_interchangeable() -> None:
    betas = np.array([0.4, 1.1, 1.9])
    order = np.array([2, 0, 1])
    weights = np.array([1.0, 2.0, 3.0])
    first = mean_field_equilibrium(MeanFieldGame(GRID, weights, substitutes(betas, GRID)))
    second = mean_field_equilibrium(
        MeanFieldGame(GRID, weights[order], substitutes(betas[order], GRID))
    )
    assert second.mean_strength == pytest.approx(first.mean_strength, abs=1e-14)
    assert second.strategies == pytest.approx(first.strategies[order], abs=1e-9)
