"""Laplace noise: its distribution, its generator, its price."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedgame.ledger.events import LaplaceVector
from fedgame.mechanisms.laplace import laplace_event, release


def test_noise_has_the_laplace_distribution_of_its_scale() -> None:
    value = np.arange(20_000.0)
    released = release(value, 2.5, 1.0, np.random.default_rng(0))
    noise = released.value - value
    assert stats.kstest(noise, stats.laplace(scale=2.5).cdf).pvalue > 0.01
    assert stats.kstest(noise, stats.laplace(scale=2.7).cdf).pvalue < 1e-6


def test_the_event_says_what_the_release_costs() -> None:
    event = release(np.zeros(3), 2.0, 0.5, np.random.default_rng(0)).event
    assert event == LaplaceVector(2.0, 0.5, 3, "client-replace", "laplace")
    assert event.epsilon == 0.25


def test_the_loss_of_a_release_is_within_its_epsilon() -> None:
    """Both densities of the same output, written out."""
    a, b = np.array([0.0, 0.3]), np.array([0.4, 0.1])
    event = laplace_event(2.0, float(np.abs(a - b).sum()), 2)
    outputs = np.random.default_rng(1).laplace(scale=4.0, size=(1000, 2))
    density = stats.laplace(scale=2.0).logpdf
    losses = (density(outputs - a) - density(outputs - b)).sum(axis=1)
    assert np.abs(losses).max() <= event.epsilon + 1e-12
    assert np.abs(losses).max() > 0.9 * event.epsilon


@pytest.mark.parametrize(("scale", "sensitivity"), [(0.0, 1.0), (-1.0, 1.0), (1.0, -1.0)])
def test_numbers_out_of_range_are_refused(scale: float, sensitivity: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        release(np.zeros(1), scale, sensitivity, np.random.default_rng(0))
