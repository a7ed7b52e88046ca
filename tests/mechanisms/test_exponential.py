"""The exponential mechanism against its closed form, and its privacy by enumeration."""

from __future__ import annotations

from itertools import product
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedgame.errors import FedgameError
from fedgame.ledger.events import PureDPChoice
from fedgame.mechanisms.exponential import (
    choice_event,
    choice_probabilities,
    epsilon_after_amplification,
    epsilon_before_amplification,
    exponential_choices,
)


def exponential_choice(
    utilities: np.ndarray, epsilon: float, sensitivity: float, uniform: float, *, monotone: bool
) -> int:
    """Return the choice of a single client."""
    (index,) = exponential_choices(
        utilities[None],
        epsilon,
        np.array([sensitivity]),
        np.array([uniform]),
        monotone=monotone,
    )
    return int(index)


@given(seed=st.integers(0, 999), clients=st.integers(1, 40), options=st.integers(1, 12))
def test_clients_together_choose_as_one_by_one(seed: int, clients: int, options: int) -> None:
    """To the last bit: a client's choice must not depend on who else is in the array."""
    rng = np.random.default_rng(seed)
    utilities, uniform = rng.normal(size=(clients, options)), rng.random(clients)
    sensitivities = rng.uniform(0.01, 1.0, clients)
    together = choice_probabilities(utilities, 0.7, sensitivities, monotone=True)
    found = exponential_choices(utilities, 0.7, sensitivities, uniform, monotone=True)
    for row in range(clients):
        alone = choice_probabilities(utilities[row], 0.7, sensitivities[row], monotone=True)
        assert np.array_equal(together[row], alone)
        bounds = np.cumsum(alone)
        assert found[row] == np.searchsorted(bounds / bounds[-1], uniform[row], side="right")


@pytest.mark.parametrize(("monotone", "factor"), [(False, 2.0), (True, 1.0)])
def test_probabilities_have_the_closed_form(monotone: bool, factor: float) -> None:
    utilities = np.array([0.3, 0.1, 0.7, 0.1])
    weights = np.exp(-1.2 * utilities / (factor * 0.4))
    np.testing.assert_allclose(
        choice_probabilities(utilities, 1.2, 0.4, monotone=monotone), weights / weights.sum()
    )


@pytest.mark.parametrize("monotone", [False, True])
def test_draws_follow_the_probabilities(monotone: bool) -> None:
    utilities = np.array([0.3, 0.1, 0.7, 0.2])
    uniform = np.random.default_rng(3).random(20_000)
    draws = exponential_choices(
        np.tile(utilities, (len(uniform), 1)),
        1.5,
        np.full(len(uniform), 0.4),
        uniform,
        monotone=monotone,
    )
    expected = choice_probabilities(utilities, 1.5, 0.4, monotone=monotone) * len(draws)
    assert chisquare(np.bincount(draws, minlength=4), expected).pvalue > 1e-4


def worst_log_ratio(data: list[np.ndarray], increments: list[np.ndarray], monotone: bool) -> float:
    """Return the largest |log ratio| of a choice's probability when one increment is added."""
    worst = 0.0
    for utilities, increment in product(data, increments):
        before = choice_probabilities(utilities, 0.8, 0.5, monotone=monotone)
        after = choice_probabilities(utilities + increment, 0.8, 0.5, monotone=monotone)
        worst = max(worst, float(np.abs(np.log(before / after)).max()))
    return worst


def test_privacy_by_enumeration() -> None:
    """Every utility on a grid, every increment: at most epsilon, and nearly all of it is used."""
    levels = np.linspace(-8.0, 8.0, 5)
    data = [np.array(point) for point in product(levels, repeat=3)]
    both_ways = [np.array(step) for step in product((-0.5, 0.0, 0.5), repeat=3)]
    upwards = [np.array(step) for step in product((0.0, 0.25, 0.5), repeat=3)]

    assert 0.75 < worst_log_ratio(data, both_ways, monotone=False) <= 0.8 + 1e-12
    assert 0.75 < worst_log_ratio(data, upwards, monotone=True) <= 0.8 + 1e-12
    # Without the promise of monotony the sharper form would cost up to twice as much.
    assert worst_log_ratio(data, both_ways, monotone=True) > 1.5


def test_extreme_utilities() -> None:
    utilities = np.array([1e300, -1e300, 0.0])
    assert exponential_choice(utilities, 1.0, 1.0, 0.9, monotone=True) == 1
    same = choice_probabilities(np.full(3, -1e300), 1.0, 1e-300, monotone=True)
    np.testing.assert_allclose(same, 1 / 3)


@given(
    utilities=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6),
    seed=st.integers(0, 999),
    epsilon=st.floats(1e-3, 1e3),
)
def test_a_choice_is_an_index_of_positive_probability(
    utilities: list[float], seed: int, epsilon: float
) -> None:
    values = np.array(utilities)
    uniform = np.random.default_rng(seed).random()
    choice = exponential_choice(values, epsilon, 0.5, uniform, monotone=False)
    assert choice_probabilities(values, epsilon, 0.5, monotone=False)[choice] > 0


def test_an_option_of_probability_zero_is_never_chosen() -> None:
    utilities = np.array([1e9, 0.0])
    assert exponential_choice(utilities, 1.0, 1.0, 0.0, monotone=False) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_utilities_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(FedgameError, match="not a finite number"):
        exponential_choice(np.array([0.0, bad]), 1.0, 1.0, 0.5, monotone=False)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.0, 1.0), (1.0, 0.0), (np.nan, 1.0)])
def test_parameters_out_of_range_are_refused(epsilon: float, sensitivity: float) -> None:
    with pytest.raises(ValueError, match="both must be > 0"):
        choice_probabilities(np.zeros(2), epsilon, sensitivity, monotone=False)


@given(epsilon=st.floats(1e-6, 20.0), q=st.floats(1e-4, 1.0))
def test_amplification_has_the_closed_form_and_an_inverse(epsilon: float, q: float) -> None:
    cost = epsilon_after_amplification(epsilon, q)
    assert cost == pytest.approx(log(1 + q * (exp(epsilon) - 1)), rel=1e-9, abs=1e-15)
    assert epsilon_before_amplification(cost, q) == pytest.approx(epsilon, rel=1e-9)


def test_amplification_of_a_large_budget() -> None:
    assert epsilon_after_amplification(2000.0, 0.1) == pytest.approx(2000.0 + log(0.1))
    assert epsilon_before_amplification(2000.0, 0.1) == pytest.approx(2000.0 - log(0.1))


def test_events() -> None:
    assert choice_event(0.5, 0.1, "example") == PureDPChoice(
        epsilon=epsilon_after_amplification(0.5, 0.1),
        neighbours="example",
        mechanism="exponential",
    )
    assert choice_event(0.5, 0.1, "client").epsilon == pytest.approx(0.5)
