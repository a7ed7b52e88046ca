"""The dynamics against a loop written by hand, single players, and exact equilibria."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from fedgame.games.aggregative.base import pseudo_gradient
from fedgame.games.aggregative.dynamics import Dynamics, Play, Rule, play
from fedgame.games.aggregative.equilibrium import distance_to, solve_equilibrium
from fedgame.games.aggregative.graphs import (
    CompleteGraph,
    Graph,
    WeightedGraph,
    parse_graph,
    weighted_sum,
)
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.sets import Box, Everywhere, KnownSet, Simplex
from fedgame.games.best_response import FloatArray
from tests.games.aggregative.cases import LINE, cournot, named_game, random_game

RULES: tuple[Rule, ...] = get_args(Rule)
TRIANGLE = np.array([[0.2, 0.5, 0.3], [0.5, 0.1, 0.4], [0.3, 0.4, 0.3]])
SETS: list[KnownSet] = [Everywhere(), Box(-0.4, 0.4), Simplex()]


def dynamics_of(rule: Rule, feasible: KnownSet, graph: Graph) -> Dynamics:
    """Return a run of 6 messages of 3 players with everything drawn."""
    game = random_game(5, 3, 2, feasible)
    initial = feasible.project(np.random.default_rng(6).normal(size=(3, 2)))
    schedules = Schedules.of(6, noise="1", step="inverse:.5:1:1", gamma="inverse:.6:1:1")
    return Dynamics(game, graph, schedules, initial, rule)


def by_hand(dynamics: Dynamics, types: list[int], noise: FloatArray, links: FloatArray) -> Play:
    """Follow the rule player by player."""
    game, players = dynamics.game, range(dynamics.game.num_players)
    x = np.array(dynamics.initial)
    v, kept = x.copy(), []
    for k in range(len(noise)):
        o = v + noise[k]
        kept.append((o, x, v))
        if k == len(noise) - 1:
            break
        moved, heard = np.empty_like(x), np.empty_like(x)
        for i in players:
            costs = game.costs(np.array([i]), np.array([types[i]]))
            slope = pseudo_gradient(costs, x[[i]], v[[i]], len(players), "full")[0]
            moved[i] = game.feasible.project(x[i] - dynamics.schedules.step[k] * slope)
            if dynamics.rule == "ye":
                heard[i] = sum(links[i, j] * o[j] for j in players)
            else:
                gamma = dynamics.schedules.gamma[k]
                heard[i] = v[i] + gamma * sum(links[i, j] * (o[j] - o[i]) for j in players)
        x, v = moved, heard + moved - x
    return Play(*(np.array(column) for column in zip(*kept, strict=True)))


@pytest.mark.parametrize("feasible", SETS, ids=repr)
@pytest.mark.parametrize("rule", RULES)
def test_play_follows_the_rule(rule: Rule, feasible: KnownSet) -> None:
    noise = np.random.default_rng(7).laplace(size=(6, 3, 2))
    for graph, links in (
        (CompleteGraph(3), np.full((3, 3), 1 / 3)),
        (WeightedGraph(TRIANGLE), TRIANGLE),
    ):
        dynamics = dynamics_of(rule, feasible, graph)
        expected = by_hand(dynamics, [0, 1, 1], noise, links)
        found = play(dynamics, [0, 1, 1], noise)
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-13)
        assert np.array_equal(found.messages, found.estimates + noise)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_players_that_act_alone_send_the_same_bits(rule: Rule, *, complete: bool) -> None:
    graph = CompleteGraph(3) if complete else WeightedGraph(TRIANGLE)
    dynamics = dynamics_of(rule, Simplex(), graph)
    noise = np.random.default_rng(8).laplace(size=(6, 3, 2))
    types = np.array([1, 0, 1])
    expected = play(dynamics, types, noise).messages
    rows = [np.array([i]) for i in range(3)]
    costs = [dynamics.game.costs(row, types[row]) for row in rows]
    states = [dynamics.start(row) for row in rows]
    for k in range(6):
        sent = np.concatenate([state.v + noise[k, [i]] for i, state in enumerate(states)])
        assert sent.tobytes() == expected[k].tobytes()
        if k == 5:
            break
        for i in range(3):
            signal = heard(graph, rule, sent, i)
            states[i] = dynamics.step(costs[i], states[i], signal, k)


def heard(graph: Graph, rule: Rule, sent: FloatArray, player: int) -> FloatArray:
    """Return what a player makes of what the graph lets it hear: the mean, or its neighbours."""
    if isinstance(graph, WeightedGraph):
        senders, weights = graph.neighbours(player)
        values = sent[senders] - (sent[player] if rule == "wang" else 0)
        return weighted_sum(weights, values)[None]
    mean: FloatArray = sent.sum(axis=0, keepdims=True) / len(sent)
    return mean - sent[[player]] if rule == "wang" else mean


@pytest.mark.parametrize("rule", RULES)
def test_many_runs_at_once_are_the_same_runs(rule: Rule) -> None:
    dynamics = dynamics_of(rule, Box(-0.4, 0.4), CompleteGraph(3))
    noise = np.random.default_rng(9).laplace(size=(4, 5, 6, 3, 2))
    together = play(dynamics, [0, 1, 0], noise)
    assert together.strategies.shape == noise.shape
    alone = play(dynamics, [0, 1, 0], noise[2, 3])
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one, other[2, 3])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("graph", ["complete", "ring"])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("cournot", {"feasible": "none"}),
        ("cournot", {"capacity": 1.5}),
        ("energy", {"dimension": 2, "most": 5.5}),
        ("energy", {"dimension": 2, "feasible": "none"}),
    ],
)
def test_without_noise_the_iterates_reach_the_equilibrium(
    name: str, settings: dict[str, object], graph: str, rule: Rule
) -> None:
    game = named_game(name, 6, seed=3, per_player=True, **settings)
    types = [0, 1, 0, 0, 1, 1]
    schedules = Schedules.of(4_000, noise="1", step=".05", gamma=".5")
    initial = game.feasible.project(np.ones((6, game.dimension)))
    dynamics = Dynamics(game, parse_graph(graph, 6), schedules, initial, rule)
    equilibrium = solve_equilibrium(game, types)
    last = play(dynamics, types, np.zeros((4_000, 6, game.dimension))).strategies[-1]
    distance = distance_to(equilibrium, last)
    assert distance is not None
    assert distance < 1e-8


def test_random_strongly_monotone_games_are_solved_by_both_rules() -> None:
    for seed in range(6):
        feasible = SETS[seed % 3]
        game = random_game(seed, 4, 3, feasible, own=2.0)
        equilibrium = solve_equilibrium(game, [0, 1, 1, 0])
        assert equilibrium.unique
        schedules = Schedules.of(400, noise="1", step=".1", gamma=".8")
        initial = feasible.project(np.zeros((4, 3)))
        for rule in RULES:
            dynamics = Dynamics(game, CompleteGraph(4), schedules, initial, rule)
            last = play(dynamics, [0, 1, 1, 0], np.zeros((400, 4, 3))).strategies[-1]
            assert last == pytest.approx(equilibrium.strategies, abs=1e-8)


@pytest.mark.parametrize("rule", RULES)
def test_the_papers_gradient_stops_at_perfect_competition(rule: Rule) -> None:
    game, schedules = cournot(), Schedules.of(2_000, noise="1", step=".1", gamma=".9")
    ends = {}
    for gradient in ("full", "paper"):
        dynamics = Dynamics(game, CompleteGraph(3), schedules, np.ones((3, 1)), rule, gradient)
        ends[gradient] = play(dynamics, [0, 0, 0], np.zeros((2_000, 3, 1))).strategies[-1]
    assert ends["full"] == pytest.approx(2.25, abs=1e-9)
    assert ends["paper"] == pytest.approx(3.0, abs=1e-9)
    assert solve_equilibrium(game, [0, 0, 0]).strategies == pytest.approx(2.25, abs=1e-14)


@pytest.mark.parametrize("graph", ["complete", "ring"])
def test_under_noise_the_error_falls_with_decaying_steps(graph: str) -> None:
    game, length = cournot(5), 3_000
    schedules = Schedules.of(
        length, noise="power:.5:.1:.1", step="inverse:1:1:.1:1", gamma="inverse:1:1:.1:.9"
    )
    dynamics = Dynamics(game, parse_graph(graph, 5), schedules, np.ones((5, 1)), "wang")
    scales = schedules.noise[:, None, None]
    noise = np.random.default_rng(10).laplace(size=(40, length, 5, 1)) * scales
    strategies = play(dynamics, [0] * 5, noise).strategies
    distances = distance_to(solve_equilibrium(game, [0] * 5), strategies[:, [30, 300, 2_999]])
    assert distances is not None
    early, middle, late = (distances**2).mean(axis=0)
    assert early > 2 * middle > 4 * late


@pytest.mark.parametrize("num_players", [4, 16])
@pytest.mark.parametrize("scale", [0.3, 0.6])
def test_rule_ye_keeps_the_error_of_all_the_noise_that_fades(
    scale: float, num_players: int
) -> None:
    """Estimates keep the sum d of the mean noises; 9 = 3 (x + d) + 3 x/N there, firm by firm."""
    game, length, runs = cournot(num_players), 150, 4_000
    schedules = Schedules.of(length, noise=f"geometric:{scale}:.8", step=".3")
    dynamics = Dynamics(game, CompleteGraph(num_players), schedules, np.ones((num_players, 1)))
    scales = schedules.noise[:, None, None]
    noise = np.random.default_rng(11).laplace(size=(runs, length, num_players, 1)) * scales
    last = play(dynamics, [0] * num_players, noise).strategies[:, -1, :, 0]
    apart = last - solve_equilibrium(game, [0] * num_players).strategies[:, 0]
    drift = noise.mean(axis=2).sum(axis=1)
    assert apart == pytest.approx(-drift / (1 + 1 / num_players) + 0 * apart, abs=1e-9)
    expected = 2 * scale**2 / (1 - 0.8**2) / num_players / (1 + 1 / num_players) ** 2
    assert (apart**2).mean() == pytest.approx(expected, rel=0.15)


def test_the_first_message_says_nothing() -> None:
    dynamics = dynamics_of("ye", Box(), CompleteGraph(3))
    noise = np.zeros((2, 3, 2))
    first, other = (play(dynamics, types, noise).messages for types in ([0, 0, 0], [1, 1, 1]))
    assert np.array_equal(first[0], other[0])
    assert not np.array_equal(first[1], other[1])


def test_parts_that_do_not_fit_are_refused() -> None:
    game, schedules, initial = cournot(), Schedules.of(2, noise="1", step="1"), np.ones((3, 1))
    with pytest.raises(ValueError, match="graph of 2 players: the game has 3"):
        Dynamics(game, CompleteGraph(2), schedules, initial)
    with pytest.raises(ValueError, match=r"weights of player 0 sum to 0\.4: must sum to 1"):
        Dynamics(game, WeightedGraph(LINE), schedules, initial)
    Dynamics(game, WeightedGraph(LINE), schedules, initial, "wang")
    with pytest.raises(ValueError, match=r"shape \(3,\): must be \(players, n\) = \(3, 1\)"):
        Dynamics(game, CompleteGraph(3), schedules, np.ones(3))
    with pytest.raises(ValueError, match=r"strategy of player 1 = \[nan\]: not finite"):
        Dynamics(game, CompleteGraph(3), schedules, [[1.0], [np.nan], [1.0]])
    with pytest.raises(ValueError, match=r"player 2 = \[9.0\]: is 8 outside the feasible set"):
        Dynamics(cournot(3, Box()), CompleteGraph(3), schedules, [[0.0], [1.0], [9.0]])


@pytest.mark.parametrize(
    ("noise", "error"),
    [
        (np.zeros((2, 3)), r"noise of shape \(2, 3\): must be \(iterations, 3, 1\)"),
        (np.zeros((2, 4, 1)), "noise of shape"),
        (np.zeros((3, 3, 1)), "noise of 3 iterations: the schedules have 2"),
        (np.zeros((0, 3, 1)), "noise of 0 iterations"),
        (np.full((2, 3, 1), np.inf), "noise: must be finite"),
    ],
)
def test_noise_that_does_not_fit_is_refused(noise: FloatArray, error: str) -> None:
    schedules = Schedules.of(2, noise="1", step="1")
    dynamics = Dynamics(cournot(), CompleteGraph(3), schedules, np.ones((3, 1)))
    with pytest.raises(ValueError, match=error):
        play(dynamics, [0, 0, 0], noise)
