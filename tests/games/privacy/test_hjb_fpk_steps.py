"""One sweep backward and one forward: optimal, adjoint, and solutions of the equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.hjb_fpk_grid import Grid, make_grid
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk
from fedgame.games.privacy.hjb_fpk_steps import backward, forward, optimal_strength, privacy_rate

TYPES = HjbFpk(points=80, time_steps=40, betas=(0.5, 1.0, 3.0), variance_penalty=0.4)


def path(grid: Grid) -> FloatArray:
    return np.asarray(0.5 * np.exp(-grid.t))


@given(
    st.floats(-3, 3),
    st.floats(0.1, 20),
    st.floats(-1, 3),
    st.floats(0.01, 100),
    st.sampled_from(["rate", "once"]),
)
def test_the_strength_minimises_the_hamiltonian(
    curvature: float, theta: float, s0: float, beta: float, privacy: str
) -> None:
    """By brute force over [s_min, s_max]."""
    chosen = HjbFpk(theta=theta, s0=s0, betas=(beta,), horizon=2.0, privacy=privacy)  # type: ignore[arg-type]
    best = optimal_strength(chosen, np.array([[curvature]]))
    tried = np.linspace(0.1, 2.0, 2001)[None]
    costs = privacy_rate(chosen, tried) + tried * curvature
    attained = privacy_rate(chosen, best) + best * curvature
    assert 0.1 <= best[0, 0] <= 2.0
    assert attained[0, 0] <= costs.min() + 1e-12 * np.abs(costs).max()


def test_the_printed_closed_form() -> None:
    """S0 + ln(beta theta (C_d/sqrt N)/M)/theta, and s_max where M <= 0."""
    chosen = HjbFpk(theta=0.8, s0=0.6, betas=(1.5,), num_clients=8, c_d=2.0, horizon=3.0, s_max=9.0)
    curvature = np.array([[0.2, 0.7, 1.1, 0.0, -1.0]])
    expected = [0.6 + math.log(1.5 * 0.8 * 2 / math.sqrt(8) / m) / 0.8 for m in (0.2, 0.7, 1.1)]
    np.testing.assert_allclose(optimal_strength(chosen, curvature), [[*expected, 9, 9]], rtol=1e-14)


def test_backward_and_forward_are_adjoint() -> None:
    """The value at time 0 is the running cost along the densities, to rounding."""
    grid = make_grid(TYPES)
    policy = backward(TYPES, grid, path(grid))
    mu = forward(TYPES, grid, policy.strength, path(grid))
    cost = grid.loss + privacy_rate(TYPES, policy.strength)
    along = np.einsum("jtx,jtx->j", cost[:, :-1], mu[:, 1:]) * grid.width * grid.dt
    now = np.einsum("jx,jx->j", policy.value[:, 0], mu[:, 0]) * grid.width
    np.testing.assert_allclose(along, now, rtol=1e-13)
    assert policy.residual < 1e-13


def test_no_other_strength_costs_less_from_any_state() -> None:
    """Against 200 other feedback strengths in each step, by dense linear algebra."""
    chosen = HjbFpk(points=24, time_steps=6, variance_penalty=0.4, num_clients=8)
    grid = make_grid(chosen)
    policy = backward(chosen, grid, path(grid))
    generator = np.random.default_rng(5)
    for n in range(6):
        own = policy.strength[:, n]
        later = policy.value[:, n + 1]
        fixed, _ = grid.fixed_rates(chosen, float(path(grid)[n + 1]))
        for k in range(200):
            drawn = generator.uniform(0.1, 2.0, own.shape)
            # Half of them differ in a few states only, and by little.
            near = np.clip(own + 0.1 * (drawn - 1) * (generator.random(own.shape) < 0.2), 0.1, 2.0)
            strength = drawn if k % 2 else near
            rates = grid.per_strength.times(strength, fixed)
            cost = later + grid.dt * (grid.loss + privacy_rate(chosen, strength))
            value = rates.implicit_step(cost, grid.dt, forward=False)
            assert (value >= policy.value[:, n] - 1e-13).all()
    # The test would fail for strengths that are not optimal.
    assert 0.1 < policy.strength[0, 0].min() < policy.strength[0, 0].max() == 2.0


def test_the_start_of_the_policy_iterations_does_not_matter() -> None:
    grid = make_grid(TYPES)
    plain = backward(TYPES, grid, path(grid))
    guess = np.random.default_rng(2).uniform(0.1, 2.0, plain.strength.shape)
    other = backward(TYPES, grid, path(grid), guess)
    np.testing.assert_allclose(other.value, plain.value, atol=1e-12)
    np.testing.assert_allclose(other.strength, plain.strength, atol=1e-5)


def residual(points: int, time_steps: int) -> float:
    """V_t + loss + min_s {...} by NumPy's central differences, where the state is not rare."""
    chosen = HjbFpk(points=points, time_steps=time_steps, variance_penalty=0.4, loss="logistic")
    grid = make_grid(chosen)
    value = backward(chosen, grid, path(grid)).value[0]
    v_t = np.gradient(value, grid.dt, axis=0)
    v_x = np.gradient(value, grid.width, axis=1)
    curvature = np.gradient(v_x, grid.width, axis=1) - grid.x * v_x
    slope = -1 / (1 + np.exp(grid.x)) + 0.4 * (grid.x - path(grid)[:, None])
    tried = np.linspace(0.1, 2.0, 400)[:, None, None]
    price = math.exp(0.5 * 1.01) / math.sqrt(10)
    least = (price * np.exp(-0.5 * tried) + tried * curvature).min(axis=0)
    off = v_t + grid.loss - slope * v_x + least
    inside = (grid.t > 0.1) & (grid.t < 0.9)
    return float(np.abs(off[inside][:, np.abs(grid.x) < 3]).max())


