"""Bounds in stretches against bounds in one piece, and those that are for every transcript."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgame.accountants import pml_bounds
from fedgame.accountants.pml import exact_leakage
from fedgame.accountants.pml_distances import message_distances
from fedgame.accountants.pml_individual import lemma_5_upper
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior
from fedgame.audits import transcript_bounds
from fedgame.audits.transcript_bounds import (
    RunningBounds,
    blocks,
    every_transcript,
    exact_floors,
    realised_bounds,
)
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.graphs import CompleteGraph
from fedgame.games.aggregative.likelihood import log_likelihoods, trajectories
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.sets import Box, Everywhere, Simplex
from tests.audits.cases import KINDS, random_run
from tests.games.aggregative.cases import named_game, random_game


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cuts", [[], [1], [2, 3], [1, 2, 3, 4, 5, 6]])
def test_stretches_give_what_one_piece_gives(kind: str, cuts: list[int]) -> None:
    run = random_run(5, kind, iterations=7)
    parts, prior = run.transcript, run.prior
    v = trajectories(run.dynamics, parts.messages)
    gaps = message_distances(v, parts.scales, parts.sent)
    logs = log_likelihoods(parts.messages, v, parts.scales, parts.sent)
    running = RunningBounds(prior)
    before = np.concatenate([np.zeros_like(logs[:1]), logs[:-1]])
    for first, last in zip([0, *cuts], [*cuts, 7], strict=True):
        running.extend_realised(gaps[first:last], before[first : first + 1], logs[first:last])
    group = pml_bounds.group_dp(prior, gaps)
    expected = (
        pml_bounds.theorem_1(prior, gaps),
        pml_bounds.corollary_1(prior, gaps),
        pml_bounds.corollary_2(prior, gaps),
        pml_bounds.composition(prior, logs, gaps),
        pml_bounds.fixed_prior_composition(prior, gaps),
        group,
        pml_bounds.individual_dp(prior, gaps),
        lemma_5_upper(prior, group),
    )
    found = realised_bounds(running)
    assert [bound.name for bound in found] == [bound.name for bound in expected]
    for bound, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(bound.value, other.value, atol=1e-12)
        assert bound.source == other.source


def test_blocks_cover_all_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    run = random_run(0, "product", iterations=7)
    numbers = run.prior.num_players * 2 * run.dynamics.game.dimension
    monkeypatch.setattr(transcript_bounds, "BLOCK_NUMBERS", 3 * numbers)
    found = list(blocks(run.prior, run.dynamics, 7))
    assert found == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert list(blocks(run.prior, run.dynamics, 0)) == [slice(0, 0)]
    monkeypatch.setattr(transcript_bounds, "BLOCK_NUMBERS", 1)
    assert len(list(blocks(run.prior, run.dynamics, 7))) == 7


def test_floors_of_small_priors_are_made_exact() -> None:
    small, large = correlated_prior(5, 0.3, 0.5), correlated_prior(6, 0.3, 0.5)
    assert exact_floors(small).floor_is_exact
    profiles = np.indices((2,) * 5).reshape(5, -1).T
    np.testing.assert_allclose(
        exact_floors(small).log_probability(profiles), small.log_probability(profiles)
    )
    assert exact_floors(large) is large
    product = product_prior(np.full((2, 2), 0.5))
    assert exact_floors(product) is product


BOUNDED = (Box(-1.0, np.array([1.0, 2.0, 0.5])), Simplex())


@pytest.mark.parametrize("feasible", BOUNDED, ids=["box", "simplex"])
@pytest.mark.parametrize("rule", ["ye", "wang"])
def test_in_bounded_sets_no_transcript_exceeds_them(feasible: Box | Simplex, rule: str) -> None:
    rng = np.random.default_rng(0)
    game = random_game(1, 3, 3, feasible)
    dynamics = Dynamics(
        game,
        CompleteGraph(3),
        Schedules.of(6, noise="power:0.5:0.1:1", step="2"),
        feasible.project(np.zeros((3, 3))),
        "ye" if rule == "ye" else "wang",
    )
    prior = correlated_prior(3, 0.3, 0.6)
    found = every_transcript(prior, dynamics, 6)
    assert [bound.name for bound in found] == [
        "Theorem 1, every transcript",
        "Corollary 2, every transcript",
        "group DP, every transcript",
    ]
    messages = rng.normal(scale=20, size=(500, 6, 3, 3))
    v = trajectories(dynamics, messages)
    gaps = message_distances(v, dynamics.schedules.noise)
    realised = (
        pml_bounds.theorem_1(prior, gaps),
        pml_bounds.corollary_2(prior, gaps),
        pml_bounds.group_dp(prior, gaps),
    )
    for bound, other in zip(found, realised, strict=True):
        assert bound.source.rigorous
        assert bound.source.covers == "every transcript"
        assert (other.value <= bound.value + 1e-12).all()
    leakage = exact_leakage(prior, log_likelihoods(messages, v, dynamics.schedules.noise))
    assert (leakage <= found[0].value + 1e-12).all()
    width = 2.0 if isinstance(feasible, Simplex) else 2 + 3 + 1.5
    wide = 2 * width if rule == "ye" else width
    np.testing.assert_allclose(
        found[1].value, 3 * np.cumsum(wide / dynamics.schedules.noise * (np.arange(6) > 0))
    )
    assert f"{width:g} wide" in found[0].source.text


@pytest.mark.parametrize("rule", ["ye", "wang"])
def test_types_that_differ_by_constants_are_equally_far_apart_everywhere(rule: str) -> None:
    rng = np.random.default_rng(0)
    game = QuadraticGame.of(
        rng.normal(size=(4, 3, 2)),
        curvature=np.eye(2),
        coupling=rng.normal(size=(4, 1, 2, 2)),
        aggregate_linear=rng.normal(size=(4, 3, 2)),
    )
    dynamics = Dynamics(
        game,
        CompleteGraph(4),
        Schedules.of(5, noise="power:0.5:0.1:1", step="0.5"),
        np.zeros((4, 2)),
        "ye" if rule == "ye" else "wang",
    )
    prior = product_prior(rng.dirichlet([1, 1, 1], 4))
    found = every_transcript(prior, dynamics, 4)
    messages = rng.normal(scale=5, size=(20, 4, 4, 2))
    gaps = message_distances(trajectories(dynamics, messages), dynamics.schedules.noise[:4])
    assert all(bound.source.rigorous for bound in found)
    assert "equally far apart" in found[0].source.text
    np.testing.assert_allclose(
        pml_bounds.theorem_1(prior, gaps).value, np.tile(found[0].value, (20, 1)), rtol=1e-9
    )
    np.testing.assert_allclose(
        pml_bounds.corollary_2(prior, gaps).value, np.tile(found[1].value, (20, 1)), rtol=1e-9
    )


def test_constant_gradients_give_the_papers_numbers() -> None:
    """Gradients 1 and -1, rule ye: every message after the first adds 2 lr C/M a player."""
    game = QuadraticGame.of(np.broadcast_to(np.array([[1.0], [-1.0]]), (4, 2, 1)))
    dynamics = Dynamics(
        game, CompleteGraph(4), Schedules.of(5, noise="2", step="0.5"), np.zeros((4, 1))
    )
    prior = product_prior(np.full((4, 2), 0.5))
    theorem, corollary, group = every_transcript(prior, dynamics, 4)
    np.testing.assert_allclose(corollary.value, 4 * np.array([0, 0.5, 1.0, 1.5]))
    np.testing.assert_allclose(group.value, corollary.value)
    np.testing.assert_allclose(theorem.value, -4 * np.log((1 + np.exp(-corollary.value / 4)) / 2))


def test_estimates_come_near_to_the_largest_of_many_transcripts() -> None:
    run = random_run(0, "product", iterations=4)
    assert isinstance(run.dynamics.game.feasible, Everywhere)
    first = every_transcript(run.prior, run.dynamics, 4)
    assert not first[0].source.rigorous
    assert "64 sampled transcripts" in first[0].source.text
    again = every_transcript(run.prior, run.dynamics, 4)
    np.testing.assert_array_equal(first[0].value, again[0].value)
    v = trajectories(run.dynamics, run.transcript.messages)
    gaps = message_distances(v, run.dynamics.schedules.noise[:4])
    assert pml_bounds.corollary_2(run.prior, gaps).value[-1] < 1.2 * first[1].value[-1]


def test_large_games_have_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    game = named_game("cournot", 2_000, types=4, feasible="none")
    dynamics = Dynamics(
        game, CompleteGraph(2_000), Schedules.of(60, noise="1", step="0.1"), np.zeros((2_000, 1))
    )
    prior = product_prior(np.full((2_000, 4), 0.25))
    assert every_transcript(prior, dynamics, 60) == ()
    monkeypatch.setattr(transcript_bounds, "MOST_DISTANCES", 10)
    constant = replace(dynamics, game=QuadraticGame.of(game.table.linear))
    assert every_transcript(prior, constant, 60) == ()
    assert len(every_transcript(prior, dynamics, 3)) == 3


def test_transcripts_that_overflow_have_no_estimate() -> None:
    run = random_run(0, "product", iterations=400)
    schedules = Schedules.of(400, noise="1", step="1e3")
    dynamics = replace(run.dynamics, schedules=schedules)
    assert every_transcript(run.prior, dynamics, 400) == ()
