"""MAPG-DP's closed form against a numerical minimiser and simulated noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.optimize import minimize_scalar

from fedgame.games.certificate import exploitability
from fedgame.games.privacy.mapg import (
    Mapg,
    mapg_best_response,
    mapg_disutility,
    mapg_noise_multiplier,
)
from fedgame.games.privacy.population import Population
from fedgame.ledger.events import Neighbours

CURVATURES = np.array([0.5, 3.0, 8.0, 40.0])
BETAS = np.array([0.01, 0.03, 0.1, 2.0])
PLAYED = np.array([0.9, 0.4, 0.3, 0.6])


@settings(max_examples=50)
@given(
    st.floats(1e-3, 1e3), st.floats(1e-3, 1e2), st.floats(1e-3, 5), st.floats(1e-2, 2),
    st.integers(1, 50),
)  # fmt: skip
def test_the_closed_form_minimises_the_disutility(
    curvature: float, beta: float, learning_rate: float, clipping: float, num_clients: int
) -> None:
    def cost(epsilon: float) -> float:
        noise = 2 * learning_rate * clipping / epsilon
        return float(curvature / (2 * num_clients**2) * noise**2 + beta * epsilon)

    low, high = 0.05, 20.0
    [answer] = mapg_best_response(
        np.array([curvature]), np.array([beta]), learning_rate, clipping, num_clients, low, high
    )
    judge = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
    assert cost(answer) <= judge.fun * (1 + 1e-12)
    assert answer == pytest.approx(judge.x, rel=1e-4, abs=1e-5)


def test_the_formula_by_hand() -> None:
    # (8 (2 * 2 * 0.03)^2 / (10^2 0.09))^(1/3) = (0.0128)^(1/3)
    [answer] = mapg_best_response(np.array([8.0]), np.array([0.09]), 2.0, 0.03, 10, 0.01, 10)
    assert answer == pytest.approx(0.0128 ** (1 / 3), rel=1e-14)


def test_the_disutility_is_the_mean_rise_of_a_quadratic_loss() -> None:
    rng = np.random.default_rng(0)
    hessian = np.diag([1.0, 3.0, 4.0])
    learning_rate, clipping = 0.5, np.array([0.2, 0.1, 0.4, 0.3])
    sigmas = 2 * learning_rate * clipping / PLAYED
    noise = (sigmas[:, None] * rng.standard_normal((100_000, 4, 3))).mean(axis=1)
    rise = 0.5 * np.einsum("ni,ij,nj->n", noise, hessian, noise)
    curvature = np.full(4, np.trace(hessian))
    ours = mapg_disutility(PLAYED[:, None], PLAYED, curvature, BETAS, learning_rate, clipping)
    standard_error = rise.std() / np.sqrt(len(rise))
    assert ours[:, 0] - BETAS * PLAYED == pytest.approx(rise.mean(), abs=4 * standard_error)
    assert standard_error < 0.005 * rise.mean()


def test_a_change_moves_only_the_clients_own_terms() -> None:
    actions = np.stack([PLAYED, 2 * PLAYED], axis=1)
    before, after = mapg_disutility(actions, PLAYED, CURVATURES, BETAS, 0.1, 1.0).T
    for k in range(4):
        changed = PLAYED.copy()
        changed[k] *= 2
        after_k = mapg_disutility(changed[:, None], changed, CURVATURES, BETAS, 0.1, 1.0)[k, 0]
        assert after[k] == pytest.approx(after_k, rel=1e-12)
    assert not np.allclose(before, after)


def test_best_responses_are_a_nash_equilibrium() -> None:
    low, high = 0.05, 1.0
    budgets = mapg_best_response(CURVATURES, BETAS, 0.1, 1.0, 4, low, high)
    grid = np.linspace(low, high, 2001)
    actions = np.column_stack([budgets, np.tile(grid, (4, 1))])
    table = mapg_disutility(actions, budgets, CURVATURES, BETAS, 0.1, 1.0)
    assert exploitability(table, np.zeros(4, dtype=np.int64)).largest <= 1e-15

    away = np.clip(1.5 * budgets, low, high)
    actions = np.stack([away, budgets], axis=1)
    table = mapg_disutility(actions, away, CURVATURES, BETAS, 0.1, 1.0)
    assert exploitability(table, np.zeros(4, dtype=np.int64)).largest > 1e-4


def test_more_sensitive_clients_buy_less_epsilon() -> None:
    betas = Population().betas(10)
    budgets = Mapg().best_response(np.full(10, 8.0), betas, 2.0, 1 / 35.75, 10)
    assert (np.diff(budgets) < 0).all()


def test_clients_of_the_digits_demo_choose_inside_the_default_interval() -> None:
    # Trace of the Hessian of softmax regression on the digits at the zero state: 8.147.
    game = Mapg()
    budgets = game.best_response(np.full(10, 8.147), Population().betas(10), 2.0, 1 / 35.75, 10)
    assert budgets.min() > game.epsilon_min
    assert budgets.max() < game.epsilon_max
    multipliers = mapg_noise_multiplier(budgets, "example")
    assert multipliers[[0, -1]] == pytest.approx([4.13, 8.90], abs=0.01)


def test_the_cost_multiplies_beta() -> None:
    args = (0.1, 1.0, 4)
    assert np.array_equal(
        Mapg(cost=0.5, epsilon_min=1e-6, epsilon_max=1e6).best_response(CURVATURES, BETAS, *args),
        mapg_best_response(CURVATURES, 0.5 * BETAS, *args, 1e-6, 1e6),
    )


@pytest.mark.parametrize(("curvature", "expected"), [(0.0, 0.2), (-5.0, 0.2), (1e9, 1.0)])
def test_the_interval_binds(curvature: float, expected: float) -> None:
    [budget] = Mapg().best_response(np.array([curvature]), np.ones(1), 1.0, 1.0, 1)
    assert budget == expected


@pytest.mark.parametrize(
    ("neighbours", "sensitivity"),
    [("example", 0.03), ("client", 0.03), ("client-replace", 0.06)],
)
def test_the_noise_multiplier_is_noise_over_sensitivity(
    neighbours: Neighbours, sensitivity: float
) -> None:
    learning_rate, clipping, epsilon = 2.0, 0.03, np.array([0.25, 0.5])
    sigma = 2 * learning_rate * clipping / epsilon
    expected = sigma / (learning_rate * sensitivity)
    assert mapg_noise_multiplier(epsilon, neighbours) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("curvature", "beta"), [([1.0], [0.0]), ([1.0], [-1.0]), ([1.0], [np.nan]), ([np.nan], [1.0])]
)
def test_bad_preferences_and_curvatures_are_refused(
    curvature: list[float], beta: list[float]
) -> None:
    with pytest.raises(ValueError, match="every beta must be > 0 and no curvature NaN"):
        mapg_best_response(np.array(curvature), np.array(beta), 1.0, 1.0, 1, 0.1, 1.0)


@pytest.mark.parametrize(
    ("values", "key", "said"),
    [
        ({"epsilon_min": 0}, "epsilon_min", "greater than 0"),
        ({"epsilon_max": float("inf")}, "epsilon_max", "finite number"),
        ({"epsilon_max": 0.1}, "epsilon_max", "at least epsilon-min = 0.2"),
        ({"cost": 0}, "cost", "greater than or equal to"),
        ({"curvature": "guessed"}, "curvature", "'public' or 'own'"),
    ],
)
def test_bad_settings_are_refused_by_their_key(values: dict[str, Any], key: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said) as raised:
        Mapg(**values)
    assert [error["loc"] for error in raised.value.errors()] == [(key,)]
