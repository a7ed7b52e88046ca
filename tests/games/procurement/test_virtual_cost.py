"""Virtual costs against closed forms, and ironing against isotonic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.isotonic import isotonic_regression

from fedgame.games.procurement.continuous_prior import ContinuousPrior
from fedgame.games.procurement.sample_prior import SamplePrior
from fedgame.games.procurement.virtual_cost import make_prior

REGULAR: list[Any] = [
    stats.uniform(0, 1),
    stats.uniform(0.2, 1.5),
    stats.beta(2, 2),
    stats.beta(0.7, 1),
    stats.truncnorm(-1, 2, loc=0.5, scale=0.4),
    stats.norm(0.5, 0.3),
    stats.expon(scale=0.5),
    stats.lognorm(0.8),
    stats.gamma(50, scale=0.01),
    stats.triang(0.4),
]
BIMODAL = stats.rv_histogram((np.array([8.0, 1.0, 1.0, 9.0, 2.0]), np.linspace(0, 1, 6)))()
IRREGULAR: list[Any] = [stats.beta(0.5, 0.5), BIMODAL, stats.beta(0.3, 0.6)]


def test_uniform_types_cost_twice_their_sensitivity() -> None:
    prior = make_prior(stats.uniform(0, 1))
    reports = np.array([0.0, 0.1, 0.25, 1.0])
    assert prior.virtual_cost(reports).tolist() == [0.0, 0.2, 0.5, 2.0]
    assert not prior.ironed
    assert (prior.c_min, prior.c_max) == (0, 1)
    assert make_prior(stats.uniform(0.5, 2)).virtual_cost([0.5, 1.0]) == pytest.approx([0.5, 1.5])


def test_power_types() -> None:
    # F = c^a: F/f = c/a, also at 0, where the density is 0 or infinite
    for a in (0.5, 1.0, 3.0):
        found = make_prior(stats.beta(a, 1)).virtual_cost([0.0, 1e-12, 0.3, 1.0])
        assert found == pytest.approx(np.array([0, 1e-12, 0.3, 1]) * (1 + 1 / a), rel=1e-9)


def test_truncation_renormalises() -> None:
    reports = np.array([0.1, 0.5, 1.9])
    exact = reports + (np.exp(reports) - 1)  # exponential: F/f = e^c - 1, wherever it is cut
    prior = make_prior(stats.expon(), c_max=2.0)
    assert prior.virtual_cost(reports) == pytest.approx(exact, rel=1e-12)
    assert prior.c_max == 2
    # a normal is cut at 0 as well: F counts from there
    normal = stats.norm(0.3, 0.4)
    found = make_prior(normal, c_max=1.0).virtual_cost([0.0, 0.5])
    ratio = (normal.cdf(0.5) - normal.cdf(0)) / normal.pdf(0.5)
    assert found == pytest.approx([0, 0.5 + ratio], rel=1e-12)


def test_an_unbounded_prior_ends_at_a_quantile() -> None:
    prior = make_prior(stats.expon(scale=0.5))
    assert prior.c_max == pytest.approx(-0.5 * np.log(0.001))
    with pytest.raises(ValueError, match=r"must be from 0.0 to 3.45"):
        prior.virtual_cost([4.0])


@pytest.mark.parametrize("distribution", REGULAR, ids=lambda d: d.dist.name)
def test_regular_priors(distribution: Any) -> None:
    prior = ContinuousPrior(distribution)
    assert not prior.ironed
    assert len(prior.kinks) == 0
    c = np.linspace(prior.c_min, prior.c_max, 5001)
    values = prior.virtual_cost(c)
    assert (np.diff(values) >= -1e-9 * values[1:]).all()
    assert (values >= c).all()


@pytest.mark.parametrize("distribution", IRREGULAR, ids=["arcsine", "bimodal", "beta"])
def test_ironing_is_isotonic_regression(distribution: Any) -> None:
    prior = ContinuousPrior(distribution)
    assert prior.ironed
    edges = distribution.ppf(np.linspace(0, 1, 20_001))
    middles = distribution.ppf((np.arange(20_000) + 0.5) / 20_000)
    ours = prior.virtual_cost(middles)
    assert (np.diff(ours) >= 0).all()
    # cells of equal probability: the mean virtual cost of one is a difference of F(c) c
    means = np.diff(np.linspace(0, 1, 20_001) * edges) * 20_000
    judge = isotonic_regression(means)
    close = np.isclose(ours, judge, rtol=2e-3)
    assert close[20:-20].mean() > 0.9999  # but for the cells at a jump


def test_ironing_keeps_the_expected_virtual_cost() -> None:
    distribution = stats.beta(0.5, 0.5)
    prior = ContinuousPrior(distribution)

    def weighted(q: float) -> float:
        return float(prior.virtual_cost([distribution.ppf(q)])[0])

    # the integral of c + F/f over F is c_max, and so is that of the ironed one
    found, _ = integrate.quad(weighted, 0, 1, points=distribution.cdf(prior.kinks), limit=200)
    assert found == pytest.approx(1.0, abs=1e-6)


def test_draws_have_the_prior_s_distribution() -> None:
    rng = np.random.default_rng(0)
    prior = make_prior(stats.expon(), c_max=2.0)
    drawn = prior.draw(rng, (2000,))
    assert drawn.max() <= 2
    cut = stats.truncexpon(2.0)
    assert stats.kstest(drawn, cut.cdf).pvalue > 1e-3


def test_samples_by_hand() -> None:
    # types .1, .2, .4 with shares 1/2, 1/4, 1/4
    prior = SamplePrior([0.4, 0.1, 0.2, 0.1])
    expected = [0.1, 0.2 + 0.1 * 0.5 / 0.25, 0.4 + 0.2 * 0.75 / 0.25]
    assert prior.virtual_cost([0.1, 0.2, 0.4]) == pytest.approx(expected)
    assert not prior.ironed
    assert prior.virtual_cost([0.0, 0.05, 0.15, 0.3]) == pytest.approx(
        [expected[0], expected[0], expected[1], expected[2]]
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 10), min_size=1, max_size=30))
def test_ironed_samples_are_isotonic_regression(samples: list[float]) -> None:
    prior = SamplePrior(samples)
    values, counts = np.unique(samples, return_counts=True)
    shares = counts / counts.sum()
    below = np.cumsum(shares) - shares
    raw = values + np.diff(values, prepend=values[0]) * below / shares
    judge = isotonic_regression(raw, sample_weight=shares)
    assert prior.virtual_cost(values) == pytest.approx(judge, rel=1e-9, abs=1e-9)
    assert prior.ironed or (np.diff(raw) > -1e-8).all()


def test_many_samples_are_like_their_distribution() -> None:
    rng = np.random.default_rng(1)
    prior = SamplePrior(rng.random(200_000))
    reports = np.linspace(0.05, 0.95, 10)
    assert prior.ironed
    assert prior.virtual_cost(reports) == pytest.approx(2 * reports, rel=0.05)
    assert prior.draw(rng, (1000,)).mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([0.1, 1.2], r"report of client 1 = 1.2: must be from 0.0 to 1.0"),
        ([-0.1], r"report of client 0 = -0.1: must be a finite number >= 0"),
        ([0.5, np.nan], r"report of client 1 = nan"),
        ([0.5, None], r"report of client 1 = nan"),
        ([], "at least one"),
    ],
)
@pytest.mark.parametrize("source", [stats.uniform(0, 1), np.linspace(0, 1, 11)])
def test_bad_reports_are_refused(source: Any, reports: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_prior(source).virtual_cost(reports)


def test_reports_below_the_support_are_refused() -> None:
    with pytest.raises(ValueError, match=r"= 0.1: must be from 0.2 to 1.2, where the prior has"):
        make_prior(stats.uniform(0.2, 1)).virtual_cost([0.1])


def test_the_end_of_the_support_is_refused_where_the_density_vanishes() -> None:
    prior = make_prior(stats.beta(2, 2))
    assert np.isfinite(prior.virtual_cost([0.999])).all()
    with pytest.raises(ValueError, match="where the prior has a density"):
        prior.virtual_cost([1.0])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (stats.poisson(3), "prior = poisson: must be a frozen distribution with a density"),
        (stats.beta, "prior = beta: must be a frozen distribution with a density"),
        (stats.uniform(-2, 1), "c_max = -1.0: must be a finite number above 0.0"),
        ([], "samples of shape"),
        ([0.1, -0.3], "sample of client 1 = -0.3"),
        (
            stats.rv_histogram((np.array([1.0, 0.0, 1.0]), np.linspace(0, 1, 4)))(),
            "the prior has no density at 0.33",
        ),
    ],
)
def test_bad_priors_are_refused(source: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_prior(source)


@pytest.mark.parametrize("c_max", [0.0, -1.0, np.inf, np.nan])
def test_a_bad_end_is_refused(c_max: float) -> None:
    with pytest.raises(ValueError, match=r"c_max = .*: must be a finite number above 0.0"):
        make_prior(stats.expon(), c_max=c_max)