def test_values_solve_the_printed_equation() -> None:
    coarse, fine = residual(60, 50), residual(240, 800)
    assert fine < 0.004
    assert fine < coarse / 10


def central_differences(strength: FloatArray, x: FloatArray, first: FloatArray) -> FloatArray:
    """d_xx(s mu) - d_x(b mu) by plain central differences and a stiff solver of order 5."""
    h = x[1] - x[0]
    drift = -x - strength * x

    def move(_: float, mu: FloatArray) -> FloatArray:
        flux = np.zeros(len(x) + 1)
        moved = drift * mu
        flux[1:-1] = (moved[1:] + moved[:-1]) / 2 - np.diff(strength * mu) / h
        return np.asarray(-np.diff(flux) / h)

    done = solve_ivp(move, (0, 1), first, method="LSODA", rtol=1e-9, atol=1e-12, lband=1, uband=1)
    return np.asarray(done.y[:, -1])


def test_densities_under_a_strength_that_varies_follow_the_conservative_equation() -> None:
    errors = []
    for time_steps in (100, 200):
        chosen = HjbFpk(points=240, time_steps=time_steps, initial_mean=0.5, variance_penalty=0.0)
        grid = make_grid(chosen)
        strength = 1 + 0.8 * np.tanh(2 * grid.x)
        held = np.broadcast_to(strength, (1, time_steps + 1, 240))
        mu = forward(chosen, grid, held, np.zeros(time_steps + 1))[0]
        judge = central_differences(strength, grid.x, mu[0])
        errors.append(np.abs(mu[-1] - judge).sum() * grid.width)
    assert errors[1] < 0.006
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)


def test_the_equation_with_the_strength_outside_of_the_derivative_loses_mass() -> None:
    """Why the forward equation is not taken as section 5.3 prints it."""
    x = np.linspace(-6, 6, 481)
    mu = np.exp(-((x - 0.5) ** 2) / 2) / math.sqrt(2 * math.pi)
    strength = 1 + 0.8 * np.tanh(2 * x)

    def second(values: FloatArray) -> FloatArray:
        return np.asarray(np.gradient(np.gradient(values, x), x))

    assert abs(float(np.trapezoid(second(strength * mu), x))) < 1e-5
    assert abs(float(np.trapezoid(strength * second(mu), x))) > 0.1
