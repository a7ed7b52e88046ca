"""Fictitious play against mixed equilibria known by hand and a brute-force certificate."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.equilibrium import MeanFieldGame, mean_field_equilibrium
from fedgame.games.privacy.fictitious_play import fictitious_play, product_exploitability
from fedgame.games.privacy.n_player import MeanCoupledGame, PlayerwiseGame, ProfileGame


def two_players(first: FloatArray, second: FloatArray) -> PlayerwiseGame:
    """Costs[a_1, a_2] of either player."""

    def disutility(k: int, own: float, others: FloatArray) -> float:
        mine, other = int(own), int(others[0])
        return float(first[mine, other] if k == 0 else second[other, mine])

    return PlayerwiseGame(np.arange(float(len(first))), 2, disutility)


PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])
SCISSORS = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])


@pytest.mark.parametrize("costs", [PENNIES, SCISSORS, np.array([[3.0, -1.0], [-2.0, 1.0]])])
def test_zero_sum_frequencies_approach_the_mixed_equilibrium(costs: FloatArray) -> None:
    game = two_players(costs, -costs)
    played = fictitious_play(game, np.zeros(2, dtype=int), max_rounds=4000, tolerance=0.0)
    assert not played.pure
    exact: dict[int, FloatArray] = {2: np.full((2, 2), 0.5), 3: np.full((2, 3), 1 / 3)}
    expected = exact[len(costs)]
    if costs[0, 0] == 3.0:
        # Indifference: 3 q - (1 - q) = -2 q + (1 - q), and 3 p - 2 (1 - p) = -p + (1 - p).
        expected = np.array([[3 / 7, 4 / 7], [2 / 7, 5 / 7]])
    assert played.frequencies == pytest.approx(expected, abs=0.04)
    assert product_exploitability(game, expected).largest <= 1e-12
    assert product_exploitability(game, played.frequencies).largest < 0.1
    # With two players both certificates are the same.
    both = product_exploitability(game, played.frequencies).gains
    assert played.exploitability.gains == pytest.approx(both, abs=1e-9)
    assert played.history[-1] < played.history[9]


def test_play_stops_at_a_pure_equilibrium() -> None:
    dilemma = np.array([[1.0, 3.0], [0.0, 2.0]])  # action 1 dominates
    played = fictitious_play(two_players(dilemma, dilemma.T), np.array([0, 0]))
    assert played.pure
    assert played.converged
    assert played.played.tolist() == [1, 1]
    assert played.rounds == 2
    assert played.last.largest == 0.0
    assert played.frequencies.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_shapleys_game_does_not_converge_and_says_so() -> None:
    # Each wants another of three actions than the other's next; play circles ever more slowly.
    first = -np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    second = -np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    played = fictitious_play(two_players(first, second), np.array([0, 0]), max_rounds=3000)
    uniform = np.full((2, 3), 1 / 3)
    game = two_players(first, second)
    assert product_exploitability(game, uniform).largest <= 1e-12
    assert not played.pure
    assert product_exploitability(game, played.frequencies).largest > 0.1


def test_equal_clients_mix_as_the_mean_field_does() -> None:
    # U(1) - U(0) = x - 0.3 against the mean x of the others: 30 % of the population play 1.
    def disutility(mean: float) -> FloatArray:
        return np.array([[0.3, mean]])

    grid = np.array([0.0, 1.0])
    field = mean_field_equilibrium(MeanFieldGame(grid, np.ones(1), disutility))
    game = MeanCoupledGame(grid, np.zeros(50, dtype=int), disutility)
    played = fictitious_play(game, np.zeros(50, dtype=int), max_rounds=3000, tolerance=1e-3)
    assert played.converged
    assert played.frequencies[:, 1].mean() == pytest.approx(field.mean_strength, abs=0.01)
    assert not played.pure
    assert played.exploitability.largest <= 1e-3


def test_the_certificate_of_a_mean_that_enters_affinely_is_exact() -> None:
    costs = np.array([[[0.3, 0.1], [0.0, 1.0]], [[0.5, 0.2], [0.1, -0.4]]])  # type, offset or slope
    game = MeanCoupledGame(
        np.array([0.0, 1.0]), np.array([0, 0, 1, 1]), lambda x: costs[:, 0] + costs[:, 1] * x
    )
    played = fictitious_play(game, np.zeros(4, dtype=int), max_rounds=7, tolerance=0.0)
    exact = product_exploitability(game, played.frequencies).gains
    assert played.exploitability.gains == pytest.approx(exact, abs=1e-12)


@given(arrays(np.float64, (3, 2, 2, 2), elements=st.floats(-1, 1)), st.data())
@settings(deadline=None, max_examples=40)
def test_beliefs_are_those_of_the_history(costs: FloatArray, data: st.DataObject) -> None:
    start = np.array(data.draw(st.tuples(*[st.integers(0, 1)] * 3)))
    profiles = []

    def disutility(profile: FloatArray) -> FloatArray:
        a = profile.astype(int)
        profiles.append(tuple(a))
        rows = [costs[0, :, a[1], a[2]], costs[1, a[0], :, a[2]], costs[2, a[0], a[1], :]]
        return np.array(rows)

    played = fictitious_play(ProfileGame(np.array([0.0, 1.0]), 3, disutility), start, 25, 0.0)
    assert len(profiles) == played.rounds == len(played.history)
    for k in range(3):
        share = np.mean([p[k] for p in profiles])
        fixed = [np.mean([costs[(k, *p[:k], a, *p[k + 1 :])] for p in profiles]) for a in (0, 1)]
        gain = (1 - share) * fixed[0] + share * fixed[1] - min(fixed)
        assert played.exploitability.gains[k] == pytest.approx(gain, abs=1e-12)
        assert played.frequencies[k, 1] == pytest.approx(share)
    assert played.converged is (played.pure or played.exploitability.largest <= 0.0)
    assert played.history[-1] == played.exploitability.largest


@pytest.mark.parametrize("num_players", [2, 3, 6])
def test_the_volunteers_dilemma_has_its_mixed_equilibrium(num_players: int) -> None:
    # It costs c to act; if nobody acts all lose 1. Indifferent where (1 - p)^(N - 1) = c.
    cost = 0.4

    def disutility(_: int, own: float, others: FloatArray) -> float:
        return cost if own else float(not others.any())

    game = PlayerwiseGame(np.array([0.0, 1.0]), num_players, disutility)
    p = 1 - cost ** (1 / (num_players - 1))
    mixed = np.tile([1 - p, p], (num_players, 1))
    assert product_exploitability(game, mixed).largest <= 1e-12
    wrong = np.tile([1 - p - 0.1, p + 0.1], (num_players, 1))
    # With p + .1, acting costs c and not acting less: the gain is that on the part that acts.
    expected = (p + 0.1) * (cost - (1 - p - 0.1) ** (num_players - 1))
    assert product_exploitability(game, wrong).gains == pytest.approx(expected, abs=1e-12)


@given(arrays(np.float64, (3, 3, 3, 3), elements=st.floats(-1, 1)))
@settings(deadline=None, max_examples=15)
def test_the_certificate_of_mixed_play_is_the_sum_over_all_profiles(costs: FloatArray) -> None:
    chances = np.array([[0.2, 0.5, 0.3], [0.0, 0.6, 0.4], [1.0, 0.0, 0.0]])

    def disutility(k: int, own: float, others: FloatArray) -> float:
        return float(costs[(k, *np.insert(others, k, own).astype(int))])

    found = product_exploitability(PlayerwiseGame(np.arange(3.0), 3, disutility), chances)
    for k in range(3):

        def expected(k: int, own: FloatArray) -> float:
            rows = [own if j == k else chances[j] for j in range(3)]
            return sum(
                float(rows[0][a] * rows[1][b] * rows[2][c] * costs[k, a, b, c])
                for a, b, c in product(range(3), repeat=3)
            )

        gain = expected(k, chances[k]) - min(expected(k, pure) for pure in np.eye(3))
        assert found.gains[k] == pytest.approx(gain, abs=1e-12)


def test_bad_questions_are_refused() -> None:
    game = two_players(PENNIES, -PENNIES)
    for rounds, tolerance in ((0, 0.1), (5, -0.1), (5, float("nan"))):
        with pytest.raises(ValueError, match="must be at least 1 and 0"):
            fictitious_play(game, np.zeros(2, dtype=int), rounds, tolerance)
    with pytest.raises(ValueError, match="start must be"):
        fictitious_play(game, np.zeros(3, dtype=int))
    with pytest.raises(ValueError, match="sum to 1"):
        product_exploitability(game, np.full((2, 2), 0.4))
    large = MeanCoupledGame(
        np.array([0.0, 1.0]), np.zeros(30, dtype=int), lambda _: np.zeros((1, 2))
    )
    with pytest.raises(ValueError, match="2 actions of 30 players: more than 200000"):
        product_exploitability(large, np.full((30, 2), 0.5))
