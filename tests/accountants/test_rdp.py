from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as peer
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.accountants.rdp import (
    DEFAULT_ORDERS,
    RdpAccountant,
    delta_from_rdp,
    epsilon_from_rdp,
    gaussian_epsilon,
    rdp_of_history,
    rdp_pure,
)
from fedgame.errors import AccountingError
from fedgame.ledger.events import LaplaceVector, PrivacyEvent, PureDPChoice, SampledGaussian

DELTA = 1e-5
RDP = RdpAccountant()


def steps(z: float, q: float, count: int) -> SampledGaussian:
    return SampledGaussian(z, q, count, "example", "gaussian")


def choice(epsilon: float) -> PureDPChoice:
    return PureDPChoice(epsilon, "example", "exponential")


@pytest.mark.parametrize(
    ("z", "q", "count", "epsilon"),
    [
        (26.8328157300, 0.1, 100, 0.1350),
        (3.7947331922, 0.1, 50, 0.8070),
        (4.8448052626, 1.0, 10, 2.9148),
        (4.8448052626, 1.0, 15, 3.6628),
        (4.8448052626, 1.0, 20, 4.3141),
    ],
)
def test_published_values(z: float, q: float, count: int, epsilon: float) -> None:
    assert RDP.epsilon([steps(z, q, count)], DELTA) == pytest.approx(epsilon, abs=5e-5)
    assert float(gaussian_epsilon(z, q, count, DELTA)) == pytest.approx(epsilon, abs=5e-5)


