"""The Bayes-optimal adversary against enumeration, and against what leaks."""

from __future__ import annotations

import numpy as np
import pytest

from fedgame.accountants.pml import exact_leakage, individual_leakage
from fedgame.accountants.pml_prior_forms import product_prior
from fedgame.audits.bayes import bayes_guess
from fedgame.games.aggregative.likelihood import log_likelihoods, trajectories
from tests.audits.cases import KINDS, profile_log_densities, random_run


@pytest.mark.parametrize("kind", KINDS)
def test_posterior_and_gains_are_those_of_enumeration(kind: str) -> None:
    run = random_run(1, kind)
    v = trajectories(run.dynamics, run.transcript.messages)
    parts = run.transcript
    logs = log_likelihoods(parts.messages, v, parts.scales, parts.sent)
    found = bayes_guess(run.prior, logs)
    profiles, densities = profile_log_densities(run)
    before = np.exp(run.prior.log_probability(profiles))
    joint = before[:, None] * np.exp(densities - densities.max())
    after = joint / joint.sum(axis=0)
    of_type = profiles[..., None] == np.arange(2)
    posterior = np.einsum("fk,fit->kit", after, of_type)
    prior = np.einsum("f,fit->it", before, of_type)
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-12)
    np.testing.assert_array_equal(found.guesses, posterior.argmax(axis=-1))
    hits = posterior.max(axis=-1), prior.max(axis=-1)
    np.testing.assert_allclose(
        found.log_gain, np.log(hits[0].sum(axis=-1) / hits[1].sum()), atol=1e-12
    )
    np.testing.assert_allclose(found.individual_log_gain, np.log(hits[0] / hits[1]), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_log_gain_is_at_most_the_leakage_run_by_run(kind: str) -> None:
    gains = []
    for seed in range(60):
        run = random_run(seed, kind)
        v = trajectories(run.dynamics, run.transcript.messages)
        parts = run.transcript
        logs = log_likelihoods(parts.messages, v, parts.scales, parts.sent)
        found = bayes_guess(run.prior, logs)
        assert (found.log_gain <= exact_leakage(run.prior, logs) + 1e-12).all()
        assert (found.individual_log_gain <= individual_leakage(run.prior, logs) + 1e-12).all()
        gains.append(found.log_gain[-1])
    assert np.mean(gains) > 0.05


def test_its_probabilities_are_calibrated() -> None:
    """Over many transcripts it is right as often as it expects to be."""
    rng = np.random.default_rng(0)
    prior = product_prior([[0.3, 0.7], [0.5, 0.5]])
    types = prior.draw(rng, 20_000)
    means = np.array([0.0, 1.0])
    messages = types + rng.laplace(size=types.shape)
    found = bayes_guess(prior, -np.abs(messages[..., None] - means))
    np.testing.assert_allclose(
        found.share_right(types), found.posterior.max(axis=-1).mean(axis=0), atol=0.015
    )
    true = found.true_type_probability(types)
    np.testing.assert_array_equal(true > 0.5, found.guesses == types)
    np.testing.assert_allclose(
        true[0], [found.posterior[0, player, types[0, player]] for player in range(2)]
    )
