"""The coupled equations: exact cases, order of convergence, and the game's answers."""

from __future__ import annotations

import itertools
import math
import time
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.hjb_fpk import HjbFpkSolution, solve_hjb_fpk
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk


@cache
def solve(**settings: Any) -> HjbFpkSolution:
    return solve_hjb_fpk(HjbFpk(**settings))


def width(solution: HjbFpkSolution) -> float:
    return float(solution.x[1] - solution.x[0])


def moments(solution: HjbFpkSolution, kind: int = 0) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of a type over time."""
    mass = solution.mu[kind] * width(solution)
    mean = mass @ solution.x
    return mean, mass @ solution.x**2 - mean**2


COUPLED: dict[str, Any] = {
    "betas": (0.3, 0.6, 1.0, 2.0, 3.0),
    "variance_penalty": 1.0,
    "initial_mean": 1.0,
    "points": 240,
    "time_steps": 60,
}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        COUPLED,
        {**COUPLED, "loss": "logistic", "x_max": 8.0},
        {"theta": 20.0, "num_clients": 100_000, "s0": 0.5},
        {"points": 1600, "time_steps": 50},
        {"initial_std": 0.1, "initial_mean": -2.0, "s_min": 0.05},
    ],
)
def test_mass_stays_and_densities_are_not_negative(settings: dict[str, Any]) -> None:
    solution = solve(**settings)
    assert solution.converged
    assert solution.message.startswith("converged: residual")
    assert np.abs(solution.mu.sum(axis=-1) * width(solution) - 1).max() <= 1e-12
    assert solution.mass_error <= 1e-12
    assert solution.mu.min() >= 0


# --- constant strength: the Ornstein-Uhlenbeck process ------------------------------------------

OU: dict[str, Any] = {
    "s_min": 0.5,
    "s_max": 0.5,
    "initial_mean": 1.0,
    "initial_std": 0.7,
    "prior_std": 1.2,
}
RATE = 1 + 0.5 / 1.44


def ou_moments(t: FloatArray, penalty: float) -> tuple[FloatArray, FloatArray]:
    """The mean pulls to 0 alone, since xbar is the mean itself; the spread is pulled to it too."""
    k = RATE + penalty
    return np.exp(-RATE * t), 0.49 * np.exp(-2 * k * t) + 0.5 / k * (1 - np.exp(-2 * k * t))


@pytest.mark.parametrize("penalty", [0.0, 0.8])
def test_a_constant_strength_gives_the_exact_gaussian(penalty: float) -> None:
    got, errors = [], []
    for time_steps in (100, 200):
        solution = solve(**OU, variance_penalty=penalty, time_steps=time_steps)
        assert solution.converged
        mean, variance = ou_moments(solution.t, penalty)
        off = (solution.x[None] - mean[:, None]) ** 2 / variance[:, None]
        exact = np.exp(-off / 2) / np.sqrt(2 * math.pi * variance[:, None])
        errors.append(np.abs(solution.mu[0] - exact).sum(axis=-1).max() * width(solution))
        stride = time_steps // 100
        got.append(np.stack(moments(solution))[:, ::stride])
    # The time step leaves an error of first order: extrapolated to steps of 0, little is left.
    assert errors[1] < 0.006
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)
    limit = 2 * got[1] - got[0]
    np.testing.assert_allclose(limit, ou_moments(solution.t[::2], penalty), atol=3e-4)


def test_the_mean_ignores_lambda_and_the_variance_does_not() -> None:
    free = solve(**OU, variance_penalty=0.0, time_steps=200)
    pulled = solve(**OU, variance_penalty=0.8, time_steps=200)
    np.testing.assert_allclose(moments(pulled)[0], moments(free)[0], atol=2e-5)
    # A mean that followed lambda would be exp(-.8) = .45 of it.
    assert moments(pulled)[0][-1] == pytest.approx(math.exp(-RATE), abs=2e-3)
    assert moments(pulled)[1][-1] < 0.75 * moments(free)[1][-1]


def euler_moments(time_steps: int, penalty: float, start: tuple[float, float]) -> list[float]:
    """Mean and second moment of the process under implicit Euler steps, exact in space."""
    mean, second = start
    dt = 1 / time_steps
    for _ in range(time_steps):
        mean /= 1 + RATE * dt
        gained = 2 * dt * (0.5 + penalty * mean**2)
        second = (second + gained) / (1 + 2 * (RATE + penalty) * dt)
    return [mean, second]


def test_second_order_in_the_width_of_a_cell() -> None:
    """Against moments that are exact in space, for the linear case."""
    errors = []
    for points in (96, 192, 384):
        solution = solve(**OU, variance_penalty=0.8, points=points, time_steps=50)
        mass = solution.mu[0] * width(solution)
        first = (float(mass[0] @ solution.x), float(mass[0] @ solution.x**2))
        exact = euler_moments(50, 0.8, first)
        errors.append(np.abs([mass[-1] @ solution.x, mass[-1] @ solution.x**2] - np.array(exact)))
    assert (errors[-1] < [2e-5, 3e-4]).all()
    np.testing.assert_allclose(np.array(errors[:-1]) / np.array(errors[1:]), 4, rtol=0.01)


@pytest.mark.parametrize("name", ["mu", "value", "s_star"])
def test_second_order_of_the_whole_game(name: str) -> None:
    """Differences between grids whose cells are thirds of each other: a factor of 9."""
    grids = [
        solve(loss="logistic", initial_mean=1.0, points=points, time_steps=50)
        for points in (75, 225, 675)
    ]
    changes = []
    for coarse, fine in itertools.pairwise(grids):
        # Every third centre of the finer grid is a centre of the coarser one.
        off = getattr(coarse, name)[0, 25] - getattr(fine, name)[0, 25, 1::3]
        weight = coarse.mu[0, 25] if name != "mu" else 1.0
        changes.append(float((np.abs(off) * weight).sum() * width(coarse)))
    assert changes[0] / changes[1] == pytest.approx(9, rel=0.1)


# --- what the game does -------------------------------------------------------------------------

PAPER: dict[str, Any] = {"horizon": 1.5, "theta": 0.75, "s0": 0.01, "num_clients": 8}
"""K = 15 steps of .1 and N = 8 as in the paper's logistic task, in one dimension, G = 0."""


