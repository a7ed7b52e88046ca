"""The public side of a run against audits of the whole transcript."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgame.accountants.pml import exact_leakage, individual_leakage
from fedgame.accountants.pml_distances import type_distances
from fedgame.accountants.pml_filter import PmlFilter
from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior
from fedgame.games.aggregative.dynamics import Dynamics, Rule
from fedgame.games.aggregative.graphs import CompleteGraph, Graph, WeightedGraph, ring
from fedgame.games.aggregative.likelihood import (
    Follower,
    log_densities,
    log_likelihoods,
    trajectories,
)
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.referee import Referee, sensitivities
from fedgame.games.aggregative.settings import Aggregative
from fedgame.games.aggregative.vaccination import Vaccination
from fedgame.games.best_response import FloatArray
from tests.games.aggregative.cases import LINE

PLAYERS = 3
MEASURE = PmlFilter(action="measure")
UNSURE = product_prior([[0.5, 0.5]] * 2)


def dynamics_of(rule: Rule = "ye", graph: Graph | None = None) -> Dynamics:
    game = Vaccination(dimension=2).build(PLAYERS, np.random.default_rng(1))
    settings = Aggregative(noise="power:1:0.5:1", step="0.4", initial=(0.2, 0.4))
    public = settings.dynamics(game, 5)
    return Dynamics(
        game, graph or CompleteGraph(PLAYERS), public.schedules, public.initial, rule, "full"
    )


@pytest.mark.parametrize("prior", [product_prior([[0.3, 0.7]] * 3), correlated_prior(3, 0.4, 0.6)])
def test_it_knows_at_every_moment_what_an_audit_finds(prior: Prior) -> None:
    dynamics, rng = dynamics_of(), np.random.default_rng(2)
    referee = Referee(dynamics, prior, MEASURE)
    for k in range(6):
        assert referee.iteration == k
        for player in rng.permutation(PLAYERS)[: rng.integers(PLAYERS + 1)]:
            scale = referee.planned * rng.uniform(1, 2)
            referee.hear(np.array([player]), rng.normal(size=(1, 2)), scale)
        referee.close()
        transcript = referee.transcript()
        assert len(transcript) == k + 1
        v = trajectories(dynamics, transcript.messages)
        logs = log_likelihoods(transcript.messages, v, transcript.scales, transcript.sent)[-1]
        assert referee.leakage == pytest.approx(exact_leakage(prior, logs), abs=1e-12)
        expected = individual_leakage(prior, logs)
        assert referee.individual_leakage == pytest.approx(expected, abs=1e-12)
    assert not referee.transcript().sent.all()


def test_a_message_that_did_not_come_is_the_last_one_or_the_start() -> None:
    referee = Referee(dynamics_of(), product_prior([[0.5, 0.5]] * 3), MEASURE)
    referee.hear(np.array([0]), np.array([[7.0, 8.0]]), 3.0)
    referee.close()
    referee.hear(np.array([2]), np.array([[5.0, 6.0]]), 4.0)
    referee.close()
    transcript = referee.transcript()
    assert transcript.messages[0].tolist() == [[7, 8], [0.2, 0.4], [0.2, 0.4]]
    assert transcript.messages[1].tolist() == [[7, 8], [0.2, 0.4], [5, 6]]
    assert transcript.sent.tolist() == [[True, False, False], [False, False, True]]
    assert transcript.scales.tolist() == [[3, 1, 1], [1.5, 1.5, 4]]


@pytest.mark.parametrize("rule", ["ye", "wang"])
@pytest.mark.parametrize("graph", [CompleteGraph(3), ring(3), WeightedGraph(LINE)])
def test_what_is_forwarded_is_what_a_player_needs_and_may_see(rule: Rule, graph: Graph) -> None:
    if rule == "ye" and not np.allclose(graph.row_sums, 1):
        return
    dynamics, rng = dynamics_of(rule, graph), np.random.default_rng(3)
    referee = Referee(dynamics, product_prior([[0.5, 0.5]] * 3), MEASURE)
    for _ in range(4):
        referee.hear(np.arange(3), rng.normal(size=(3, 2)), referee.planned)
        referee.close()
    messages = referee.transcript().messages
    some = np.array([0, 2])
    heard, own = referee.forwarded(some, 1)
    assert heard.shape[:2] == own.shape[:2] == (2, 3)
    for step in range(3):
        expected = dynamics.signal(messages[step + 1])[some]
        found = dynamics.signal_heard(heard[:, step], own[:, step], some)
        assert found.tobytes() == expected.tobytes()
    assert own.tolist() == np.swapaxes(messages[1:, some], 0, 1).tolist()
    none, _ = referee.forwarded(some, 4)
    assert none.shape[:2] == (2, 0)


def test_messages_that_noise_could_not_have_made_are_told() -> None:
    referee = Referee(dynamics_of(), product_prior([[0.5, 0.5]] * 3), MEASURE)
    messages = np.array([[0.2, 0.4], [0.2 + 99, 0.4 - 99], [0.2, 101.0]])
    assert referee.is_plausible(np.arange(3), messages, 1.0).tolist() == [True, True, False]


def test_sensitivities_are_distances_between_types_that_are_possible() -> None:
    v: FloatArray = np.random.default_rng(4).normal(size=(2, 3, 2))
    prior = product_prior([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]])
    gaps = type_distances(v)
    assert sensitivities(v, prior).tolist() == [gaps[0].max(), gaps[1, 0, 1]]
    assert sensitivities(v[[1]], prior, np.array([1])).tolist() == [gaps[1, 0, 1]]


def test_a_prior_of_other_players_is_refused() -> None:
    with pytest.raises(ValueError, match="prior of 2 players and 2 types: the game has 3 and 2"):
        Referee(dynamics_of(), product_prior([[0.5, 0.5]] * 2), MEASURE)


def test_nothing_was_said_yet() -> None:
    referee = Referee(dynamics_of(), product_prior([[0.5, 0.5]] * 3), PmlFilter(budget=1e-9))
    assert referee.leakage == 0
    assert referee.transcript().messages.shape == (0, 3, 2)
    # message 0 shows x_0, which is public
    assert referee.decide().worst == 0
    assert not referee.has_diverged


def test_a_type_that_nobody_has_may_lead_anywhere() -> None:
    """Its trajectory grows beyond all numbers; those of the others are followed all the same."""
    curvature = np.array([1.0, 1e6])[:, None, None]
    game = QuadraticGame.of(np.ones((2, 2, 1)), curvature=curvature)
    dynamics = Aggregative(noise="1", step="0.5", initial=(1.0,)).dynamics(game, 80)
    rng = np.random.default_rng(0)
    for prior, diverges in ((product_prior([[1.0, 0.0]] * 2), False), (UNSURE, True)):
        referee = Referee(dynamics, prior, MEASURE)
        while referee.iteration < 80 and not referee.has_diverged:
            referee.hear(np.arange(2), rng.laplace(size=(2, 1)), 1.0)
            referee.close()
        assert referee.has_diverged == diverges
        if not diverges:
            assert referee.leakage == 0


def test_what_messages_add_is_not_lost_in_a_long_run() -> None:
    """Sums of many likelihoods, taken as they come, would be off by 10^-5 here."""
    game = QuadraticGame.of(np.tile([[[1.0, 2.0], [3.0, 1.0]]], (3, 1, 1)))
    dynamics = Aggregative(noise="1", step="1e-4").dynamics(game, 999)
    prior = product_prior([[0.3, 0.7]] * 3)
    referee, follower = Referee(dynamics, prior, MEASURE), Follower(dynamics)
    rng, added = np.random.default_rng(3), []
    for k in range(1000):
        messages = rng.uniform(1e8, 2e8, size=(3, 2))
        added.append(log_densities(messages, follower.next_messages, 1.0))
        referee.hear(np.arange(3), messages, 1.0)
        referee.close()
        if k < 999:
            follower.advance(messages)
    exact = np.apply_along_axis(math.fsum, 0, np.array(added))
    assert referee.leakage == pytest.approx(exact_leakage(prior, exact), abs=3e-6)
    assert referee.leakage > 0.005
