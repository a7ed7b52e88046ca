"""The audit of transcripts: known values, enumeration, order of bounds, and edges."""

from __future__ import annotations

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior
from fedgame.audits import transcript_bounds
from fedgame.audits.bayes import bayes_guess
from fedgame.audits.gradient_matching import GradientMatching
from fedgame.audits.transcript import TranscriptAudit, audit_transcript
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.graphs import CompleteGraph
from fedgame.games.aggregative.likelihood import final_log_likelihoods
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.transcript import Transcript
from fedgame.randomness import public_generator
from tests.audits.cases import KINDS, Run, hidden, profile_log_densities, random_run
from tests.games.aggregative.cases import Example, three_players, two_players

P1 = (two_players(), product_prior([[0.3, 0.7], [0.6, 0.4]]), 0.9028663060063089)
P2 = (three_players(), correlated_prior(3, 0.4, 0.7), 2.937658962387078)

RIGOROUS = ("Theorem 1", "Corollary 1", "Corollary 2", "composition", "group DP")


def audited(run: Run) -> TranscriptAudit:
    return audit_transcript(run.transcript, run.dynamics, run.prior, run.types)


def value(audit: TranscriptAudit, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    (found,) = (bound for bound in audit.bounds if bound.name == name)
    return found.value


def everything_sent(dynamics: Dynamics, messages: object) -> Transcript:
    o = np.asarray(messages)
    scales = np.repeat(dynamics.schedules.noise[: len(o), None], o.shape[1], axis=1)
    return Transcript(o, scales, np.ones(scales.shape, dtype=bool))


@pytest.mark.parametrize(("example", "prior", "theorem"), [P1, P2], ids=["P1", "P2"])
def test_known_values(example: Example, prior: Prior, theorem: float) -> None:
    transcript = everything_sent(example.dynamics, example.transcript)
    found = audit_transcript(transcript, example.dynamics, prior, None)
    assert found.leakage[-1] == pytest.approx(example.leakage, abs=1e-13)
    np.testing.assert_allclose(found.individual_leakage[-1], example.individual, atol=1e-13)
    assert value(found, "Theorem 1")[-1] == pytest.approx(theorem, abs=1e-12)
    assert found.leakage[0] == pytest.approx(0, abs=1e-12)
    assert found.outcome is None
    logs = final_log_likelihoods(example.dynamics, transcript.messages, transcript.scales)
    assert prior.log_evidence(logs) == pytest.approx(example.log_probability, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_leakage_is_that_of_enumeration(kind: str, seed: int) -> None:
    """With messages that were not sent, and a scale for each message."""
    run = random_run(seed, kind)
    found = audited(run)
    profiles, logs = profile_log_densities(run)
    before = np.exp(run.prior.log_probability(profiles))
    top = logs.max(axis=0)
    evidence = top + np.log(before @ np.exp(logs - top))
    np.testing.assert_allclose(found.leakage, top - evidence, atol=1e-10)
    for player in range(run.prior.num_players):
        parts = []
        for kind_ in range(2):
            chosen = profiles[:, player] == kind_
            share = before[chosen] / before[chosen].sum()
            parts.append(top + np.log(share @ np.exp(logs[chosen] - top)))
        expected = np.max(parts, axis=0) - evidence
        np.testing.assert_allclose(found.individual_leakage[:, player], expected, atol=1e-10)
    after = before * np.exp(logs[:, -1] - evidence[-1])
    posterior = np.einsum("f,fit->it", after, profiles[..., None] == np.arange(2))
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-10)
    np.testing.assert_array_equal(found.guesses, posterior.argmax(axis=-1))
    assert found.outcome is not None
    true = posterior[np.arange(len(posterior)), run.types]
    np.testing.assert_allclose(found.outcome.true_type_probability, true, atol=1e-10)
    assert found.ceiling.value == pytest.approx(-np.log(before.min()))


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_keep_their_order(kind: str) -> None:
    for seed in range(12):
        run = random_run(seed, kind)
        found = audit_transcript(run.transcript, run.dynamics, run.prior, None)
        chain = ["Theorem 1", "Corollary 1", "Corollary 2"]
        values = [found.leakage, *(value(found, name) for name in chain)]
        for lower, upper in itertools.pairwise(values):
            assert (lower <= upper + 1e-9).all()
        assert (values[1] <= value(found, "group DP") + 1e-9).all()
        assert (found.leakage <= value(found, "composition") + 1e-9).all()
        assert (found.leakage <= found.ceiling.value + 1e-9).all()
        assert (found.bayes_log_gain <= found.leakage + 1e-9).all()
        assert (found.individual_bayes_log_gain <= found.individual_leakage + 1e-9).all()
        assert (found.individual_leakage <= found.individual_ceiling.value + 1e-9).all()
        assert (found.individual_leakage <= value(found, "Lemma 5 (1)") + 1e-9).all()
        if kind == "product":
            assert (found.individual_leakage <= value(found, "DP of one player") + 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_sources_say_what_bounds_are_worth(kind: str) -> None:
    found = audited(random_run(1, kind))
    names = [bound.name for bound in found.bounds]
    assert len(set(names)) == len(names)
    sources = {bound.name: bound.source for bound in found.bounds}
    for name in RIGOROUS:
        assert sources[name].rigorous
        assert sources[name].covers == "this transcript"
    assert not sources["Remark 5"].rigorous
    assert sources["DP of one player"].rigorous == (kind == "product")
    for name, source in sources.items():
        assert (source.covers == "every transcript") == name.endswith(", every transcript")


@pytest.mark.parametrize("kind", KINDS)
def test_stretches_do_not_change_the_numbers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = random_run(2, kind, iterations=7)
    whole = audited(run)
    monkeypatch.setattr(transcript_bounds, "BLOCK_NUMBERS", 1)
    cut = audited(run)
    for name in ("leakage", "individual_leakage", "bayes_log_gain", "individual_bayes_log_gain"):
        np.testing.assert_allclose(getattr(cut, name), getattr(whole, name), atol=1e-12)
    np.testing.assert_allclose(cut.posterior, whole.posterior, atol=1e-12)
    for bound, other in zip(cut.bounds, whole.bounds, strict=True):
        assert (bound.name, bound.source) == (other.name, other.source)
        np.testing.assert_allclose(bound.value, other.value, atol=1e-10)


def test_the_same_arguments_give_the_same_numbers() -> None:
    run = random_run(3, "correlated")
    first, second = audited(run), audited(run)
    assert first.outcome is not None
    assert second.outcome is not None
    for one, other in ((first, second), (first.outcome, second.outcome)):
        for field in fields(one):
            pair = getattr(one, field.name), getattr(other, field.name)
            if isinstance(pair[0], np.ndarray):
                np.testing.assert_array_equal(*pair)
    for one_bound, other_bound in zip(first.bounds, second.bounds, strict=True):
        np.testing.assert_array_equal(one_bound.value, other_bound.value)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_sent_says_nothing(kind: str) -> None:
    run = random_run(4, kind)
    parts = run.transcript
    empty = Transcript(parts.messages[:0], parts.scales[:0], parts.sent[:0])
    found = audit_transcript(empty, run.dynamics, run.prior, run.types)
    players = run.prior.num_players
    assert found.leakage.shape == found.bayes_log_gain.shape == (0,)
    assert found.individual_leakage.shape == (0, players)
    assert {bound.value.shape for bound in found.bounds} == {(0,), (0, players)}
    assert [bound.name for bound in found.bounds] == [bound.name for bound in audited(run).bounds]
    np.testing.assert_allclose(found.posterior, np.exp(run.prior.log_marginals))
    assert found.outcome is not None
    assert found.outcome.exploitability.shape == (0,)
    assert found.outcome.attack is not None
    assert found.outcome.attack.gain.shape == (0,)
    assert found.outcome.attack.individual_gain.shape == (0, players)
    assert found.outcome.attack.blind_gain > 1


def test_a_round_of_no_messages_adds_nothing() -> None:
    run = random_run(0, "correlated", holes=False)
    sent = run.transcript.sent.copy()
    sent[3] = False
    found = audited(replace(run, transcript=replace(run.transcript, sent=sent)))
    assert found.leakage[3] == pytest.approx(found.leakage[2], abs=1e-12)
    for name in RIGOROUS:
        assert value(found, name)[3] == pytest.approx(value(found, name)[2], abs=1e-12)
    assert found.outcome is not None
    assert found.outcome.attack is not None
    assert found.outcome.attack.gain[3] == found.outcome.attack.gain[2]


def test_outcome_is_that_of_its_parts() -> None:
    run = random_run(1, "mixture")
    found = audited(run)
    assert found.outcome is not None
    assert found.outcome.attack is not None
    parts = run.transcript
    rng = public_generator(0, "gradient matching")
    adversary = GradientMatching()
    gains = adversary.gains(run.dynamics, parts.messages, run.types, rng, parts.sent)
    np.testing.assert_array_equal(found.outcome.attack.gain, gains.whole)
    np.testing.assert_array_equal(found.outcome.attack.individual_gain, gains.individual)
    logs = final_log_likelihoods(run.dynamics, parts.messages, parts.scales, parts.sent)
    guess = bayes_guess(run.prior, logs)
    np.testing.assert_allclose(found.bayes_log_gain[-1], guess.log_gain, atol=1e-12)


def test_other_games_have_no_parameters_to_guess() -> None:
    run = random_run(1, "product", iterations=2)
    found, quadratic = audited(hidden(run)), audited(run)
    np.testing.assert_array_equal(found.leakage, quadratic.leakage)
    assert found.smallest_eigenvalue is None
    assert quadratic.smallest_eigenvalue is not None
    assert found.outcome is not None
    assert found.outcome.attack is None
    assert found.outcome.error is None
    assert not found.outcome.exploitability_is_exact


def test_games_of_one_type_have_nothing_to_guess() -> None:
    game = QuadraticGame.of(np.ones((2, 1, 1)), curvature=1.0)
    dynamics = Dynamics(game, CompleteGraph(2), Schedules.of(2, noise="1", step="1"), [[0], [0]])
    transcript = everything_sent(dynamics, np.zeros((2, 2, 1)))
    types = np.zeros(2, dtype=np.int64)
    found = audit_transcript(transcript, dynamics, product_prior(np.ones((2, 1))), types)
    assert found.outcome is not None
    assert found.outcome.attack is None
    np.testing.assert_array_equal(found.leakage, 0)


def test_parts_of_different_runs_are_refused() -> None:
    run = random_run(0, "product")
    players = run.prior.num_players
    parts = run.transcript
    twice = np.arange(10) // 2
    long = Transcript(parts.messages[twice], parts.scales[twice], parts.sent[twice])
    with pytest.raises(ValueError, match="transcript of 10 iterations: the schedules have 6"):
        audit_transcript(long, run.dynamics, run.prior, None)
    few = Transcript(parts.messages[:, 1:], parts.scales[:, 1:], parts.sent[:, 1:])
    with pytest.raises(ValueError, match=f"must be \\(iterations, {players}, "):
        audit_transcript(few, run.dynamics, run.prior, None)
    other = product_prior(np.full((players, 3), 1 / 3))
    with pytest.raises(ValueError, match=f"prior of {players} players with 3 types: the game has"):
        audit_transcript(parts, run.dynamics, other, None)
    with pytest.raises(ValueError, match="type of player 0 = 7"):
        audit_transcript(parts, run.dynamics, run.prior, np.full(players, 7))