@pytest.mark.parametrize(
    ("points", "time_steps", "smallest"), [(200, 60, 0.141), (400, 200, 0.132), (1600, 400, 0.130)]
)
def test_one_preference_does_not_make_one_strength(
    points: int, time_steps: int, smallest: float
) -> None:
    """At beta = 1 and time 0 strengths run from about .13 to s_max over the mass."""
    solution = solve(**PAPER, points=points, time_steps=time_steps)
    assert solution.converged
    first = solution.s_star[0, 0]
    assert first.min() == pytest.approx(smallest, abs=5e-4)
    assert first.max() == 2.0
    mass = solution.mu[0, 0] * width(solution)
    # Both ends, and what is between them, are where clients are.
    assert mass[first < 0.2].sum() > 0.02
    assert mass[first > 1.99].sum() > 0.2
    spread = mass @ first**2 - (mass @ first) ** 2
    assert math.sqrt(spread) > 0.5
    assert 0.2 < solution.mean_strength[0] < 1.8


def test_near_the_end_everyone_takes_the_largest_strength() -> None:
    """V(T) = 0, so that noise no longer costs anything."""
    solution = solve(**PAPER)
    assert np.abs(solution.value[:, -1]).max() == 0
    assert (solution.s_star[:, -1] == 2.0).all()
    late = solution.t > 1.45
    assert (solution.s_star[:, late] == 2.0).all()
    np.testing.assert_allclose(solution.mean_strength[late], 2.0, rtol=1e-12)


def test_strengths_rise_with_the_preference() -> None:
    solution = solve(**COUPLED)
    means = (solution.s_star * solution.mu).sum(axis=-1) * width(solution)
    # Among clients of the same state and time it need not: what noise costs them differs too.
    assert (np.diff(means, axis=0) >= -1e-12).all()
    assert means[0, 0] + 0.05 < means[1, 0] < means[2, 0] - 0.05 < means[3, 0]


