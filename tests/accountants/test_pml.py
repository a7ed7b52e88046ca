"""Exact leakage. The judge is the enumeration of all profiles in `pml_plain_loops`."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.leakage import enumerated_leakage
from fedgame.accountants.pml import (
    bayes_log_gain,
    exact_leakage,
    individual_bayes_log_gain,
    individual_leakage,
    posterior,
)
from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior, table_prior
from tests.accountants import pml_plain_loops as plain
from tests.accountants.pml_settings import KINDS, random_prior, simulate

P1 = (plain.run_p1(), product_prior([[0.3, 0.7], [0.6, 0.4]]))
P2 = (plain.run_p2(), correlated_prior(3, 0.4, 0.7))


@pytest.mark.parametrize(("run", "prior"), [P1, P2], ids=["P1", "P2"])
def test_the_oracles(run: plain.PlainRun, prior: Prior) -> None:
    logs = run.logs[-1]
    assert float(exact_leakage(prior, logs)) == pytest.approx(run.values["leakage"], rel=1e-12)
    assert float(prior.log_evidence(logs)) == pytest.approx(run.values["evidence"], rel=1e-13)
    assert individual_leakage(prior, logs) == pytest.approx(run.individual, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0, 1000.0]))
def test_closed_forms_are_the_enumeration(
    kind: str, num_players: int, seed: int, size: float
) -> None:
    rng = np.random.default_rng(seed)
    prior, table = random_prior(kind, num_players, rng)
    logs = size * rng.standard_normal((prior.num_players, prior.num_types))
    evidence = plain.log_evidence(table, logs)
    rarest = min(p for p in table.values() if p > 0)
    assert float(exact_leakage(prior, logs)) <= -math.log(rarest) + 1e-11
    # 1e-9 relative in P(o) is 1e-9 in its logarithm
    assert float(prior.log_evidence(logs)) == pytest.approx(evidence, rel=1e-14, abs=1e-12)
    close = pytest.approx(plain.leakage(table, logs), rel=1e-9, abs=1e-12)
    assert float(exact_leakage(prior, logs)) == close
    found, marginals = individual_leakage(prior, logs), posterior(prior, logs)
    for i in range(prior.num_players):
        expected = plain.individual(table, logs, i)
        assert found[i] == pytest.approx(expected, rel=1e-9, abs=1e-11)
        for t in range(prior.num_types):
            mine = {f: p for f, p in table.items() if f[i] == t and p > 0}
            share = math.exp(plain.log_evidence(mine, logs) - evidence) if mine else 0.0
            assert marginals[i, t] == pytest.approx(share, rel=1e-9, abs=1e-300)


def test_the_benchmarks_enumeration_of_16_players_agrees() -> None:
    rng = np.random.default_rng(9)
    prior = product_prior(rng.dirichlet(np.ones(2), 16))
    logs = 5 * rng.standard_normal((16, 2))
    peer = pytest.approx(enumerated_leakage(prior, logs), rel=1e-11)
    assert float(exact_leakage(prior, logs)) == peer


@pytest.mark.parametrize("kind", KINDS)
def test_transcripts_are_independent_and_constants_do_not_matter(kind: str) -> None:
    rng = np.random.default_rng(1)
    prior, _ = random_prior(kind, 4, rng)
    logs = rng.standard_normal((3, 2, prior.num_players, prior.num_types))
    for measure in (exact_leakage, individual_leakage, posterior, bayes_log_gain):
        whole = measure(prior, logs)
        assert whole.shape[:2] == (3, 2)
        for index in np.ndindex(3, 2):
            assert whole[index] == pytest.approx(measure(prior, logs[index]), rel=1e-13)
        shifted = logs + 100 * rng.standard_normal((3, 2, prior.num_players, 1))
        assert measure(prior, shifted) == pytest.approx(whole, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_bayes_adversary_gains_no_more_than_the_leakage(kind: str) -> None:
    rng = np.random.default_rng(2)
    prior, table = random_prior(kind, 5, rng)
    logs = simulate(prior, 500, 12, rng, step=2.0).logs[:, -1]
    gains, singles = bayes_log_gain(prior, logs), individual_bayes_log_gain(prior, logs)
    assert (gains <= exact_leakage(prior, logs) + 1e-12).all()
    assert (singles <= individual_leakage(prior, logs) + 1e-12).all()
    assert gains.max() > 0.05
    blind = math.fsum(
        max(plain.marginal(table, i, t) for t in range(prior.num_types))
        for i in range(prior.num_players)
    )
    knowing = posterior(prior, logs[0]).max(axis=-1)
    assert gains[0] == pytest.approx(math.log(knowing.sum() / blind), rel=1e-12)
    single = max(plain.marginal(table, 1, t) for t in range(prior.num_types))
    assert singles[0, 1] == pytest.approx(math.log(knowing[1] / single), rel=1e-9, abs=1e-12)


def test_independent_players_leak_the_sum_and_correlated_ones_may_leak_more() -> None:
    """Remark 8 of the paper holds with equality for products and is false otherwise."""
    rng = np.random.default_rng(3)
    prior, _ = random_prior("product", 7, rng)
    logs = 3 * rng.standard_normal((100, 7, prior.num_types))
    total = individual_leakage(prior, logs).sum(axis=-1)
    assert exact_leakage(prior, logs) == pytest.approx(total, rel=1e-10)
    unlike = table_prior([[0.0465, 0.4535], [0.4535, 0.0465]])
    rare = np.array([[0.0, -7.0], [0.0, -7.0]])
    assert float(exact_leakage(unlike, rare)) == pytest.approx(3.05, abs=5e-3)
    assert individual_leakage(unlike, rare).sum() == pytest.approx(1.37, abs=5e-3)


@pytest.mark.parametrize("beta", [1e-3, 0.5, 0.999, 1e-70])
@pytest.mark.parametrize("num_players", [50, 200])
def test_200_correlated_players_do_not_overflow(num_players: int, beta: float) -> None:
    """Against the formula of eq. 8 in whole numbers of arbitrary size."""
    alpha, others = 0.3, num_players - 1
    prior = correlated_prior(num_players, alpha, beta)
    ups = np.random.default_rng(4).integers(0, 60, num_players)
    logs = np.stack([ups * math.log(2), np.zeros(num_players)], axis=-1)
    kappa = (1 - beta) / (2**others - 1)
    same = (2 ** int(ups[1:].sum()), 1)
    whole = math.prod(2 ** int(up) + 1 for up in ups[1:])
    parts = []
    for a, first in enumerate((alpha, 1 - alpha)):
        own = math.log(first) + logs[0, a]
        parts.append(own + math.log(beta) + math.log(same[a]))
        parts.append(own + math.log(kappa) + math.log(whole - same[a]))
    evidence = plain.log_sum_exp(parts)
    assert float(prior.log_evidence(logs)) == pytest.approx(evidence, rel=1e-12)
    leaked = float(logs[:, 0].sum()) - evidence
    assert float(exact_leakage(prior, logs)) == pytest.approx(leaked, rel=1e-10)
    extreme = np.stack([np.full(num_players, -1e6), np.full(num_players, 1e6)], axis=-1)
    for found in (exact_leakage(prior, extreme), individual_leakage(prior, extreme)):
        assert np.isfinite(found).all()


def test_ten_thousand_players_leak_the_sum_of_their_own() -> None:
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.ones(4), 10_000)
    logs = rng.standard_normal((10_000, 4))
    own = logs.max(axis=-1) - np.log((rows * np.exp(logs)).sum(axis=-1))
    prior = product_prior(rows)
    assert float(exact_leakage(prior, logs)) == pytest.approx(own.sum(), rel=1e-12)
    assert individual_leakage(prior, logs) == pytest.approx(own, rel=1e-8)


def test_nothing_leaks_where_all_types_behave_alike() -> None:
    prior = correlated_prior(4, 0.2, 0.9)
    logs = np.repeat(np.random.default_rng(6).standard_normal((4, 1)), 2, axis=1)
    assert float(exact_leakage(prior, logs)) == pytest.approx(0, abs=1e-15)
    assert individual_leakage(prior, logs) == pytest.approx(np.zeros(4), abs=1e-15)


def test_a_type_outside_the_support_says_nothing() -> None:
    narrow, wide = product_prior([[0.4, 0.6]]), product_prior([[0.4, 0.6, 0.0]])
    logs = np.array([[0.3, -1.0, 900.0]])
    expected = float(exact_leakage(narrow, logs[:, :2]))
    assert float(exact_leakage(wide, logs)) == pytest.approx(expected, rel=1e-12)
    assert posterior(wide, logs)[0, 2] == 0


@pytest.mark.parametrize(
    ("logs", "message"),
    [
        (np.zeros((2, 3)), r"shape \(2, 3\): the last two axes must be .* = \(2, 2\)"),
        (np.zeros(2), r"shape \(2,\)"),
        (np.array([[0.0, 1.0], [math.nan, 0.0]]), r"at \(1, 0\) = nan: must be finite"),
        (np.array([[0.0, math.inf], [0.0, 0.0]]), r"at \(0, 1\) = inf: must be finite"),
    ],
)
def test_wrong_likelihoods_are_refused(logs: plain.Array, message: str) -> None:
    prior = product_prior([[0.3, 0.7], [0.6, 0.4]])
    for measure in (exact_leakage, individual_leakage, posterior):
        with pytest.raises(ValueError, match=message):
            measure(prior, logs)
