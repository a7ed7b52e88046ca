"""N clients under the mean-field strengths: exact cases, and the rate at which they chaotise."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from fedgame.games.privacy.hjb_fpk import HjbFpkSolution, solve_hjb_fpk
from fedgame.games.privacy.hjb_fpk_particles import (
    Particles,
    distance,
    measure_chaos,
    simulate,
    steps_for,
)
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk
from fedgame.games.privacy.hjb_fpk_steps import privacy_rate


@cache
def solve(**settings: Any) -> HjbFpkSolution:
    solution = solve_hjb_fpk(HjbFpk(**settings))
    assert solution.converged, solution.message
    return solution


def two_types() -> HjbFpkSolution:
    return solve(
        betas=(0.3, 3.0),
        weights=(0.25, 0.75),
        variance_penalty=1.0,
        initial_mean=1.0,
        points=240,
        time_steps=300,
    )


def test_a_simulation_follows_its_generator_alone() -> None:
    solution = two_types()
    first = simulate(solution, 200, 30, np.random.default_rng(4))
    again = simulate(solution, 200, 30, np.random.default_rng(4))
    other = simulate(solution, 200, 30, np.random.default_rng(5))
    np.testing.assert_array_equal(first.state, again.state)
    assert (first.state != other.state).all()
    assert np.bincount(first.kind).tolist() == [51, 149]


@pytest.mark.parametrize(("clients", "counts"), [(2, [1, 1]), (3, [1, 2]), (5, [2, 3])])
def test_every_type_has_a_client(clients: int, counts: list[int]) -> None:
    kinds = simulate(two_types(), clients, 1, np.random.default_rng(0)).kind
    assert np.bincount(kinds).tolist() == counts


def test_constant_strength_has_the_moments_of_euler_steps() -> None:
    """The Ornstein-Uhlenbeck process in explicit Euler steps: moments by recursion."""
    solution = solve(
        s_min=0.5, s_max=0.5, initial_mean=1.0, initial_std=0.7, variance_penalty=0.8, time_steps=50
    )
    steps, clients = 40, 100_000
    mean, variance = 1.0, 0.49
    for _ in range(steps):
        mean *= 1 - 1.5 / steps
        variance = variance * (1 - 2.3 / steps) ** 2 + 2 * 0.5 / steps
    states = simulate(solution, clients, steps, np.random.default_rng(11)).state
    assert states.mean() == pytest.approx(mean, abs=4 * math.sqrt(1 / clients))
    # The density at time 0 is constant in each cell, which adds dx^2/12 = 7.5e-5 to its variance.
    assert states.var() == pytest.approx(variance, abs=4 * variance * math.sqrt(2 / clients))


def test_the_distance_is_the_wasserstein_distance() -> None:
    """SciPy's, between the clients and the cells' centres with their masses."""
    solution = two_types()
    particles = simulate(solution, 400, 40, np.random.default_rng(2))
    expected = 0.0
    for j, share in enumerate((0.25, 0.75)):
        states = particles.state[particles.kind == j]
        expected += share * wasserstein_distance(
            states, solution.x, None, solution.mu[j, -1] / solution.mu[j, -1].sum()
        )
    assert distance(solution, particles) == pytest.approx(expected, rel=0.02)


def test_the_distance_sees_a_shift() -> None:
    solution = two_types()
    particles = simulate(solution, 4_000, 100, np.random.default_rng(3))
    near = distance(solution, particles)
    assert near < 0.05
    moved = Particles(particles.state + 0.5, particles.kind)
    assert distance(solution, moved) == pytest.approx(0.5, abs=2 * near)


@pytest.mark.parametrize("privacy", ["rate", "once"])
def test_the_value_is_the_cost_that_clients_meet(privacy: str) -> None:
    """Monte Carlo with steps of its own: V(0) averaged over the density at time 0."""
    solution = solve(
        horizon=1.5, theta=0.75, s0=0.01, num_clients=8, privacy=privacy, time_steps=400
    )
    generator = np.random.default_rng(7)
    clients, steps = 10_000, 400
    x = generator.standard_normal(clients)
    dt = 1.5 / steps
    cost = np.zeros(clients)
    for n in range(steps):
        s = np.interp(x, solution.x, solution.s_star[0, n])
        cost += dt * (x**2 / 2 + privacy_rate(solution.settings, s[None])[0])
        drift = -x - s * x - 0.01 * (x - x.mean())
        x = x + drift * dt + np.sqrt(2 * s * dt) * generator.standard_normal(clients)
    width = float(solution.x[1] - solution.x[0])
    value = float(solution.mu[0, 0] @ solution.value[0, 0]) * width
    assert cost.mean() == pytest.approx(value, abs=4 * cost.std() / math.sqrt(clients) + 0.002)


def test_the_distance_falls_like_the_root_of_the_number() -> None:
    rate = measure_chaos(two_types(), (100, 1_000, 10_000), np.random.default_rng(1), repeats=5)
    assert rate.sizes == (100, 1_000, 10_000)
    assert rate.slope == pytest.approx(-0.5, abs=0.1)
    assert rate.distances[0] > rate.distances[1] > rate.distances[2]
    assert all(0 < error < mean for error, mean in zip(rate.errors, rate.distances, strict=True))


@pytest.mark.slow
def test_the_distance_falls_like_the_root_of_the_number_up_to_100_000() -> None:
    solution = solve(
        betas=(0.5, 2.0), variance_penalty=0.3, initial_mean=1.0, points=300, time_steps=1000
    )
    sizes = (100, 1_000, 10_000, 100_000)
    rate = measure_chaos(solution, sizes, np.random.default_rng(1), repeats=3)
    assert rate.slope == pytest.approx(-0.5, abs=0.06)
    assert rate.distances[-1] < 0.006


def test_euler_steps_grow_with_the_root_of_the_number() -> None:
    assert [steps_for(n) for n in (1, 100, 10_000, 100_000)] == [20, 20, 200, 633]


def test_bad_requests_are_refused() -> None:
    solution, generator = two_types(), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"num-particles = 1: must be at least 2, one a type"):
        simulate(solution, 1, 10, generator)
    with pytest.raises(ValueError, match=r"steps = 0: must be at least 1"):
        simulate(solution, 10, 0, generator)
    with pytest.raises(ValueError, match=r"sizes = \(50, 50\): must be at least two different"):
        measure_chaos(solution, (50, 50), generator)
    with pytest.raises(ValueError, match=r"repeats = 0: must be at least 1"):
        measure_chaos(solution, (50, 60), generator, repeats=0)
