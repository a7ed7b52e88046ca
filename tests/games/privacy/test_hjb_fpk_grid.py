"""The Markov chain on the grid: its rates, its order, its implicit steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.hjb_fpk_grid import Rates, bernoulli, make_grid
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk


def chain(strength: FloatArray | float, mean_state: float = 0.0, **kw: Any) -> Rates:
    chosen = HjbFpk(**kw)
    grid = make_grid(chosen)
    fixed, _ = grid.fixed_rates(chosen, mean_state)
    return grid.per_strength.times(np.broadcast_to(strength, grid.x.shape), fixed)


def dense(rates: Rates) -> FloatArray:
    """The generator of one type as a full matrix, entry by entry."""
    size = len(rates.right)
    matrix = np.zeros((size, size))
    for i in range(size):
        if i + 1 < size:
            matrix[i, i + 1] = rates.right[i]
        if i > 0:
            matrix[i, i - 1] = rates.left[i]
        matrix[i, i] = -rates.right[i] - rates.left[i]
    return matrix


@given(st.floats(-700, 700))
def test_bernoulli_function(z: float) -> None:
    there, back = bernoulli(np.array([z, -z]))
    assert there > 0
    # B(-z) = B(z) + z.
    assert math.isclose(back, there + z, rel_tol=1e-12, abs_tol=1e-12)


def test_bernoulli_function_at_the_ends() -> None:
    ends = np.array([-1e300, -750.0, -0.0, 5e-324, 750.0, 1e300])
    values = bernoulli(ends)
    np.testing.assert_allclose(values[:4], [1e300, 750.0, 1.0, 1.0])
    assert (values[4:] >= 0).all()
    assert (values[4:] < 1e-290).all()
    # The series 1 - z/2 + z^2/12 - z^4/720.
    z = 0.01
    assert bernoulli(np.array([z]))[0] == pytest.approx(
        1 - z / 2 + z**2 / 12 - z**4 / 720, abs=1e-15
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(10, 60),
    st.floats(1e-4, 1.0),
    st.floats(0.05, 5.0),
    st.floats(0, 50),
    st.floats(-5, 5),
    st.sampled_from(["quadratic", "logistic"]),
)
def test_all_rates_are_at_least_zero_at_every_strength(
    points: int, s_min: float, prior_std: float, penalty: float, mean_state: float, loss: str
) -> None:
    for strength in (s_min, 2 * s_min, 10.0):
        rates = chain(
            strength,
            mean_state,
            points=points,
            s_min=s_min,
            s_max=10.0,
            prior_std=prior_std,
            variance_penalty=penalty,
            loss=loss,
        )
        assert rates.right.min() >= 0
        assert rates.left.min() >= 0
        # Nothing leaves the range.
        assert rates.right[-1] == 0
        assert rates.left[0] == 0


def test_the_generator_is_of_second_order() -> None:
    """Against s (f'' - x f'/sigma0^2) - (loss' + lambda (x - xbar)) f' for f = sin."""
    errors = []
    for points in (100, 200, 400):
        kw: dict[str, Any] = {
            "points": points,
            "prior_std": 1.4,
            "variance_penalty": 0.3,
            "s_min": 0.5,
        }
        x = make_grid(HjbFpk(**kw)).x
        strength = 1 + x**2 / 9
        got = chain(strength, 0.5, **kw).generator(np.sin(x))
        drift = -x - 0.3 * (x - 0.5)
        exact = strength * (-np.sin(x) - x * np.cos(x) / 1.4**2) + drift * np.cos(x)
        errors.append(np.abs(got - exact)[np.abs(x) < 4].max())
    assert errors[-1] < 2e-3
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4, rtol=0.02)


def test_the_stationary_density_of_diffusion_and_prior_alone_is_the_prior() -> None:
    """Without a loss the chain keeps exp(-x^2/2 sigma0^2), at the centres, to rounding."""
    rates = chain(0.7, points=60, prior_std=0.9, variance_penalty=0.0, loss=np.zeros_like)
    x = make_grid(HjbFpk(points=60)).x
    prior = np.exp(-(x**2) / (2 * 0.9**2))
    flow = dense(rates).T @ prior
    assert np.abs(flow).max() < 1e-13 * rates.right.max()


def test_diffusion_is_added_only_where_the_grid_is_too_coarse() -> None:
    fine = HjbFpk(points=400, x_min=-3.0, x_max=3.0, s_min=0.1)
    assert make_grid(fine).fixed_rates(fine, 0.0)[1].max() == 0
    coarse = HjbFpk(points=400, x_min=-3.0, x_max=3.0, s_min=0.001)
    grid = make_grid(coarse)
    added = grid.fixed_rates(coarse, 0.0)[1]
    pull = grid.interfaces * 1.01
    assert (added[np.abs(pull) * grid.width > 2.2 * 0.001] > 0).all()
    # Never more than upwinding would add.
    assert (added <= np.abs(pull) * grid.width / 2).all()


@pytest.mark.parametrize("forward", [False, True])
def test_an_implicit_step_solves_the_full_system(forward: bool) -> None:
    """Against dense linear algebra, two types with strengths of their own."""
    chosen = HjbFpk(points=30, variance_penalty=0.5, betas=(1.0, 2.0))
    grid = make_grid(chosen)
    generator = np.random.default_rng(3)
    strength = generator.uniform(0.1, 2.0, (2, 30))
    known = generator.normal(size=(2, 30))
    fixed, _ = grid.fixed_rates(chosen, 0.2)
    rates = grid.per_strength.times(strength, fixed)
    got = rates.implicit_step(known, 0.05, forward=forward)
    for j in range(2):
        matrix = dense(Rates(rates.right[j], rates.left[j]))
        system = np.eye(30) - 0.05 * (matrix.T if forward else matrix)
        np.testing.assert_allclose(got[j], np.linalg.solve(system, known[j]), atol=1e-13)


def test_the_generator_agrees_with_its_matrix_and_ignores_constants() -> None:
    rates = chain(0.4, 0.1, points=25)
    values = np.random.default_rng(1).normal(size=25)
    np.testing.assert_allclose(rates.generator(values), dense(rates) @ values, atol=1e-12)
    assert np.abs(rates.generator(np.ones(25))).max() == 0
