from __future__ import annotations

import math
import time

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad

from fedgame.accountants.sampled_gaussian import DEFAULT_ORDERS, rdp_sampled_gaussian
from fedgame.errors import AccountingError

ORDERS = np.array(DEFAULT_ORDERS)
WHOLE = np.floor(ORDERS) == ORDERS
GRID = [(z, q) for z in (0.5, 1.0, 1.7, 4.0, 26.8328157300) for q in (1e-3, 0.01, 0.1, 0.5, 0.95)]


def by_dp_accounting(z: float, q: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    accountant = peer.RdpAccountant(orders.tolist())
    accountant.compose(
        peer.dp_event.PoissonSampledDpEvent(q, peer.dp_event.GaussianDpEvent(z)), count=7
    )
    return np.asarray(accountant.rdp) / 7


def by_quadrature(z: float, q: float, order: float) -> float:
    """The definition, log E[(1 - q + q L)^order] / (order - 1), by an adaptive rule."""

    def integrand(u: float) -> float:
        ratio = (1 - q) + q * math.exp(u / z - 0.5 / z**2)
        return math.exp(order * math.log(ratio) - 0.5 * u * u) / math.sqrt(2 * math.pi)

    peak = order / z
    edges = [-12.0, -4.0, 0.0, 4.0, peak / 2 + 5, peak + 12]
    pieces = [
        quad(integrand, low, high, epsabs=0, epsrel=1e-13, limit=400)[0]
        for low, high in zip(sorted(edges)[:-1], sorted(edges)[1:], strict=True)
    ]
    return math.log(math.fsum(pieces)) / (order - 1)


@pytest.mark.parametrize(("z", "q"), GRID)
def test_whole_orders_equal_dp_accounting(z: float, q: float) -> None:
    ours = rdp_sampled_gaussian(z, q, ORDERS[WHOLE])
    # Their sum starts from 1, so that values near 1e-16 keep few digits.
    np.testing.assert_allclose(ours, by_dp_accounting(z, q, ORDERS[WHOLE]), rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize(("z", "q"), [(z, q) for z, q in GRID if z < 10])
@pytest.mark.parametrize("order", [1.1, 1.5, 2.5, 3.7, 8.9])
def test_fractional_orders_equal_the_definition(z: float, q: float, order: float) -> None:
    ours = float(rdp_sampled_gaussian(z, q, [order])[0])
    assert ours == pytest.approx(by_quadrature(z, q, order), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(("z", "q"), GRID)
def test_fractional_orders_lie_between_their_neighbours_and_below_dp_accounting(
    z: float, q: float
) -> None:
    """dp-accounting 0.6 adds absolute values of an alternating series: it is never below ours."""
    ours = rdp_sampled_gaussian(z, q, ORDERS)
    assert np.all(np.diff(ours) > 0)
    theirs = by_dp_accounting(z, q, ORDERS[~WHOLE])
    assert np.all(ours[~WHOLE] <= theirs * (1 + 1e-8) + 1e-12)
    high = ORDERS[~WHOLE] > 10
    negligible = z >= 4 and q <= 0.1
    if negligible:  # the terms whose sign they drop are below 1e-8 there
        np.testing.assert_allclose(ours[~WHOLE][high], theirs[high], rtol=1e-8, atol=1e-13)


def test_without_sampling_it_is_the_gaussian_closed_form() -> None:
    z = np.array([[0.3], [1.0], [40.0]])
    np.testing.assert_array_equal(rdp_sampled_gaussian(z[:, 0], 1.0), ORDERS / (2 * z**2))


def test_order_2_closed_form() -> None:
    z, q = np.array([0.7, 1.0, 5.0, 200.0]), np.array([0.9, 0.1, 1e-3, 1e-4])
    expected = np.log1p(q**2 * np.expm1(1 / z**2))
    np.testing.assert_allclose(rdp_sampled_gaussian(z, q, [2.0])[:, 0], expected, rtol=1e-10)


def test_shapes_broadcast() -> None:
    z, q = np.array([[1.0], [2.0], [3.0]]), np.array([0.1, 1.0])
    values = rdp_sampled_gaussian(z, q, [1.5, 3.0])
    assert values.shape == (3, 2, 2)
    for i in range(3):
        for j in range(2):
            alone = rdp_sampled_gaussian(z[i, 0], q[j], [1.5, 3.0])
            np.testing.assert_allclose(values[i, j], alone, rtol=1e-12)


@given(z=st.floats(0.02, 1e4), q=st.floats(1e-9, 1.0))
@settings(max_examples=60, deadline=None)
def test_it_is_finite_positive_and_below_the_unsampled_value(z: float, q: float) -> None:
    values = rdp_sampled_gaussian(z, q)
    assert np.all(np.isfinite(values))
    assert np.all(values >= 0)
    assert np.all(values <= ORDERS / (2 * z**2) * (1 + 1e-9))


@given(z=st.floats(0.3, 50), q=st.floats(1e-3, 0.9), more=st.floats(1.01, 2))
@settings(max_examples=40, deadline=None)
def test_it_falls_with_noise_and_rises_with_sampling(z: float, q: float, more: float) -> None:
    base = rdp_sampled_gaussian(z, q)
    assert np.all(rdp_sampled_gaussian(z * more, q) < base)
    assert np.all(rdp_sampled_gaussian(z, min(1.0, q * more)) > base)


@pytest.mark.parametrize(
    ("z", "q", "orders", "named"),
    [
        (float("nan"), 0.1, [2.0], "noise_multiplier"),
        (float("inf"), 0.1, [2.0], "noise_multiplier"),
        (0.0, 0.1, [2.0], "noise_multiplier"),
        (1.0, float("nan"), [2.0], "sampling_rate"),
        (1.0, 0.0, [2.0], "sampling_rate"),
        (1.0, 1.1, [2.0], "sampling_rate"),
        (1.0, 0.1, [1.0], "orders"),
        (1.0, 0.1, [float("inf")], "orders"),
        (1.0, 0.1, [float("nan")], "orders"),
    ],
)
def test_numbers_out_of_range_are_named(
    z: float, q: float, orders: list[float], named: str
) -> None:
    with pytest.raises(AccountingError, match=named):
        rdp_sampled_gaussian([1.0, z], q, orders)


def test_a_large_population_of_few_kinds_is_fast() -> None:
    z = np.tile([2.5, 3.5, 5.0, 7.0, 10.0], 2_000)
    start = time.process_time()
    values = rdp_sampled_gaussian(z, 0.1)
    assert time.process_time() - start < 2
    assert values.shape == (10_000, len(DEFAULT_ORDERS))
