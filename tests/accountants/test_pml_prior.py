"""Priors on profiles. The judge is a dictionary of all profiles, made without them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import (
    correlated_prior,
    product_prior,
    table_prior,
    tabulated,
)
from tests.accountants import pml_plain_loops as plain
from tests.accountants.pml_settings import KINDS, random_prior


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10**6))
def test_probabilities_marginals_and_supports(kind: str, num_players: int, seed: int) -> None:
    prior, table = random_prior(kind, num_players, np.random.default_rng(seed))
    for f, p in table.items():
        if p > 0:
            found = float(prior.log_probability(np.array(f)))
            assert found == pytest.approx(math.log(p), rel=1e-12, abs=1e-13)
    assert sum(table.values()) == pytest.approx(1)
    for i in range(prior.num_players):
        for t in range(prior.num_types):
            p = plain.marginal(table, i, t)
            assert np.exp(prior.log_marginals[i, t]) == pytest.approx(p, rel=1e-12)
            assert prior.support[i, t] == (p > 0)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10**6))
def test_maxima_sums_and_floors(kind: str, num_players: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior, table = random_prior(kind, num_players, rng)
    players, types = prior.num_players, prior.num_types
    logs = 3 * rng.standard_normal((players, types))
    kernel = rng.standard_normal((players, types, types))
    possible = [f for f, p in table.items() if p > 0]
    top, joint = prior.max_by_type(logs), prior.log_joint_by_type(logs)
    for i in range(players):
        for t in range(types):
            mine = {f: table[f] for f in possible if f[i] == t}
            if not mine:
                assert top[i, t] == joint[i, t] == -np.inf
                continue
            best = max(plain.log_likelihood(logs, f) for f in mine)
            assert top[i, t] == pytest.approx(best, rel=1e-12, abs=1e-12)
            assert joint[i, t] == pytest.approx(plain.log_evidence(mine, logs), abs=1e-11)
    # with K(s, t) for the profile s that is fixed, the mean over f is an evidence
    means = [plain.log_evidence(table, kernel[range(players), list(f)]) for f in possible]
    floor = float(prior.log_floor(kernel))
    assert floor <= min(means) + 1e-12
    if prior.floor_is_exact:
        assert floor == pytest.approx(min(means), abs=1e-12)
    exact = tabulated(prior)
    assert exact.floor_is_exact
    assert float(exact.log_floor(kernel)) == pytest.approx(min(means), abs=1e-12)
    # where K(s, t) = L(t) / L(s), the floor of every prior is exact
    ratio = logs[:, None, :] - logs[:, :, None]
    assert float(prior.log_floor(ratio)) == pytest.approx(-plain.leakage(table, logs), abs=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_probability(kind: str) -> None:
    for seed in range(20):
        prior, table = random_prior(kind, 4, np.random.default_rng(seed))
        smallest = math.log(min(p for p in table.values() if p > 0))
        assert prior.log_smallest <= smallest + 1e-12
        if kind != "mixture":
            assert prior.log_smallest == pytest.approx(smallest, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_the_prior(kind: str) -> None:
    rng = np.random.default_rng(7)
    prior, table = random_prior(kind, 3, rng)
    count = 20_000
    profiles, seen = np.unique(prior.draw(rng, count), axis=0, return_counts=True)
    shares = {tuple(f): n / count for f, n in zip(profiles.tolist(), seen.tolist(), strict=True)}
    for f, p in table.items():
        assert abs(shares.get(f, 0.0) - p) <= 5 * math.sqrt(p * (1 - p) / count)
    assert (
        prior.draw(np.random.default_rng(8), 9) == prior.draw(np.random.default_rng(8), 9)
    ).all()


def test_equal_probabilities_of_the_correlated_prior_are_one_product() -> None:
    """beta = kappa = 2^-(N-1): nothing is left for a second component."""
    prior = correlated_prior(3, 0.25, 0.25)
    assert prior.is_product
    assert prior.probabilities[0].tolist() == [[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]]


def test_components_of_no_weight_are_dropped() -> None:
    rows = np.array([[[0.5, 0.5]], [[1.0, 0.0]]])
    assert Prior(np.array([1.0, 0.0]), rows).is_product


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: product_prior([[0.5, 0.5], [0.3, 0.6]]),
         r"^prior of player 1 = \[0\.3, 0\.6\]: must be >= 0 and sum to 1, not 0\.9$"),
        (lambda: Prior(np.full(2, 0.5), np.array([[[0.5, 0.5]], [[0.5, 0.4]]])),
         r"^prior of component 1, player 0 = \[0\.5, 0\.4\]"),
        (lambda: product_prior([[1.5, -0.5]]), r"player 0 = \[1\.5, -0\.5\]: must be >= 0"),
        (lambda: product_prior([[math.nan, 1.0]]), r"player 0 = \[nan, 1\.0\]"),
        (lambda: product_prior([0.5, 0.5]), r"shape \(2,\): must be \(players, types\)"),
        (lambda: Prior(np.array([0.5, 0.6]), np.full((2, 1, 2), 0.5)),
         r"weights = \[0\.5, 0\.6\]: must be >= 0 and sum to 1, not 1\.1"),
        (lambda: Prior(np.ones(1), np.full((2, 1, 2), 0.5)), r"\(2, 1, 2\) for weights .* \(1,\)"),
        (lambda: Prior(np.ones(1), np.zeros((1, 0, 2))), r"\(1, 0, 2\)"),
        (lambda: correlated_prior(1, 0.3, 0.5), "num_players = 1: .* at least 2"),
        (lambda: correlated_prior(3, 0.0, 0.5), r"alpha = 0\.0: must be between 0 and 1"),
        (lambda: correlated_prior(3, 0.3, 1.0), r"beta = 1\.0: must be between 0 and 1"),
        (lambda: correlated_prior(3, math.nan, 0.5), "alpha = nan"),
        (lambda: table_prior([[0.5, 0.4], [0.0, 0.0]]), r"sum to 1, not 0\.9"),
        (lambda: table_prior([[1.1, -0.1], [0.0, 0.0]]), "must be >= 0"),
        (lambda: table_prior([[0.5, 0.5]]), r"shape \(1, 2\): must be \(types, ..\)"),
        (lambda: table_prior(np.full((2,) * 13, 2.0**-13)), "8192 profiles above 0: at most 4096"),
        (lambda: tabulated(correlated_prior(13, 0.3, 0.5)), r"8\.19e\+03 profiles: at most 4096"),
    ],
)  # fmt: skip
def test_what_is_no_prior_is_refused_in_one_line(make: Callable[[], Prior], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_rounding_in_the_sum_is_forgiven_and_removed() -> None:
    prior = product_prior([[0.1 + 1e-12, 0.9]])
    assert prior.probabilities.sum() == 1


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ([0, 2], r"type of player 1 = 2: must be one of \[0, 1\], to which the prior gives"),
        ([-1, 0], r"type of player 0 = -1: must be one of \[0, 1\]"),
        ([[0, 1], [1, 1]], r"profile = \[1, 1\]: the prior gives it probability 0"),
        ([0, 0, 0], r"shape \(3,\) .* must be whole numbers of shape \(..., 2\)"),
        ([0.0, 1.0], "kind float64: must be whole numbers"),
    ],
)
def test_types_outside_the_support_are_refused(profile: list[int], message: str) -> None:
    prior = table_prior([[0.5, 0.2, 0.0], [0.3, 0.0, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=message):
        prior.log_probability(profile)
