"""Strategies behind a transcript, their distance to equilibrium and exploitability."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgame.audits import transcript_outcome
from fedgame.audits.transcript_outcome import progress, replay
from fedgame.games.aggregative.best_responses import exploitability
from fedgame.games.aggregative.dynamics import Dynamics, play
from fedgame.games.aggregative.equilibrium import solve_equilibrium
from fedgame.games.aggregative.graphs import CompleteGraph
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.sets import Box
from tests.audits.cases import hidden, random_run
from tests.games.aggregative.cases import cournot, named_game, random_game


@pytest.mark.parametrize("seed", range(6))
def test_replay_finds_the_strategies_that_were_played(seed: int) -> None:
    run = random_run(seed, "product")
    noise = np.random.default_rng(seed).laplace(size=run.transcript.messages.shape)
    played = play(run.dynamics, run.types, noise)
    found = np.stack(list(replay(run.dynamics, played.messages, run.types)))
    np.testing.assert_array_equal(found, played.strategies)


def test_without_noise_error_and_exploitability_fall_to_zero() -> None:
    """Cournot of three firms: x = 2.25 each is the Nash equilibrium."""
    dynamics = Dynamics(
        cournot(3, Box(0, 10)),
        CompleteGraph(3),
        Schedules.of(200, noise="1", step="0.2"),
        np.ones((3, 1)),
    )
    types = np.zeros(3, dtype=np.int64)
    played = play(dynamics, types, np.zeros((200, 3, 1)))
    found = progress(dynamics, played.messages, types)
    assert found.error is not None
    assert found.is_exact
    np.testing.assert_allclose(found.error[0], np.sqrt(3) * 1.25)
    # all others supply 2, a firm best responds to it by 3.5 instead of 1: gain (3.5 - 1)^2
    np.testing.assert_allclose(found.exploitability[0], 2.5**2)
    assert found.error[-1] < 1e-8
    assert found.exploitability[-1] < 1e-14


def test_numbers_are_those_of_each_profile_by_itself() -> None:
    run = random_run(4, "product", iterations=8)
    game = random_game(4, 3, 2, Box(-1, 2), own=3.0)
    dynamics = replace(
        run.dynamics, game=game, graph=CompleteGraph(3), initial=np.zeros((3, 2)), rule="ye"
    )
    types = np.array([0, 1, 1])
    noise = np.random.default_rng(0).laplace(size=(5, 3, 2))
    played = play(dynamics, types, noise)
    found = progress(dynamics, played.messages, types)
    equilibrium = solve_equilibrium(game, types)
    assert equilibrium.unique
    assert found.error is not None
    for k, x in enumerate(played.strategies):
        np.testing.assert_allclose(found.error[k], np.linalg.norm(x - equilibrium.strategies))
        assert found.exploitability[k] == exploitability(game, types, x).largest


def test_a_cost_without_least_value_makes_it_infinite() -> None:
    game = named_game("vaccination", 4, feasible="none", dimension=2)
    dynamics = Dynamics(
        game, CompleteGraph(4), Schedules.of(3, noise="1", step=".1"), np.zeros((4, 2))
    )
    types = np.array([0, 1, 0, 1])
    found = progress(dynamics, np.zeros((3, 4, 2)), types)
    assert np.isposinf(found.exploitability).all()
    assert found.is_exact
    assert found.error is None


def test_other_games_are_searched_and_long_transcripts_thinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcript_outcome, "SEARCHES", 4)
    run = random_run(1, "product", iterations=10)
    exact = progress(run.dynamics, run.transcript.messages, run.types)
    other = hidden(run)
    found = progress(other.dynamics, run.transcript.messages, run.types)
    assert exact.is_exact
    assert not found.is_exact
    assert found.error is None
    searched = np.array([0, 3, 6, 9])
    nearest = np.array([0, 0, 0, 3, 3, 3, 6, 6, 6, 9])
    np.testing.assert_array_equal(found.exploitability, found.exploitability[nearest])
    assert (found.exploitability[searched] <= exact.exploitability[searched] + 1e-9).all()
    assert (found.exploitability[searched] > 0).all()


def test_too_many_dimensions_for_a_formula_are_searched() -> None:
    game = named_game("vaccination", 3, dimension=8)
    dynamics = Dynamics(
        game, CompleteGraph(3), Schedules.of(2, noise="1", step=".1"), np.full((3, 8), 0.5)
    )
    found = progress(dynamics, np.zeros((2, 3, 8)), np.zeros(3, dtype=np.int64))
    assert not found.is_exact
    assert (found.exploitability > 0).all()
