"""Bounds from scores: against SciPy's exact intervals, closed forms, and how often they err."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from fedgame.accountants.gdp import gdp_delta, gdp_epsilon
from fedgame.audits.attack_bounds import (
    RateBounds,
    choose_threshold,
    linear_score,
    rate_bounds,
)


def _scores(hits: int, runs: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return (np.arange(runs) < hits).astype(np.float64)


@pytest.mark.parametrize(("null", "alternative"), [(0, 20), (3, 11), (20, 0), (20, 20), (1, 1)])
@pytest.mark.parametrize("confidence", [0.95, 1 - 1e-6])
def test_rates_are_scipy_s_exact_intervals(null: int, alternative: int, confidence: float) -> None:
    found = rate_bounds(_scores(null, 20), _scores(alternative, 20), 0.5, confidence)
    # two-sided at the same confidence: half of what may go wrong on each side
    size, power = (binomtest(k, 20).proportion_ci(confidence) for k in (null, alternative))
    assert found.size == pytest.approx(size.high, abs=1e-10)
    assert found.power == pytest.approx(power.low, abs=1e-10)


def test_a_score_at_the_threshold_is_not_above_it() -> None:
    ones = np.ones(10)
    assert rate_bounds(ones, ones, 1.0).power == 0.0


def test_bounds_are_wrong_as_seldom_as_they_say() -> None:
    rng = np.random.default_rng(3)
    mu, runs, trials = 1.0, 400, 1500
    threshold = 1.5
    power, size = norm.sf(threshold - mu), norm.sf(threshold)
    true = float(gdp_delta(mu, 1.0))
    above = wrong = 0
    for _ in range(trials):
        null = _scores(rng.binomial(runs, size), runs)
        alternative = _scores(rng.binomial(runs, power), runs)
        found = rate_bounds(null, alternative, 0.5)
        above += found.delta(1.0) > true
        wrong += found.power > power or found.size < size
    assert above <= wrong
    assert 0.01 < wrong / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_exact_rates_give_exact_values() -> None:
    mu = 1.3
    best = mu / 2 + 1 / mu  # where the likelihood ratio is e
    exact = RateBounds(float(norm.sf(best - mu)), float(norm.sf(best)), 0.95)
    assert exact.delta(1.0) == pytest.approx(float(gdp_delta(mu, 1.0)), rel=1e-12)
    assert exact.mu() == pytest.approx(mu, rel=1e-12)
    delta = exact.delta(1.0)
    assert exact.epsilon(delta) == pytest.approx(1.0, rel=1e-9)
    assert exact.epsilon(delta) <= float(gdp_epsilon(mu, delta)) + 1e-9


def test_what_is_not_called_world_1_counts_as_well() -> None:
    # the complement tells more here: .5 against .001
    lopsided = RateBounds(power=0.999, size=0.5, confidence=0.95)
    assert lopsided.delta(2.0) == pytest.approx(0.5 - np.exp(2) * 0.001)
    assert lopsided.epsilon(0.0) == pytest.approx(np.log(0.5 / 0.001))


def test_an_attack_that_fails_proves_nothing() -> None:
    useless = RateBounds(power=0.1, size=0.3, confidence=0.95)
    assert (useless.delta(0.0), useless.epsilon(0.0), useless.mu()) == (0.0, 0.0, 0.0)
    blind = rate_bounds(np.zeros(5), np.zeros(5), 1.0)
    assert (blind.delta(0.0), blind.epsilon(1e-5), blind.mu()) == (0.0, 0.0, 0.0)


def test_the_chosen_threshold_proves_most_where_it_was_chosen() -> None:
    rng = np.random.default_rng(0)
    null, alternative = rng.normal(size=20_000), rng.normal(1.0, size=20_000)

    def delta(rates: RateBounds) -> float:
        return rates.delta(1.0)

    chosen = choose_threshold(null, alternative, delta)
    assert chosen == pytest.approx(1.5, abs=0.2)  # mu/2 + epsilon/mu
    found = rate_bounds(null, alternative, chosen).delta(1.0)
    others = [rate_bounds(null, alternative, t).delta(1.0) for t in np.linspace(-2, 3, 41)]
    assert found >= max(others) - 2e-3
    far = choose_threshold(null, alternative, lambda rates: rates.epsilon(1e-3))
    assert far > chosen


def test_the_linear_score_is_sklearn_s_discriminant() -> None:
    rng = np.random.default_rng(1)
    mix = rng.normal(size=(4, 4))
    null = rng.normal(size=(500, 4)) @ mix
    alternative = rng.normal(size=(500, 4)) @ mix + np.array([0.3, 0, -0.2, 0.1])
    weights = linear_score(null, alternative)
    peer = LinearDiscriminantAnalysis().fit(
        np.concatenate([null, alternative]), np.repeat([0, 1], 500)
    )
    theirs = peer.coef_[0]
    cosine = weights @ theirs / np.linalg.norm(weights) / np.linalg.norm(theirs)
    assert cosine == pytest.approx(1.0, abs=1e-9)
    assert weights @ (alternative.mean(axis=0) - null.mean(axis=0)) > 0


def test_bad_input_is_refused() -> None:
    good = np.zeros(3)
    with pytest.raises(ValueError, match="null: must be a row of at least one score"):
        rate_bounds(np.zeros(0), good, 0.0)
    with pytest.raises(ValueError, match="alternative: must be a row"):
        rate_bounds(good, np.array([0.0, np.nan]), 0.0)
    with pytest.raises(ValueError, match="threshold = nan"):
        rate_bounds(good, good, float("nan"))
    with pytest.raises(ValueError, match=r"confidence = 1\.0: must be in"):
        rate_bounds(good, good, 0.0, 1.0)
    rates = RateBounds(0.5, 0.1, 0.95)
    with pytest.raises(ValueError, match="epsilon = nan: must be finite"):
        rates.delta(float("nan"))
    with pytest.raises(ValueError, match=r"delta = 1\.0: must be in"):
        rates.epsilon(1.0)
