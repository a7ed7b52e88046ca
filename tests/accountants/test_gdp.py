"""The conversions against quadrature, the privacy loss distribution, and each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from fedgame.accountants.gdp import compose_gdp, gdp_delta, gdp_epsilon, gdp_mu
from fedgame.accountants.pld import PldAccountant
from fedgame.errors import AccountingError
from fedgame.ledger.events import SampledGaussian


@pytest.mark.parametrize("mu", [1e-4, 0.1, 1.0, 5.0, 40.0, 200.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1, 1.0, 10.0, 100.0, 800.0])
def test_delta_is_an_integral_of_the_privacy_loss(mu: float, epsilon: float) -> None:
    """E max(0, 1 - e^(epsilon - loss)) for a loss N(mu^2/2, mu^2): no difference of near equals."""
    edge = epsilon / mu - mu / 2

    def excess(t: float) -> float:
        return -math.expm1(-mu * t) * math.exp(-((edge + t) ** 2) / 2) / math.sqrt(2 * math.pi)

    peak = max(-edge, 0.0)
    width = 40 / max(1.0, edge)
    parts = [(max(peak - width, 0.0), peak), (peak, peak + width)]
    exact = sum(quad(excess, *part, epsabs=0, epsrel=1e-12, limit=200)[0] for part in parts)
    assert float(gdp_delta(mu, epsilon)) == pytest.approx(exact, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(
    ("strength", "delta"),
    [(0.1, 0.5891), (0.3, 0.2372), (0.5, 0.1269), (1.0, 0.0396), (2, 0.00683)],
)
def test_what_constant_gradients_attain(strength: float, delta: float) -> None:
    """Ten steps of tau = 0.1 that are all sent, clipping norm 1."""
    assert float(gdp_delta(np.sqrt(10 * 0.1 / (2 * strength)), 1.0)) == pytest.approx(
        delta, rel=1e-3
    )


@pytest.mark.parametrize("z", [0.5, 1.0, 4.0])
def test_epsilon_is_that_of_the_privacy_loss_distribution(z: float) -> None:
    events = [SampledGaussian(z, 1.0, 3, "client", "jko")]
    ours = float(gdp_epsilon(compose_gdp(np.full(3, 1 / z)), 1e-5))
    assert PldAccountant().epsilon(events, 1e-5) == pytest.approx(ours, rel=1e-3)


@given(
    mu=st.floats(1e-3, 50.0),
    log_delta=st.floats(-25.0, -0.1),
)
def test_conversions_invert_each_other_on_the_safe_side(mu: float, log_delta: float) -> None:
    delta = float(np.exp(log_delta))
    epsilon = gdp_epsilon(mu, delta)
    assert gdp_delta(mu, epsilon) <= delta
    back = float(gdp_mu(epsilon, delta))
    assert gdp_delta(back, epsilon) <= delta
    if epsilon > 0:
        assert gdp_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)
        assert back == pytest.approx(mu, rel=1e-6)
    else:
        assert back >= mu * (1 - 1e-6)


def test_arrays_broadcast_and_ends_are_defined() -> None:
    mu = np.array([[0.0], [1.0], [3.0]])
    epsilon = np.array([0.0, 1.0])
    delta = gdp_delta(mu, epsilon)
    assert delta.shape == (3, 2)
    assert np.all(delta[0] == 0)
    assert np.all(np.diff(delta, axis=0) > 0)
    assert np.all(np.diff(delta[1:], axis=1) < 0)
    assert float(gdp_epsilon(0.0, 1e-5)) == 0.0
    assert float(gdp_epsilon(1e-3, 0.5)) == 0.0
    assert float(gdp_epsilon(1e200, 0.5)) == np.inf
    assert gdp_mu(epsilon, 1e-5).shape == (2,)
    np.testing.assert_array_equal(compose_gdp(np.array([[3.0, 4.0], [0.0, 2.0]])), [5.0, 2.0])


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_what_is_no_number_of_its_kind_is_refused(bad: float) -> None:
    questions: tuple[Callable[[], object], ...] = (
        lambda: gdp_delta(bad, 1.0),
        lambda: gdp_delta(1.0, bad),
        lambda: gdp_epsilon(bad, 0.1),
        lambda: gdp_epsilon(1.0, bad),
        lambda: gdp_mu(bad, 0.1),
        lambda: gdp_mu(1.0, bad),
        lambda: compose_gdp([1.0, bad]),
    )
    for question in questions:
        with pytest.raises(AccountingError, match=r"(mu|epsilon|delta): every value must be"):
            question()
