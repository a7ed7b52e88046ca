"""Settings of the equations: what is refused, and the constants that follow from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedgame.accountants.lsi import lsi_delta
from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.hjb_fpk_settings import LOSSES, HjbFpk, flow_constants
from fedgame.games.privacy.hjb_fpk_steps import privacy_rate


def build(**settings: Any) -> HjbFpk:
    """Build settings from untyped values, as a configuration does."""
    return HjbFpk(**settings)


@pytest.mark.parametrize(
    ("settings", "field", "allowed"),
    [
        ({"x_min": 2.0, "x_max": 2.0}, "x_max", "above x-min = 2.0"),
        ({"x_min": math.nan}, "x_min", "finite"),
        ({"points": 9}, "points", "greater than or equal to 10"),
        ({"points": 12.5}, "points", "integer"),
        ({"time_steps": 0}, "time_steps", "greater than or equal to 1"),
        ({"horizon": 0.0}, "horizon", "greater than 0"),
        ({"theta": -1.0}, "theta", "greater than 0"),
        ({"s0": math.inf}, "s0", "finite"),
        ({"s_min": 0.0}, "s_min", "greater than 0"),
        ({"s_min": 1.0, "s_max": 0.5}, "s_max", "at least s-min = 1.0"),
        ({"prior_std": 0.0}, "prior_std", "greater than 0"),
        ({"variance_penalty": -0.1}, "variance_penalty", "greater than or equal to 0"),
        ({"betas": ()}, "betas", "at least 1"),
        ({"betas": (1.0, -2.0)}, "betas", "greater than 0"),
        ({"betas": (1.0, 2.0), "weights": (1.0,)}, "weights", "2 numbers, one a beta, of sum 1"),
        ({"betas": (1.0, 2.0), "weights": (0.5, 0.6)}, "weights", "2 numbers"),
        ({"num_clients": 0}, "num_clients", "greater than or equal to 1"),
        ({"c_d": 11.0}, "c_d", "less than or equal to 10"),
        ({"loss": "cubic"}, "loss", "'quadratic' or 'logistic'"),
        ({"privacy": "twice"}, "privacy", "'rate' or 'once'"),
        ({"initial_std": 0.0}, "initial_std", "greater than 0"),
        ({"damping": 0.0}, "damping", "greater than 0"),
        ({"damping": 1.5}, "damping", "less than or equal to 1"),
        ({"max_iterations": 0}, "max_iterations", "greater than or equal to 1"),
        ({"tolerance": 0.0}, "tolerance", "greater than 0"),
        ({"policy_iterations": 0}, "policy_iterations", "greater than or equal to 1"),
        ({"iterations": 3}, "iterations", "Unexpected keyword argument"),
        (
            {"points": 100_000, "time_steps": 1_000},
            "points x (time-steps + 1) x types",
            "100000000",
        ),
    ],
)
def test_bad_settings_are_refused_by_name(
    settings: dict[str, object], field: str, allowed: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        build(**settings)
    assert field in str(refused.value)
    assert allowed in str(refused.value)


def test_types_have_equal_shares_unless_weights_say_otherwise() -> None:
    assert build(betas=(1.0, 2.0, 4.0, 8.0)).shares().tolist() == [0.25] * 4
    assert build(betas=(1.0, 2.0), weights=(0.25, 0.75)).shares().tolist() == [0.25, 0.75]
    # Ten tenths do not sum to 1 in floating point.
    assert len(build(betas=tuple(range(1, 11)), weights=(0.1,) * 10).shares()) == 10


def test_a_constant_strength_pays_the_claimed_delta() -> None:
    """The accountant of the paper's claim is the judge, where its cap and envelope do not act."""
    steps, tau, sigma0, penalty, bound = 15, 0.1, 1.3, 0.02, 0.7
    theta, s0 = flow_constants(steps, tau, sigma0, penalty, bound)
    strengths = np.array([1.5, 2.0, 3.0])
    claimed = lsi_delta(
        strengths,
        steps,
        dimension=2,
        num_clients=8,
        tau=tau,
        prior_std=sigma0,
        variance_penalty=penalty,
        gradient_bound=bound,
    )
    common = {"theta": theta, "s0": s0, "num_clients": 8, "c_d": math.sqrt(2), "betas": (1.0, 3.0)}
    horizon = steps * tau
    paid = np.stack([strengths, strengths])
    rate = build(horizon=horizon, privacy="rate", **common)
    once = build(horizon=horizon, privacy="once", **common)
    expected = np.array([[1.0], [3.0]]) * claimed
    np.testing.assert_allclose(privacy_rate(rate, paid), expected, rtol=1e-12)
    np.testing.assert_allclose(horizon * privacy_rate(once, paid), expected, rtol=1e-12)


def test_named_losses() -> None:
    x = np.array([-800.0, -1.0, 0.0, 3.0, 800.0])
    np.testing.assert_allclose(LOSSES["quadratic"](x), [320_000, 0.5, 0, 4.5, 320_000])
    naive = [800.0, math.log1p(math.e), math.log(2), math.log1p(math.exp(-3)), 0.0]
    np.testing.assert_allclose(LOSSES["logistic"](x), naive, rtol=1e-15)


def _pole(x: FloatArray) -> FloatArray:
    return np.where(np.abs(x - 1) < 0.05, np.inf, x)


def test_a_loss_that_is_not_a_finite_curve_is_refused() -> None:
    x = np.linspace(-2, 2, 41)
    with pytest.raises(ValueError, match=r"loss: is inf at x = 1; must be finite"):
        build(loss=_pole).loss_at(x)
    with pytest.raises(ValueError, match=r"loss: returns shape \(40,\); must be \(41,\)"):
        build(loss=np.diff).loss_at(x)


def test_a_density_that_is_none_is_refused() -> None:
    x = np.linspace(-2, 2, 41)
    with pytest.raises(ValueError, match=r"initial-density: values from -2 to 2 .* must be >= 0"):
        build(initial_density=lambda y: y).density_at(x)
    with pytest.raises(ValueError, match=r"initial-density: values from 0 to 0"):
        build(initial_density=np.zeros_like).density_at(x)
    with pytest.raises(ValueError, match=r"initial-density: values from 0 to 0"):
        build(initial_mean=100.0).density_at(x)
    with pytest.raises(ValueError, match=r"initial-density: is inf at x = 1"):
        build(initial_density=_pole).density_at(x)
