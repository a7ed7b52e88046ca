"""Likelihoods against sums over all profiles, known values, and SciPy's Laplace density."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from fedgame.games.aggregative.dynamics import Dynamics, Rule, play
from fedgame.games.aggregative.graphs import CompleteGraph, WeightedGraph
from fedgame.games.aggregative.likelihood import (
    Follower,
    final_log_likelihoods,
    log_densities,
    log_likelihoods,
    trajectories,
)
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.sets import Simplex
from fedgame.games.best_response import FloatArray
from tests.games.aggregative.cases import EXAMPLES, LINE, Example, random_game


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Example:
    return EXAMPLES[request.param]()


def last_row(example: Example) -> FloatArray:
    dynamics, transcript = example.dynamics, example.transcript
    v = trajectories(dynamics, transcript)
    rows = log_likelihoods(transcript, v, dynamics.schedules.noise)
    return np.asarray(rows[-1])


def test_the_probability_of_a_transcript_is_the_known_one(example: Example) -> None:
    row = last_row(example)
    terms = {f: sum(row[i, t] for i, t in enumerate(f)) for f in example.profiles}
    joint = [np.log(example.prior(f)) + term for f, term in terms.items()]
    whole = logsumexp(joint)
    assert whole == pytest.approx(example.log_probability, rel=1e-14)
    assert max(terms.values()) - whole == pytest.approx(example.leakage, rel=1e-13)
    for player, expected in enumerate(example.individual):
        ratios = []
        for kind in range(2):
            profiles = [f for f in example.profiles if f[player] == kind]
            weights = np.array([example.prior(f) for f in profiles])
            given = logsumexp([terms[f] for f in profiles], b=weights / weights.sum())
            ratios.append(given - whole)
        assert max(ratios) == pytest.approx(expected, rel=1e-13)


def run_of(rule: Rule, iterations: int = 7) -> tuple[Dynamics, list[int], FloatArray]:
    """Return dynamics of three players, their types, and noise of two runs."""
    game = random_game(11, 3, 3, Simplex(), types=4)
    graph = CompleteGraph(3) if rule == "ye" else WeightedGraph(LINE)
    schedules = Schedules.of(
        iterations, noise="power:1:.5:1", step="inverse:1:1:1", gamma="geometric:.9:.9"
    )
    dynamics = Dynamics(game, graph, schedules, np.full((3, 3), 1 / 3), rule)
    scales = schedules.noise[:, None, None]
    return (
        dynamics,
        [3, 0, 2],
        np.random.default_rng(12).laplace(size=(2, iterations, 3, 3)) * scales,
    )


@pytest.mark.parametrize("rule", ["ye", "wang"])
def test_the_true_types_are_followed_exactly(rule: Rule) -> None:
    dynamics, types, noise = run_of(rule)
    happened = play(dynamics, types, noise)
    v = trajectories(dynamics, happened.messages)
    assert v.shape == (2, 7, 3, 4, 3)
    followed = v[:, :, np.arange(3), types]
    assert followed.tobytes() == happened.estimates.tobytes()


@pytest.mark.parametrize("rule", ["ye", "wang"])
def test_the_true_types_have_the_density_of_the_noise(rule: Rule) -> None:
    dynamics, types, noise = run_of(rule)
    transcript = play(dynamics, types, noise).messages
    scales = dynamics.schedules.noise
    found = log_likelihoods(transcript, trajectories(dynamics, transcript), scales)
    density = stats.laplace(scale=scales[:, None, None]).logpdf(noise).sum(axis=-1)
    expected = np.cumsum(density, axis=1)
    assert found[:, :, np.arange(3), types] == pytest.approx(expected, rel=1e-12)


def test_any_type_has_the_density_of_the_noise_that_it_would_need() -> None:
    dynamics, types, noise = run_of("wang")
    transcript = play(dynamics, types, noise).messages[0]
    scales = dynamics.schedules.noise
    found = log_likelihoods(transcript, trajectories(dynamics, transcript), scales)[-1]
    for player in range(3):
        for other in range(4):
            # with this player's noise chosen so that the same messages are sent by another type
            changed = list(types)
            changed[player] = other
            needed = noise[0].copy()
            for k in range(len(needed)):
                v = play(dynamics, changed, needed).estimates
                needed[k, player] = transcript[k, player] - v[k, player]
            assert play(dynamics, changed, needed).messages == pytest.approx(transcript, abs=1e-12)
            density = stats.laplace(scale=scales[:, None]).logpdf(needed[:, player]).sum()
            assert found[player, other] == pytest.approx(density, rel=1e-12)


def test_a_transcript_that_grows_gives_the_same_rows() -> None:
    dynamics, types, noise = run_of("wang")
    transcript = play(dynamics, types, noise).messages
    v = trajectories(dynamics, transcript)
    follower = Follower(dynamics)
    for k in range(7):
        assert np.array_equal(np.broadcast_to(follower.next_messages, v[:, k].shape), v[:, k])
        assert np.array_equal(trajectories(dynamics, transcript[:, : k + 1]), v[:, : k + 1])
        if k < 6:
            follower.advance(transcript[:, k])


def test_the_last_row_alone_is_the_last_row() -> None:
    dynamics, types, noise = run_of("ye")
    transcript = play(dynamics, types, noise).messages
    scales = np.random.default_rng(13).uniform(1, 2, (2, 7, 3))
    sent = np.random.default_rng(14).random((2, 7, 3)) < 0.7
    v = trajectories(dynamics, transcript)
    for each, mask in ((dynamics.schedules.noise, None), (scales, None), (scales, sent)):
        expected = log_likelihoods(transcript, v, each, mask)[:, -1]
        assert final_log_likelihoods(dynamics, transcript, each, mask) == pytest.approx(expected)


def test_what_was_not_sent_says_nothing() -> None:
    dynamics, types, noise = run_of("ye")
    transcript = play(dynamics, types, noise).messages[0]
    sent = np.ones((7, 3), dtype=np.bool_)
    sent[4:, 1] = False
    v, scales = trajectories(dynamics, transcript), dynamics.schedules.noise
    whole = log_likelihoods(transcript, v, scales)
    part = log_likelihoods(transcript, v, scales, sent)
    assert np.array_equal(part[:, [0, 2]], whole[:, [0, 2]])
    assert np.array_equal(part[:4, 1], whole[:4, 1])
    assert np.array_equal(part[4:, 1], np.broadcast_to(whole[3, 1], (3, 4)))


def test_scales_may_differ_from_message_to_message() -> None:
    dynamics, types, noise = run_of("ye")
    transcript = play(dynamics, types, noise).messages[0]
    v = trajectories(dynamics, transcript)
    scales = np.random.default_rng(15).uniform(1, 2, (7, 3))
    found = log_likelihoods(transcript, v, scales)[-1]
    density = stats.laplace(v, scales[:, :, None, None]).logpdf(transcript[:, :, None, :])
    assert found == pytest.approx(density.sum(axis=(0, -1)), rel=1e-12)


def test_a_transcript_or_scale_that_does_not_fit_is_refused() -> None:
    dynamics, _, _ = run_of("ye")
    with pytest.raises(ValueError, match=r"transcript of shape \(7, 3, 2\): must be"):
        trajectories(dynamics, np.zeros((7, 3, 2)))
    with pytest.raises(ValueError, match="transcript of 8 iterations: the schedules have 7"):
        trajectories(dynamics, np.zeros((8, 3, 3)))
    with pytest.raises(ValueError, match="transcript: must be finite"):
        trajectories(dynamics, np.full((7, 3, 3), np.nan))
    for scale in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="a noise scale is not a finite number > 0"):
            log_densities(np.zeros((3, 3)), np.zeros((3, 4, 3)), scale)
