"""Lemma 5 of the paper as corrected, against exact leakage on its construction."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgame.accountants.pml import exact_leakage, individual_leakage
from fedgame.accountants.pml_bounds import (
    Bound,
    ceiling,
    group_dp,
    individual_ceiling,
    individual_dp,
)
from fedgame.accountants.pml_distances import closed_form, message_distances
from fedgame.accountants.pml_individual import lemma_5_limit, lemma_5_lower, lemma_5_upper
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior
from tests.accountants import pml_plain_loops as plain
from tests.accountants.pml_settings import KINDS, random_prior, simulate


def _alike(num_players: int, epsilon: float) -> plain.Array:
    """Equal messages of players who start alike: the same log-likelihood ratio for each."""
    return np.tile([epsilon, 0.0], (num_players, 1))


def _group(value: float) -> Bound:
    return Bound("group DP", np.asarray(value), closed_form("by construction"))


def test_the_papers_formula_is_no_lower_bound_and_this_one_is_the_leakage() -> None:
    exact = plain.individual(plain.correlated_table(3, 0.3, 0.2), _alike(3, 1.0), 0)
    assert math.exp(exact) == pytest.approx(1.6896, abs=5e-5)
    found = lemma_5_lower(3, 0.3, 0.2, 1.0)
    assert float(found.value) == pytest.approx(exact, rel=1e-12)
    assert found.source.covers == "this transcript"


@pytest.mark.parametrize("beta", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("num_players", [2, 5, 30, 200, 2000])
def test_lower_bound_supremum_and_upper_bound(
    num_players: int, epsilon: float, beta: float
) -> None:
    """The supremum over transcripts whose log-likelihood ratios are anywhere in [-eps, eps]."""
    alpha, rng = 0.2, np.random.default_rng(0)
    prior = correlated_prior(num_players, alpha, beta)
    lower = lemma_5_lower(num_players, alpha, beta, epsilon).value
    attained = individual_leakage(prior, _alike(num_players, epsilon))[0]
    assert attained == pytest.approx(float(lower), rel=1e-9)
    ratios = rng.uniform(-epsilon, epsilon, (100, num_players))
    ratios[:50] = epsilon * np.sign(ratios[:50])
    others = individual_leakage(prior, np.stack([ratios, np.zeros_like(ratios)], axis=-1))[:, 0]
    upper = lemma_5_upper(prior, _group(num_players * epsilon)).value[0]
    supremum = max(attained, others.max())
    assert lower <= supremum + 1e-12
    assert supremum <= upper + 1e-12
    assert upper <= -math.log(alpha) + 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_upper_bound_holds_for_every_prior(kind: str) -> None:
    rng = np.random.default_rng(1)
    prior, table = random_prior(kind, 4, rng)
    runs = simulate(prior, 500, 6, rng)
    group = group_dp(prior, message_distances(runs.messages, runs.scales))
    found = lemma_5_upper(prior, group)
    assert found.value.shape == (500, 6, 4)
    assert (individual_leakage(prior, runs.logs) <= found.value + 1e-10).all()
    assert found.source == group.source
    marginals = [plain.marginal(table, 1, t) for t in range(prior.num_types)]
    least = min(p for p in marginals if p > 0)
    expected = -math.log((1 - least) * math.exp(-group.value[3, 5]) + least)
    assert found.value[3, 5, 1] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_correlation_carries_one_players_leakage_past_its_dp_as_players_grow() -> None:
    """Figure 4 of the paper: DP stays, leakage rises to log 1/alpha."""
    alpha, beta, epsilon = 0.1, 0.5, 0.4
    sizes = (2, 5, 10, 30, 100, 200)
    leaked = [
        float(individual_leakage(correlated_prior(n, alpha, beta), _alike(n, epsilon))[0])
        for n in sizes
    ]
    assert leaked == sorted(leaked)
    assert leaked[0] < 2 * epsilon < leaked[2]
    assert leaked[-1] == pytest.approx(-math.log(alpha), abs=1e-6)
    prior = correlated_prior(200, alpha, beta)
    whole = float(exact_leakage(prior, _alike(200, epsilon)))
    assert leaked[-1] <= whole <= float(ceiling(prior).value)


def test_it_passes_the_dp_of_a_player_along_transcripts_too() -> None:
    """The more others there are to tell player 0's type, the more leaks; 200 do not overflow."""
    leaked, bounds = [], []
    for num_players in (2, 10, 50, 200):
        prior = correlated_prior(num_players, 0.1, 0.5)
        runs = simulate(prior, 200, 4, np.random.default_rng(4))
        dp = individual_dp(prior, message_distances(runs.messages, runs.scales))
        assert dp.source.rigorous == prior.is_product
        found = individual_leakage(prior, runs.logs)
        assert (found <= individual_ceiling(prior).value + 1e-10).all()
        leaked.append(float(found[:, -1, 0].max()))
        bounds.append(float(dp.value[:, -1, 0].max()))
        # the same runs, had the types been independent
        alone = product_prior(np.exp(prior.log_marginals))
        assert (individual_leakage(alone, runs.logs) <= dp.value + 1e-10).all()
    assert leaked == sorted(leaked)
    assert leaked[0] < 0.5 * bounds[0]
    assert leaked[-1] > 1.5 * bounds[-1]
    assert leaked[-1] == pytest.approx(-math.log(0.1), abs=1e-2)


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.1, 0.5), (0.4, 2.0)])
def test_the_limit_depends_on_how_beta_falls(alpha: float, epsilon: float) -> None:
    critical = (1 + math.exp(-epsilon)) / 2
    for decay, own in ((1.0, False), ((1 + critical) / 2, False), (0.8 * critical, True)):
        limit = float(lemma_5_limit(alpha, epsilon, decay).value)
        far = lemma_5_lower(600, alpha, 0.5 * decay**600, epsilon)
        assert float(far.value) == pytest.approx(limit, rel=1e-3)
        alone = -math.log((1 - alpha) * math.exp(-epsilon) + alpha)
        assert limit == pytest.approx(alone if own else -math.log(alpha))
    assert "outweighs" in lemma_5_limit(alpha, epsilon).source.text
    with pytest.raises(ValueError, match=r"must differ from \(1 \+ exp\(-epsilon\)\) / 2"):
        lemma_5_limit(alpha, epsilon, critical)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((1, 0.3, 0.5, 1.0), "num_players = 1: must be at least 2"),
        ((3, 0.5, 0.5, 1.0), r"alpha = 0\.5: must be between 0 and 1/2"),
        ((3, 0.3, 1.0, 1.0), r"beta = 1\.0: must be between 0 and 1"),
        ((3, 0.3, 0.5, 0.0), r"epsilon = 0\.0: must be finite and > 0"),
        ((3, 0.3, 0.5, math.inf), "epsilon = inf"),
    ],
)
def test_arguments_out_of_range_are_refused(
    values: tuple[int, float, float, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        lemma_5_lower(*values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.6, 1.0, 1.0), r"alpha = 0\.6"),
        ((0.3, 1.0, 0.0), r"decay = 0\.0: must be above 0"),
        ((0.3, 1.0, 1.1), r"decay = 1\.1"),
    ],
)
def test_limits_out_of_range_are_refused(values: tuple[float, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lemma_5_limit(*values)
