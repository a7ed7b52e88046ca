from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.accountants.order2 import Order2Accountant
from fedgame.accountants.rdp import RdpAccountant
from fedgame.ledger.events import LaplaceVector, PrivacyEvent, PureDPChoice, SampledGaussian

ORDER2 = Order2Accountant()


@pytest.mark.parametrize(("count", "epsilon"), [(10, 11.938962), (15, 12.151981), (20, 12.364999)])
def test_published_values(count: int, epsilon: float) -> None:
    history = [SampledGaussian(4.8448052626, 1.0, count, "example", "gaussian")]
    assert ORDER2.epsilon(history, 1e-5) == pytest.approx(epsilon, abs=1e-6)


def test_sampled_steps_choices_and_vectors_by_their_closed_forms() -> None:
    history: list[PrivacyEvent] = [
        SampledGaussian(2.0, 0.1, 5, "example", "gaussian"),
        PureDPChoice(0.4, "example", "exponential"),
        LaplaceVector(0.5, 0.3, 2, "example", "laplace"),
        LaplaceVector(0.5, 0.0, 2, "example", "laplace"),
    ]
    sampled = 5 * math.log1p(0.01 * math.expm1(0.25))
    response = math.log(math.cosh(1.5 * 0.4) / math.cosh(0.2))
    response += math.log(math.cosh(1.5 * 0.6) / math.cosh(0.3))
    assert ORDER2.epsilon(history, 1e-5) == pytest.approx(sampled + response + math.log(1e5))


@given(z=st.floats(0.5, 20), q=st.floats(0.01, 1), count=st.integers(1, 100))
@settings(max_examples=30, deadline=None)
def test_it_is_never_below_the_accountant_of_all_orders(z: float, q: float, count: int) -> None:
    history = [SampledGaussian(z, q, count, "example", "gaussian")]
    assert ORDER2.epsilon(history, 1e-5) >= RdpAccountant().epsilon(history, 1e-5)
    for epsilon in (0.0, 1.0, 5.0):
        assert ORDER2.delta(history, epsilon) >= RdpAccountant().delta(history, epsilon)


def test_delta_inverts_epsilon_and_is_capped() -> None:
    history = [SampledGaussian(1.0, 0.5, 10, "example", "gaussian")]
    assert ORDER2.delta(history, ORDER2.epsilon(history, 1e-5)) == pytest.approx(1e-5)
    assert ORDER2.delta(history, 0.0) == 1.0
