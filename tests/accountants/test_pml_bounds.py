"""Bounds on leakage: their order along many transcripts, enumeration, and the paper's mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgame.accountants.pml import exact_leakage, individual_leakage
from fedgame.accountants.pml_bounds import (
    ceiling,
    composition,
    corollary_1,
    corollary_2,
    fixed_prior_composition,
    group_dp,
    individual_ceiling,
    individual_dp,
    theorem_1,
)
from fedgame.accountants.pml_distances import (
    REALISED,
    bounded_distances,
    closed_form,
    gradient_sensitivities,
    message_distances,
    sampled,
)
from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import (
    correlated_prior,
    product_prior,
    table_prior,
    tabulated,
)
from tests.accountants import pml_plain_loops as plain
from tests.accountants.pml_settings import KINDS, random_prior, simulate, the_oracles

SLACK = 1e-10


@the_oracles
def test_the_oracles_of_theorem_1(run: plain.PlainRun, prior: Prior) -> None:
    found = theorem_1(prior, message_distances(run.messages, run.scales))
    assert found.value[-1] == pytest.approx(run.values["theorem 1"], rel=1e-12)
    assert found.source == REALISED


@pytest.mark.parametrize("kind", KINDS)
def test_theorem_1_is_the_enumeration_and_bounded_safely_where_it_does_not_separate(
    kind: str,
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(15):
        prior, table = random_prior(kind, 4, rng)
        runs = simulate(prior, 1, 5, rng)
        gaps = message_distances(runs.messages[0], runs.scales)
        expected = [plain.theorem_1(table, d) for d in np.cumsum(gaps, axis=0)]
        exact = theorem_1(tabulated(prior), gaps)
        assert exact.value == pytest.approx(expected, rel=1e-10, abs=1e-12)
        safe = theorem_1(prior, gaps)
        assert (safe.value >= exact.value - SLACK).all()
        assert ("in each component" in safe.source.text) == (not prior.floor_is_exact)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_bounds_along_1000_transcripts(kind: str) -> None:
    rng = np.random.default_rng(1)
    prior, _ = random_prior(kind, 4 if kind == "table" else 5, rng)
    runs = simulate(prior, 1000, 8, rng, step=0.5)
    gaps = message_distances(runs.messages, runs.scales)
    exact = exact_leakage(prior, runs.logs)
    first, corollary = theorem_1(prior, gaps).value, corollary_1(prior, gaps).value
    assert first.shape == exact.shape == (1000, 8)
    assert (exact <= first + SLACK).all()
    assert (first <= corollary + SLACK).all()
    assert (corollary <= corollary_2(prior, gaps).value + SLACK).all()
    assert (first <= group_dp(prior, gaps).value + SLACK).all()
    assert (exact <= composition(prior, runs.logs, gaps).value + SLACK).all()
    assert (exact <= ceiling(prior).value + SLACK).all()
    assert (individual_leakage(prior, runs.logs) <= individual_ceiling(prior).value + SLACK).all()
    # the order is not one of zeros, nor of equal numbers
    assert np.median(first[:, -1]) > 1.1 * np.median(exact[:, -1]) > 0.1
    assert np.median(group_dp(prior, gaps).value[:, -1]) > 1.1 * np.median(first[:, -1])


def test_bounds_are_plain_sums_and_means() -> None:
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.ones(3), 4)
    prior = product_prior(rows)
    d = message_distances(rng.standard_normal((6, 4, 3, 2)), rng.uniform(1, 2, 6))
    first, second, third, fourth, fifth = 0.0, 0.0, 0.0, [], 0.0
    for i in range(4):
        whole, largest = d[:, i].sum(axis=0), d[:, i].max(axis=-1).sum(axis=0)
        first += max(-math.log(sum(rows[i] * np.exp(-whole[t]))) for t in range(3))
        second -= math.log(sum(rows[i] * np.exp(-largest)))
        third += d[:, i].max(axis=(-2, -1)).sum()
        fourth.append(whole.max())
        fifth += sum(
            max(-math.log(sum(rows[i] * np.exp(-d[k, i, t]))) for t in range(3)) for k in range(6)
        )
    assert theorem_1(prior, d).value[-1] == pytest.approx(first, rel=1e-12)
    assert corollary_1(prior, d).value[-1] == pytest.approx(second, rel=1e-12)
    assert corollary_2(prior, d).value[-1] == pytest.approx(third, rel=1e-12)
    assert individual_dp(prior, d).value[-1] == pytest.approx(fourth, rel=1e-12)
    assert group_dp(prior, d).value[-1] == pytest.approx(4 * max(fourth), rel=1e-12)
    assert fixed_prior_composition(prior, d).value[-1] == pytest.approx(fifth, rel=1e-12)


def _two_halves() -> tuple[Prior, plain.Array, plain.Array]:
    """One player of type (a, b): message 1 shows a, message 2 shows b, and each is a, or b."""
    prior = product_prior([[0.1, 0.4, 0.4, 0.1]])
    messages = np.array([[1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 1.0, 2.0]])[:, None, :, None]
    logs = np.cumsum(-np.abs(1.0 - messages[..., 0]) / 0.2, axis=0)
    return prior, logs, message_distances(messages, 0.2)


def test_composition_needs_the_posterior() -> None:
    """Remark 5 of the paper, with the fixed prior, states 1.37 where 2.25 leak."""
    prior, logs, gaps = _two_halves()
    leaked = exact_leakage(prior, logs)[-1]
    assert leaked == pytest.approx(2.25, abs=5e-3)
    claim = fixed_prior_composition(prior, gaps)
    assert claim.value[-1] == pytest.approx(1.37, abs=5e-3)
    assert not claim.source.rigorous
    assert "no bound" in claim.source.text
    sound = composition(prior, logs, gaps)
    assert sound.value[-1] == pytest.approx(leaked, rel=1e-12)
    assert sound.source.rigorous
    with pytest.raises(ValueError, match=r"distances of shape \(2, 1, 4, 4\) for likelihoods of"):
        composition(prior, logs[:1], gaps)


def test_composition_is_theorem_1_of_each_message_under_the_posterior() -> None:
    rng = np.random.default_rng(3)
    prior, table = random_prior("table", 3, rng)
    runs = simulate(prior, 1, 4, rng)
    gaps, total = message_distances(runs.messages[0], runs.scales), 0.0
    for k in range(4):
        before = runs.before[0, k]
        evidence = plain.log_evidence(table, before)
        updated = {
            f: p * math.exp(plain.log_likelihood(before, f) - evidence) for f, p in table.items()
        }
        total += plain.theorem_1(updated, gaps[k])
        found = composition(prior, runs.logs[0], gaps).value[k]
        assert found == pytest.approx(total, rel=1e-10, abs=1e-12)


def test_one_players_dp_bounds_its_leakage_unless_types_are_correlated() -> None:
    rng = np.random.default_rng(4)
    independent = product_prior(rng.dirichlet(np.ones(2), 20))
    runs = simulate(independent, 200, 6, rng)
    gaps = message_distances(runs.messages, runs.scales)
    found = individual_dp(independent, gaps)
    assert (individual_leakage(independent, runs.logs) <= found.value + SLACK).all()
    assert found.source.rigorous
    correlated = correlated_prior(20, 0.1, 0.8)
    runs = simulate(correlated, 200, 6, rng)
    gaps = message_distances(runs.messages, runs.scales)
    found = individual_dp(correlated, gaps)
    assert (individual_leakage(correlated, runs.logs) > found.value + 0.1).any()
    assert not found.source.rigorous
    assert "no bound on the leakage of correlated types" in found.source.text
    # what bounds the profile does not suffer from it
    assert group_dp(correlated, gaps).source.rigorous


@pytest.mark.parametrize("kind", ["product", "correlated", "mixture"])
def test_closed_forms_bound_every_transcript(kind: str) -> None:
    """Constant gradients of at most .5, steps that fall: rule `ye` without projection."""
    rng = np.random.default_rng(5)
    prior, _ = random_prior(kind, 4, rng)
    steps, scales = 0.6 * 0.9 ** np.arange(6), np.linspace(1, 2, 6)
    gradients = np.append([-0.5, 0.5], rng.uniform(-0.5, 0.5, prior.num_types))[: prior.num_types]
    moves = np.append(0.0, steps[:-1])[:, None] * -gradients
    gaps = message_distances(
        np.broadcast_to(moves[:, None, :, None], (6, 4, prior.num_types, 1)), scales
    )
    source = closed_form("every gradient is at most 0.5")
    limits = bounded_distances(gradient_sensitivities(steps, 0.5, "ye"), scales, 4, prior.num_types)
    assert (gaps <= limits + 1e-12).all()
    for bound in (theorem_1, corollary_1, corollary_2, group_dp):
        for_all = bound(prior, limits, source)
        assert (for_all.value >= bound(prior, gaps).value - SLACK).all()
        assert (for_all.source.rigorous, for_all.source.covers) == (True, "every transcript")
    # the profile's Corollary 2 is N times the paper's 2 lr C/M of one player
    single = np.cumsum(2 * np.append(0.0, steps[:-1]) * 0.5 / scales)
    assert corollary_2(prior, limits, source).value == pytest.approx(4 * single, rel=1e-12)


def test_an_estimate_stays_an_estimate() -> None:
    prior = correlated_prior(3, 0.3, 0.6)
    runs = simulate(prior, 50, 4, np.random.default_rng(6))
    worst = message_distances(runs.messages, runs.scales).max(axis=0)
    for bound in (theorem_1, corollary_1, corollary_2, group_dp):
        found = bound(prior, worst, sampled(50))
        assert not found.source.rigorous
        assert "50 sampled transcripts" in found.source.text


def test_types_that_a_player_cannot_have_do_not_count() -> None:
    rng = np.random.default_rng(7)
    far = 100 * rng.standard_normal((3, 1, 3, 1))
    near = far[:, :, :2]
    wide, narrow = product_prior([[0.4, 0.6, 0.0]]), product_prior([[0.4, 0.6]])
    for bound in (theorem_1, corollary_1, corollary_2, group_dp, fixed_prior_composition):
        found = bound(wide, message_distances(far, 50.0)).value
        assert found == pytest.approx(bound(narrow, message_distances(near, 50.0)).value, rel=1e-12)


def test_ceilings() -> None:
    prior = table_prior([[0.5, 0.2], [0.3, 0.0]])
    assert float(ceiling(prior).value) == pytest.approx(math.log(5))
    expected = [math.log(1 / 0.3), math.log(1 / 0.2)]
    assert individual_ceiling(prior).value == pytest.approx(expected)
    found = ceiling(correlated_prior(200, 0.3, 0.5))
    assert float(found.value) == pytest.approx(-math.log(0.3 * 0.5) + 199 * math.log(2), rel=1e-12)
    assert found.source.rigorous


@pytest.mark.parametrize("shape", [(3, 2, 2), (5, 3, 2, 3), (5, 4, 2, 2)])
def test_distances_must_fit_the_prior(shape: tuple[int, ...]) -> None:
    prior = product_prior(np.full((3, 2), 0.5))
    for bound in (theorem_1, corollary_1, corollary_2, group_dp, fixed_prior_composition):
        with pytest.raises(ValueError, match=r"must be \(.., iterations, players, types, types\)"):
            bound(prior, np.zeros(shape))
