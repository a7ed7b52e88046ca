"""N-player games against enumeration of all profiles and a replay in plain Python."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.privacy.fictitious_play import fictitious_play
from fedgame.games.privacy.mapg import mapg_best_response, mapg_disutility
from fedgame.games.privacy.n_player import (
    MeanCoupledGame,
    Order,
    PlayerwiseGame,
    ProfileGame,
    iterated_best_response,
)

ORDERS: list[Order] = ["damped", "one-at-a-time", "simultaneous"]
COSTS = st.integers(-3, 3).map(float)


def tabulated(costs: FloatArray) -> PlayerwiseGame:
    """The game costs[k, a_1, ..., a_N], actions numbered from 0."""
    players, actions = costs.shape[0], costs.shape[1]

    def disutility(k: int, own: float, others: FloatArray) -> float:
        profile = np.insert(others, k, own).astype(int)
        return float(costs[(k, *profile)])

    return PlayerwiseGame(np.arange(float(actions)), players, disutility)


def pure_equilibria(costs: FloatArray) -> set[tuple[int, ...]]:
    """Every profile in which no player can gain, by trying every change of every player."""
    players, actions = costs.shape[0], costs.shape[1]
    found = set()
    for profile in product(range(actions), repeat=players):
        changes = [
            (k, (*profile[:k], action, *profile[k + 1 :]))
            for k in range(players)
            for action in range(actions)
        ]
        if all(costs[(k, *changed)] >= costs[(k, *profile)] for k, changed in changes):
            found.add(profile)
    return found


GAMES = st.sampled_from([(2, 2, 2), (2, 3, 3), (3, 2, 2, 2), (3, 3, 3, 3)]).flatmap(
    lambda shape: arrays(np.float64, shape, elements=COSTS)
)


@given(GAMES, st.sampled_from(ORDERS))
@settings(deadline=None, max_examples=150)
def test_play_ends_in_an_equilibrium_of_the_enumeration_or_in_a_cycle(
    costs: FloatArray, order: Order
) -> None:
    game = tabulated(costs)
    path = iterated_best_response(game, np.zeros(len(costs), dtype=int), order)
    is_equilibrium = tuple(path.played.tolist()) in pure_equilibria(costs)
    assert path.converged is is_equilibrium
    assert path.converged is (path.exploitability.largest == 0.0)
    assert (path.cycle_length > 0) is not path.converged
    assert len(path.history) == path.rounds + 1
    assert path.history[-1] == path.exploitability.largest


@given(arrays(np.float64, (3, 3, 3), elements=COSTS))
@settings(deadline=None)
def test_one_at_a_time_finds_an_equilibrium_of_a_potential_game(potential: FloatArray) -> None:
    # All share one cost, and each also pays something that only the others decide.
    own = [np.arange(27.0).reshape(3, 3, 3).sum(axis=k, keepdims=True) for k in range(3)]
    costs = np.array([potential + extra for extra in own])
    path = iterated_best_response(tabulated(costs), np.array([2, 0, 1]), "one-at-a-time")
    assert path.converged
    assert tuple(path.played.tolist()) in pure_equilibria(costs)


def test_matching_pennies_is_reported_as_a_cycle_of_four() -> None:
    pennies = np.array([[1.0, -1.0], [-1.0, 1.0]])
    game = tabulated(np.array([pennies, -pennies]))
    for order in ORDERS:
        path = iterated_best_response(game, np.array([0, 0]), order)
        assert not path.converged
        assert path.cycle_length == 4
        assert path.exploitability.largest == 2.0


def test_the_period_is_that_of_a_replay() -> None:
    # Substitutes: 1 is better while fewer than half of the others play it, and all overshoot.
    game = MeanCoupledGame(
        np.array([0.0, 1.0]), np.zeros(6, dtype=int), lambda x: np.array([[1 - x, x]])
    )
    path = iterated_best_response(game, np.zeros(6, dtype=int), "simultaneous")
    profile: tuple[int, ...] = (0,) * 6
    seen: list[tuple[int, ...]] = []
    while profile not in seen:
        seen.append(profile)
        means = [(sum(profile) - own) / 5 for own in profile]
        profile = tuple(int(mean < 0.5) for mean in means)  # five others: never exactly half
    assert path.cycle_length == len(seen) - seen.index(profile) == 2
    for order in ORDERS[:2]:
        ended = iterated_best_response(game, np.zeros(6, dtype=int), order)
        assert ended.converged
        assert ended.strengths.sum() == 3.0


# --- games through the mean -----------------------------------------------------------------------

GRID = np.array([0.1, 0.3, 0.5, 1.0, 2.0])


def through_the_mean(betas: FloatArray, mean: float) -> FloatArray:
    return np.asarray((GRID + mean - betas[:, None]) ** 2 + 0.1 * betas[:, None] * np.sin(GRID))


@given(st.lists(st.integers(0, 2), min_size=2, max_size=7), st.data())
@settings(deadline=None)
def test_a_table_through_the_mean_is_that_of_a_loop(types: list[int], data: Any) -> None:
    betas = np.array([0.4, 1.0, 2.5])
    played = data.draw(arrays(np.int64, len(types), elements=st.integers(0, 4)))
    game = MeanCoupledGame(GRID, np.array(types), lambda mean: through_the_mean(betas, mean))

    def slow(k: int, own: float, others: FloatArray) -> float:
        column = int(np.flatnonzero(own == GRID)[0])
        return float(through_the_mean(betas, float(others.mean()))[types[k], column])

    loop = PlayerwiseGame(GRID, len(types), slow).table(played)
    assert game.table(played) == pytest.approx(loop, rel=1e-12)

    def whole(profile: FloatArray) -> FloatArray:
        means = (profile.sum() - profile) / (len(profile) - 1)
        mine = betas[types]
        rows = [through_the_mean(mine[[k]], mean)[0] for k, mean in enumerate(means)]
        return np.array(rows)

    assert ProfileGame(GRID, len(types), whole).table(played) == pytest.approx(loop, rel=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_mapg_is_solved_to_the_nearest_budgets(order: Order) -> None:
    kappa = np.array([0.2, 1.0, 3.0, 8.0])
    betas = np.array([0.004, 0.03, 0.01, 0.2])
    budgets = np.geomspace(0.05, 5.0, 400)

    def disutility(profile: FloatArray) -> FloatArray:
        actions = np.broadcast_to(budgets, (4, 400))
        return mapg_disutility(actions, profile, kappa, betas, 0.5, 0.3)

    game = ProfileGame(budgets, 4, disutility)
    path = iterated_best_response(game, np.zeros(4, dtype=int), order)
    closed = mapg_best_response(kappa, betas, 0.5, 0.3, 4, 0.05, 5.0)
    assert path.converged
    assert path.cycle_length == 0
    assert np.log(path.strengths / closed) == pytest.approx(np.zeros(4), abs=np.log(100) / 399)
    assert 0.05 < closed.min() < closed.max() < 5.0  # the closed form is interior: a real check
    # Budgets are dominant strategies: each player moves at most once.
    assert path.rounds == (4 if order == "one-at-a-time" else 1)


def test_a_hundred_thousand_players_take_seconds() -> None:
    num_players = 100_000
    betas = np.linspace(0.5, 2.0, num_players)[:, None]
    grid = np.linspace(0.0, 2.0, 6)

    def disutility(profile: FloatArray) -> FloatArray:
        means = (profile.sum() - profile) / (num_players - 1)
        return np.asarray((grid + means[:, None] - betas) ** 2)

    begin = time.process_time()
    game = ProfileGame(grid, num_players, disutility)
    path = iterated_best_response(game, np.zeros(num_players, dtype=int))
    assert path.converged
    assert path.exploitability.largest == 0.0
    assert time.process_time() - begin < 30


def test_a_stake_of_one_in_n_squared_is_not_taken_for_none() -> None:
    num_players = 100_000

    def disutility(mean: float) -> FloatArray:
        total = GRID + (num_players - 1) * mean
        return np.asarray((0.01 * total + 0.05 / GRID) / num_players**2)[None, :]

    game = MeanCoupledGame(GRID, np.zeros(num_players, dtype=int), disutility)
    path = iterated_best_response(game, np.zeros(num_players, dtype=int))
    assert path.converged
    assert (path.strengths == 2.0).all()
    assert path.history[0] < 1e-10


# --- what a user sees when it goes wrong ----------------------------------------------------------


def test_rounds_that_run_out_are_flagged() -> None:
    potential = np.array([[3.0, 2.0], [1.0, 0.0]])
    game = tabulated(np.array([potential, potential]))
    path = iterated_best_response(game, np.array([0, 0]), "one-at-a-time", max_rounds=1)
    assert (path.converged, path.cycle_length, path.rounds) == (False, 0, 1)
    assert path.exploitability.largest == 1.0
    assert path.played.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (np.array([0, 5]), "indices from 0 to 1"),
        (np.array([-1, 0]), "indices from 0 to 1"),
        (np.array([0.0, 1.0]), "must be 2 indices"),
        (np.array([0]), "must be 2 indices"),
    ],
)
def test_a_start_that_is_no_profile_is_refused(start: IntArray, said: str) -> None:
    game = tabulated(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match=said):
        iterated_best_response(game, start)


def test_an_unknown_order_is_refused() -> None:
    order: Any = "random"
    with pytest.raises(ValueError, match="order = 'random': must be one of damped"):
        iterated_best_response(tabulated(np.zeros((2, 2, 2))), np.zeros(2, dtype=int), order)


@pytest.mark.parametrize(
    ("types", "said"),
    [
        (np.array([0]), "at least two players"),
        (np.array([0.5, 1.0]), "at least two players"),
        (np.array([-1, 0]), "index -1 is below 0"),
    ],
)
def test_bad_types_are_refused(types: IntArray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        MeanCoupledGame(GRID, types, lambda _: np.zeros((1, 5)))


def test_one_action_leaves_nothing_to_choose_and_says_so() -> None:
    game = ProfileGame(np.array([0.3]), 4, lambda _: np.full((4, 1), 7.0))
    for found in (
        iterated_best_response(game, np.zeros(4, dtype=np.int64)),
        fictitious_play(game, np.zeros(4, dtype=np.int64)),
    ):
        assert found.trivial
        assert found.converged
        assert found.exploitability.total == 0
    two = ProfileGame(np.array([0.3, 0.4]), 4, lambda _: np.full((4, 2), 7.0))
    assert not iterated_best_response(two, np.zeros(4, dtype=np.int64)).trivial


def test_bad_disutilities_are_refused_by_name() -> None:
    pair = np.array([0, 1])
    played = np.array([0, 0])
    unbounded = MeanCoupledGame(np.array([0.0, 1.0]), pair, lambda _: np.full((2, 2), np.inf))
    with pytest.raises(ValueError, match=r"type 0 at strength 0 against others' mean 0 is inf"):
        unbounded.table(played)
    too_few = MeanCoupledGame(np.array([0.0, 1.0]), pair, lambda _: np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"\(1, 2\): \(2, 2\) is needed"):
        too_few.table(played)
    undefined = PlayerwiseGame(np.array([0.0, 1.0]), 2, lambda k, own, _: np.nan if k else own)
    with pytest.raises(ValueError, match="player 1 at action 0 is nan"):
        undefined.table(played)
    flat = ProfileGame(np.array([0.0, 1.0]), 2, lambda _: np.zeros(2))
    with pytest.raises(ValueError, match=r"\(2,\): \(2, 2\) is needed"):
        flat.table(played)
    with pytest.raises(ValueError, match="num_players = 0"):
        ProfileGame(np.array([0.0, 1.0]), 0, lambda _: np.zeros((0, 2)))