def test_equal_types_are_one_type() -> None:
    one = solve(initial_mean=1.0, variance_penalty=1.0, points=240, time_steps=60)
    shares: dict[str, Any] = {"betas": (1.0,) * 3, "weights": (0.2, 0.3, 0.5)}
    three = solve(initial_mean=1.0, variance_penalty=1.0, points=240, time_steps=60, **shares)
    for kind in range(3):
        np.testing.assert_allclose(three.mu[kind], one.mu[0], atol=1e-8)
        np.testing.assert_allclose(three.s_star[kind], one.s_star[0], atol=1e-5)


def test_the_means_are_those_of_the_population() -> None:
    shares: dict[str, Any] = {"betas": (0.3, 3.0), "weights": (0.9, 0.1)}
    solution = solve(variance_penalty=0.5, initial_mean=1.0, time_steps=40, **shares)
    mass = solution.mu * width(solution)
    states = 0.9 * mass[0] @ solution.x + 0.1 * mass[1] @ solution.x
    strengths = [(mass[j] * solution.s_star[j]).sum(axis=-1) for j in range(2)]
    np.testing.assert_allclose(solution.mean_state, states, rtol=1e-13)
    np.testing.assert_allclose(
        solution.mean_strength, 0.9 * strengths[0] + 0.1 * strengths[1], rtol=1e-13
    )


@pytest.mark.parametrize("privacy", ["rate", "once"])
def test_the_game_is_worth_more_than_any_constant_strength(privacy: str) -> None:
    """A constant strength's cost in closed form: int (variance + mean^2)/2 dt + its privacy."""
    solution = solve(**PAPER, privacy=privacy, time_steps=400)
    mass = solution.mu[0, 0] * width(solution)
    value = float(mass @ solution.value[0, 0])
    t = np.linspace(0, 1.5, 2001)
    costs = []
    for s in np.linspace(0.1, 2.0, 39):
        k = 1 + s + 0.01
        variance = np.exp(-2 * k * t) + s / k * (1 - np.exp(-2 * k * t))
        delta = math.exp(-0.75 * (s - 0.01)) / math.sqrt(8)
        charged = delta * (1.5 if privacy == "rate" else 1.0)
        costs.append(float(np.trapezoid(variance / 2, t)) + charged)
    assert value < min(costs) - 0.01
    assert value > min(costs) - 0.2


def test_a_density_of_ones_own() -> None:
    """Two clusters: the density is scaled, and its two halves mirror each other."""
    solution = solve_hjb_fpk(
        HjbFpk(initial_density=lambda x: 7 * np.exp(-8 * (np.abs(x) - 1) ** 2), time_steps=50)
    )
    assert solution.converged
    assert solution.mu[0, 0].sum() * width(solution) == pytest.approx(1, abs=1e-13)
    np.testing.assert_allclose(solution.mu[0], solution.mu[0, :, ::-1], atol=1e-12)
    assert solution.mu[0, 0, 200] < 1e-2 * solution.mu[0, 0].max()


# --- the Picard iteration -----------------------------------------------------------------------


def test_residuals_fall_to_the_tolerance() -> None:
    solution = solve(**COUPLED)
    assert len(solution.residuals) > 3
    assert (np.diff(solution.residuals) < 0).all()
    assert solution.residuals[-1] <= 1e-9
    assert f"{solution.residuals[-1]:.3g} after {len(solution.residuals)}" in solution.message
    # At the solution, the last iterate's own densities have the path that they answer to.
    again = solve(**COUPLED, tolerance=1e-12)
    np.testing.assert_allclose(again.mean_state, solution.mean_state, atol=1e-8)


def test_damping_changes_the_way_and_not_the_end() -> None:
    plain, damped = solve(**COUPLED), solve(**COUPLED, damping=0.6)
    assert len(damped.residuals) > len(plain.residuals)
    np.testing.assert_allclose(damped.mean_state, plain.mean_state, atol=1e-8)
    np.testing.assert_allclose(damped.mu, plain.mu, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"variance_penalty": 1.0, "initial_mean": 1.0}])
def test_five_types_take_a_few_seconds(settings: dict[str, Any]) -> None:
    """400 cells, 200 steps."""
    start = time.process_time()
    solution = solve_hjb_fpk(HjbFpk(betas=(0.3, 0.6, 1.0, 2.0, 3.0), **settings))
    assert solution.converged
    assert time.process_time() - start < 10
