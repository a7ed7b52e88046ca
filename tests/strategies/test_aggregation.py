"""Exact sums: grouping changes no bit, and nothing silly gets in."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedgame.strategies.aggregation import (
    SUM_LIMIT,
    VALUE_LIMIT,
    acceptable,
    to_float,
    weighted_sum,
)

Updates = NDArray[np.float64]


def _population(seed: int, clients: int, size: int = 7) -> tuple[Updates, Updates]:
    rng = np.random.default_rng(seed)
    updates = rng.standard_normal((clients, size)) * 10.0 ** rng.integers(-6, 5, (clients, 1))
    counts = rng.integers(1, 100, clients)
    return updates, counts / counts.sum()


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 6))
def test_any_grouping_gives_the_same_integers(seed: int, clients: int, groups: int) -> None:
    updates, weights = _population(seed, clients)
    whole = weighted_sum(updates, weights)
    order = np.random.default_rng(seed + 1).permutation(clients)
    parts = [weighted_sum(updates[o], weights[o]) for o in np.array_split(order, groups)]
    assert np.array_equal(whole, sum(parts))


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_the_sum_is_the_exact_one_up_to_one_rounding_a_client(seed: int, clients: int) -> None:
    updates, weights = _population(seed, clients, size=2)
    exact = [
        sum(Fraction(float(u)) * Fraction(float(p)) for u, p in zip(column, weights, strict=True))
        for column in updates.T
    ]
    found = to_float(weighted_sum(updates, weights))
    # the product is rounded once to float64, then once to the grid of 2^-44
    slack = clients * (2.0**-44 + np.abs(updates).max() * 2.0**-52)
    errors = [abs(float(e - Fraction(float(f)))) for e, f in zip(exact, found, strict=True)]
    assert max(errors) <= slack


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30, VALUE_LIMIT, -VALUE_LIMIT])
def test_what_would_become_a_wrong_integer_is_refused(bad: float) -> None:
    updates = np.zeros((3, 4))
    updates[1, 2] = bad
    assert acceptable(updates).tolist() == [True, False, True]
    with pytest.raises(OverflowError):
        weighted_sum(updates, np.full(3, 1 / 3))


def test_the_largest_accepted_population_does_not_overflow() -> None:
    clients = 1000
    updates = np.full((clients, 1), np.nextafter(VALUE_LIMIT, 0))
    total = weighted_sum(updates, np.full(clients, 1 / clients))
    assert 0 < int(total[0]) <= SUM_LIMIT
    assert to_float(total)[0] == pytest.approx(VALUE_LIMIT)


def test_no_client_at_all_is_zero() -> None:
    assert weighted_sum(np.empty((0, 3)), np.empty(0)).tolist() == [0, 0, 0]