@pytest.mark.parametrize("z", [2.0, 4.0, 10.0])
@pytest.mark.parametrize("q", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("count", [1, 100, 1000])
def test_epsilon_and_delta_equal_dp_accounting(z: float, q: float, count: int) -> None:
    """To 1e-8 where the best order is whole or q = 1; else theirs may be the higher one."""
    judge = peer.RdpAccountant()
    judge.compose(
        peer.dp_event.PoissonSampledDpEvent(q, peer.dp_event.GaussianDpEvent(z)), count=count
    )
    theirs, order = judge.get_epsilon_and_optimal_order(DELTA)
    ours = RDP.epsilon([steps(z, q, count)], DELTA)
    exact = q == 1 or float(order).is_integer()
    assert ours == pytest.approx(theirs, rel=1e-8 if exact else 2e-3, abs=1e-12)
    assert ours <= theirs * (1 + 1e-8)
    for epsilon in (0.5, 2.0):
        theirs, order = judge.get_delta_and_optimal_order(epsilon)
        if q == 1 or float(order).is_integer():
            assert RDP.delta([steps(z, q, count)], epsilon) == pytest.approx(theirs, rel=1e-6)


@given(
    scale=st.floats(-12, 8),
    delta=st.floats(1e-12, 0.5),
    epsilon=st.floats(0, 50),
    bend=st.floats(0, 2),
)
@settings(max_examples=100, deadline=None)
def test_conversions_equal_dp_accounting(
    scale: float, delta: float, epsilon: float, bend: float
) -> None:
    orders = np.array([1.001, *DEFAULT_ORDERS])
    rdp = math.exp(scale) * orders**bend
    expected = peer.compute_epsilon(orders, rdp, delta)[0]
    assert float(epsilon_from_rdp(rdp, orders, delta)) == pytest.approx(expected, rel=1e-9)
    expected = peer.compute_delta(orders, rdp, epsilon)[0]
    assert float(delta_from_rdp(rdp, orders, epsilon)) == pytest.approx(expected, rel=1e-9)


def test_conversions_are_vectorised() -> None:
    rdp = np.outer([0.0, 1e-3, 0.1], DEFAULT_ORDERS).reshape(3, 1, -1)
    epsilon = epsilon_from_rdp(rdp, DEFAULT_ORDERS, DELTA)
    delta = delta_from_rdp(rdp, DEFAULT_ORDERS, 1.0)
    assert epsilon.shape == delta.shape == (3, 1)
    assert epsilon[0, 0] == delta[0, 0] == 0


def randomised_response_rdp(epsilon: float, order: float) -> float:
    p, r = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    return math.log(p**order * r ** (1 - order) + r**order * p ** (1 - order)) / (order - 1)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("order", [1.1, 2.0, 7.5, 60.0])
def test_pure_dp_is_randomised_response(epsilon: float, order: float) -> None:
    expected = randomised_response_rdp(epsilon, order)
    assert rdp_pure(epsilon, [order])[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("order", [1.1, 2.0, 7.5, 60.0])
def test_laplace_vectors_cost_what_pure_dp_does_and_no_less_than_one_coordinate(
    order: float,
) -> None:
    """Against as many randomised responses, and Laplace noise on a number (Mironov 2017)."""
    numbers = [(2.0, 0.5), (0.7, 0.09), (3.0, 2.4)]
    history = [LaplaceVector(m, s, 4, "example", "laplace") for m, s in numbers]
    ours = float(rdp_of_history(history, (order,))[0])
    budgets = [s / m for m, s in numbers]
    assert ours == pytest.approx(sum(randomised_response_rdp(b, order) for b in budgets))
    one_coordinate = sum(
        math.log(
            order / (2 * order - 1) * math.exp((order - 1) * b)
            + (order - 1) / (2 * order - 1) * math.exp(-order * b)
        )
        / (order - 1)
        for b in budgets
    )
    assert one_coordinate < ours < sum(budgets)


@given(epsilon=st.floats(1e-12, 1e4))
@settings(max_examples=60, deadline=None)
def test_pure_dp_is_below_epsilon_and_below_the_quadratic_bound(epsilon: float) -> None:
    values = rdp_pure(epsilon)
    orders = np.array(DEFAULT_ORDERS)
    assert np.all(values > 0)
    assert np.all(values <= epsilon)
    assert np.all(values <= orders * epsilon**2 / 2 * (1 + 1e-9))


events = st.one_of(
    st.builds(steps, st.floats(0.8, 20), st.sampled_from([0.01, 0.1, 0.5, 1.0]), st.integers(1, 9)),
    st.builds(choice, st.floats(1e-3, 1)),
)


@given(history=st.lists(events, min_size=1, max_size=6), seed=st.randoms())
@settings(max_examples=40, deadline=None)
def test_order_of_composition_does_not_matter_and_more_events_cost_more(
    history: list[PrivacyEvent], seed: object
) -> None:
    shuffled = list(history)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    assert RDP.epsilon(shuffled, DELTA) == RDP.epsilon(history, DELTA)
    assert RDP.epsilon(history[1:], DELTA) <= RDP.epsilon(history, DELTA)
    assert RDP.delta(history[1:], 1.0) <= RDP.delta(history, 1.0)


def test_a_history_is_the_sum_of_its_events() -> None:
    parts: list[PrivacyEvent] = [steps(2.0, 0.1, 3), choice(0.2), steps(5.0, 1.0, 2)]
    np.testing.assert_allclose(
        rdp_of_history(parts), sum(rdp_of_history([part]) for part in parts), rtol=1e-12
    )


def test_resuming_10_and_10_rounds_costs_20() -> None:
    one = steps(4.0, 0.1, 1)
    assert RDP.epsilon([one] * 10 + [one] * 10, DELTA) == RDP.epsilon([steps(4.0, 0.1, 20)], DELTA)


@given(
    z=st.floats(0.5, 50), q=st.floats(1e-3, 1), count=st.integers(1, 2000), more=st.floats(1.05, 3)
)
@settings(max_examples=60, deadline=None)
def test_epsilon_is_monotone(z: float, q: float, count: int, more: float) -> None:
    base = float(gaussian_epsilon(z, q, count, DELTA))
    assert float(gaussian_epsilon(z * more, q, count, DELTA)) <= base
    assert float(gaussian_epsilon(z, min(1, q * more), count, DELTA)) >= base
    assert float(gaussian_epsilon(z, q, count + 1, DELTA)) >= base
    assert float(gaussian_epsilon(z, q, count, DELTA / more)) >= base


def test_many_clients_at_once_equal_one_by_one() -> None:
    z, q, count = np.array([1.0, 2.0, 1.0, 30.0]), np.array([0.1, 1.0, 0.1, 0.5]), [5, 6, 5, 0]
    together = gaussian_epsilon(z, q, count, DELTA)
    alone = [
        RDP.epsilon([steps(a, b, c)] if c else [], DELTA)
        for a, b, c in zip(z, q, count, strict=True)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_a_population_of_few_kinds_has_few_values() -> None:
    z = np.tile([2.5, 3.5, 5.0, 7.0, 10.0], 20_000)
    epsilon = gaussian_epsilon(z, 0.1, 100, DELTA)
    assert len(np.unique(epsilon)) == 5


@pytest.mark.parametrize("count", [-1, float("nan"), float("inf")])
def test_steps_that_are_not_finite_are_refused(count: float) -> None:
    with pytest.raises(AccountingError, match="steps"):
        gaussian_epsilon(1.0, 0.1, count, DELTA)
