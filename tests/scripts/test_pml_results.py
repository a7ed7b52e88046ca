"""The computations behind docs/aggregative.md, against plain loops and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fedgame.accountants.pml import exact_leakage
from fedgame.accountants.pml_bounds import theorem_1
from fedgame.accountants.pml_distances import message_distances
from fedgame.accountants.pml_filter import PmlFilter
from fedgame.games.aggregative.dynamics import play
from fedgame.games.aggregative.equilibrium import solve_equilibrium
from fedgame.games.aggregative.likelihood import log_likelihoods, trajectories
from fedgame.games.aggregative.referee import Referee
from fedgame.strategies.aggregative_public import PublicGame
from scripts import pml_attacks, pml_correlation, pml_results, pml_stopping, pml_tradeoff
from scripts.pml_settings import (
    Plays,
    equilibria,
    errors,
    generator,
    play_all,
    setting,
    unit_noise,
)

SMALL = {"num-clients": 4, "rounds": 7}
RUNS = 3


def _plays(public: PublicGame) -> Plays:
    """Return the runs that `steps_of` sees with the generator "test"."""
    rng = generator("test")
    types = public.prior.draw(rng, RUNS)
    noise = unit_noise(public.dynamics, RUNS, rng)
    return play_all(public.dynamics, types, noise * public.dynamics.schedules.noise[:, None, None])


@pytest.mark.parametrize("preset", ["demo", "correlated", "vaccination-paper", "energy-ring"])
def test_many_draws_are_played_as_one_by_one(preset: str) -> None:
    dynamics = setting(preset, SMALL).dynamics
    types = np.array([[0, 1, 1, 0], [1, 1, 0, 1]])
    noise = unit_noise(dynamics, 2, generator("test"))
    together = play_all(dynamics, types, noise)
    for draw in range(2):
        alone = play(dynamics, types[draw], noise[draw])
        np.testing.assert_array_equal(together.messages[draw], alone.messages)
        np.testing.assert_array_equal(together.strategies[draw], alone.strategies)


def test_errors_are_distances_to_each_draws_own_equilibrium() -> None:
    dynamics = setting("demo", SMALL).dynamics
    types = np.array([[0, 0, 0, 0], [1, 1, 1, 1]])
    plays = play_all(dynamics, types, np.zeros((2, 8, 4, 1)))
    found = errors(plays, equilibria(dynamics, types))
    for draw in range(2):
        apart = plays.strategies[draw, 5] - solve_equilibrium(dynamics.game, types[draw]).strategies
        assert found[draw, 5] == pytest.approx(float(np.linalg.norm(apart)))
    vaccination = setting("vaccination-paper", {**SMALL, "vaccination.feasible": "box"})
    with pytest.raises(ValueError, match="not strongly monotone"):
        equilibria(vaccination.dynamics, types[:1])


def _steps_by_referee(public: PublicGame, messages: np.ndarray, budget: float) -> int:
    """Count the steps until the first that the budget filter refuses, as a run does."""
    referee = Referee(public.dynamics, public.prior, PmlFilter(budget=budget))
    players = public.prior.num_players
    steps = 0
    for sent in messages:
        if referee.is_sequential:
            for player in range(players):
                decision = referee.decide_player(player)
                if not decision.send:
                    return steps
                one = np.array([player])
                referee.hear(one, sent[one], decision.scales)
                steps += 1
        else:
            decision = referee.decide()
            if not decision.send:
                return steps
            referee.hear(np.arange(players), sent, decision.scales)
            steps += 1
        referee.close()
    return steps


@pytest.mark.parametrize("preset", ["demo", "correlated"])
@pytest.mark.parametrize("budget", [0.15, 0.3, 0.45])
def test_the_filter_allows_what_it_does_in_a_run(preset: str, budget: float) -> None:
    public = setting(preset, SMALL)
    steps = pml_stopping.steps_of(public, RUNS, generator("test"))
    wanted = [_steps_by_referee(public, sent, budget) for sent in _plays(public).messages]
    found = pml_stopping.allowed(steps.values["filter"], budget)
    assert found.tolist() == wanted
    assert 0 < min(wanted) < steps.leakage.shape[1]  # some run is stopped


def test_message_by_message_ends_where_iteration_by_iteration_does() -> None:
    public = setting("correlated", SMALL)
    steps = pml_stopping.steps_of(public, RUNS, generator("test"))
    plays, scales = _plays(public), public.dynamics.schedules.noise
    v = trajectories(public.dynamics, plays.messages)
    whole = theorem_1(public.prior, message_distances(v, scales)).value
    np.testing.assert_allclose(steps.values["theorem-1"][:, 3::4], whole, atol=1e-12)
    exact = exact_leakage(public.prior, log_likelihoods(plays.messages, v, scales))
    np.testing.assert_allclose(steps.leakage[:, 3::4], exact, atol=1e-12)
    # within an iteration bounds grow with each message
    assert (np.diff(steps.values["theorem-1"], axis=1) >= -1e-12).all()


def test_a_run_ends_before_the_first_refusal() -> None:
    values = np.array([[0.0, 0.4, 0.2, 0.1], [0.0, 0.1, 0.2, 0.3], [0.0, 0.1, 0.2, 0.31]])
    assert pml_stopping.allowed(values, 0.3 + 1e-6).tolist() == [1, 4, 3]


def test_a_run_above_its_budget_is_not_recorded() -> None:
    leaky = np.array([[0.0, 0.6, 0.7]])
    steps = pml_stopping.Steps(leaky, {}, leaky, 1)
    with pytest.raises(AssertionError, match=r"a run leaked 0\.7"):
        pml_stopping._check("product", "filter", 0.5, steps, np.array([3]), np.array([3]))
    with pytest.raises(AssertionError, match="more than the filter"):
        pml_stopping._check("product", "theorem-1", 0.7, steps, np.array([3]), np.array([2]))


@pytest.mark.parametrize("rule", ["ye", "wang"])
def test_bounds_of_the_tradeoff_hold_for_every_transcript(rule: str) -> None:
    public = setting("demo", {**pml_tradeoff.CHANGES[rule], **SMALL})
    bounds = pml_tradeoff.bounds_of(public)
    factor = pml_tradeoff.FACTORS[30]
    wild = 5 * unit_noise(public.dynamics, RUNS, generator("test"))
    scales = factor * public.dynamics.schedules.noise
    gaps = message_distances(trajectories(public.dynamics, wild), scales)
    for found in theorem_1(public.prior, gaps).value:
        np.testing.assert_allclose(found, bounds["theorem-1"][30], rtol=1e-9, atol=1e-12)


def test_designs_of_the_filter_are_its_stopped_runs() -> None:
    worst = np.array([[[0.0, 0.3, 0.9], [0.0, 0.6, 0.2]]])
    squared = np.array([[[9.0, 4.0, 1.0], [9.0, 5.0, 2.0]]])
    draws = pml_tradeoff.Draws(squared, worst)
    means = pml_tradeoff.mean_squared_errors("filter", 0.5, draws, {})
    # run 0 may send twice, run 1 once
    np.testing.assert_allclose(means, [[9.0, 6.5, 6.5]])
    assert pml_tradeoff.best_design(means) == (0, 2)


def test_designs_of_a_bound_are_within_it() -> None:
    squared = np.array([[[9.0, 4.0, 1.0]], [[9.0, 5.0, 3.0]]])
    draws = pml_tradeoff.Draws(squared, squared)
    bounds = {"theorem-1": np.array([[0.0, 0.4, 0.6], [0.0, 0.2, 0.3]])}
    means = pml_tradeoff.mean_squared_errors("theorem-1", 0.5, draws, bounds)
    assert means.tolist() == [[9.0, 4.0, math.inf], [9.0, 5.0, 3.0]]
    assert pml_tradeoff.best_design(means) == (1, 3)


def test_the_leakage_of_one_of_three_players_is_that_of_all_profiles() -> None:
    row = pml_correlation._row(3)
    epsilon, alpha, beta = float(str(row["dp"])), 0.3, 0.5
    sums = {0: 0.0, 1: 0.0}
    for profile in itertools.product((0, 1), repeat=3):
        alike = profile[1:] == (profile[0],) * 2
        given_first = beta if alike else (1 - beta) / 3
        sums[profile[0]] += given_first * math.exp(-epsilon * sum(profile))
    evidence = alpha * sums[0] + (1 - alpha) * sums[1]
    assert row["exact"] == pytest.approx(math.log(sums[0] / evidence))
    assert row["dp"] == pytest.approx(float(str(pml_correlation._row(20)["dp"])))


def test_noise_is_the_same_at_each_level_but_for_its_scale() -> None:
    none, low, high = (pml_attacks.attacked(level) for level in ("none", "low", "high"))
    np.testing.assert_array_equal(low.plays.types, high.plays.types)
    # message 0 is x_0 with noise of scale 1 at both levels
    np.testing.assert_array_equal(low.plays.messages[:, 0], high.plays.messages[:, 0])
    np.testing.assert_array_equal(none.plays.messages[:, 0], none.plays.strategies[:, 0])


def test_numbers_are_written_in_six_digits() -> None:
    assert pml_results.as_text(1 / 3) == "0.333333"
    assert pml_results.as_text(np.float64(-3e-16)) == "0"
    assert pml_results.as_text(None) == ""
    assert pml_results.as_text("ye") == "ye"
    assert pml_results.as_text(40) == 40
