"""Exploitability against textbook games and brute force over unilateral changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedgame.games.best_response import FloatArray, IntArray, best_response
from fedgame.games.certificate import exploitability, mixed_exploitability

ROCK_PAPER_SCISSORS = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])
"""Cost of the row player."""

TABLES = arrays(
    np.float64, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=st.floats(-9, 9)
)


def test_rock_against_rock_can_be_exploited_by_one_each() -> None:
    costs = np.stack([ROCK_PAPER_SCISSORS[:, 0], ROCK_PAPER_SCISSORS[:, 0]])
    certificate = exploitability(costs, np.array([0, 0]))
    assert certificate.gains.tolist() == [1.0, 1.0]
    assert (certificate.largest, certificate.total) == (1.0, 2.0)


def test_only_the_uniform_mix_is_an_equilibrium_of_rock_paper_scissors() -> None:
    uniform = np.full((2, 3), 1 / 3)
    costs = np.stack([ROCK_PAPER_SCISSORS @ uniform[1], ROCK_PAPER_SCISSORS @ uniform[0]])
    assert mixed_exploitability(costs, uniform).total == pytest.approx(0, abs=1e-15)

    biased = np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]])
    costs = np.stack([ROCK_PAPER_SCISSORS @ biased[1], ROCK_PAPER_SCISSORS @ biased[0]])
    # Paper beats a biased rock by 1/4 on average; the symmetric profile itself is worth 0.
    assert mixed_exploitability(costs, biased).gains == pytest.approx([0.25, 0.25])


def test_defecting_is_the_equilibrium_of_the_prisoners_dilemma() -> None:
    years = np.array([[1.0, 3.0], [0.0, 2.0]])  # own action by the other's; 1 is to defect
    for mine in (0, 1):
        for other in (0, 1):
            costs = np.stack([years[:, other], years[:, mine]])
            certificate = exploitability(costs, np.array([mine, other]))
            assert (certificate.largest == 0) == (mine == other == 1)
            assert certificate.total == 2 - mine - other


@given(TABLES, st.data())
def test_gains_are_those_of_the_best_unilateral_change(
    table: FloatArray, data: st.DataObject
) -> None:
    clients, actions = table.shape
    played = np.array([data.draw(st.integers(0, actions - 1)) for _ in range(clients)])
    expected = [max(row[p] - value for value in row) for row, p in zip(table, played, strict=True)]
    certificate = exploitability(table, played)
    assert certificate.gains.tolist() == expected
    assert certificate.largest == max(expected)
    assert certificate.total == pytest.approx(sum(expected))


@given(TABLES)
def test_best_responses_gain_nothing(table: FloatArray) -> None:
    assert exploitability(table, best_response(table)).total == 0


@given(TABLES, st.data())
def test_a_mix_that_plays_one_action_is_the_pure_profile(
    table: FloatArray, data: st.DataObject
) -> None:
    clients, actions = table.shape
    played = np.array([data.draw(st.integers(0, actions - 1)) for _ in range(clients)])
    mixed = mixed_exploitability(table, np.eye(actions)[played])
    assert np.array_equal(mixed.gains, exploitability(table, played).gains)


def test_an_unplayed_action_may_be_infinitely_bad() -> None:
    table = np.array([[np.inf, 2.0, 1.0]])
    assert exploitability(table, np.array([1])).largest == 1
    assert mixed_exploitability(table, np.array([[0.0, 1.0, 0.0]])).largest == 1
    assert exploitability(table, np.array([0])).largest == np.inf


@pytest.mark.parametrize(
    ("table", "played", "said"),
    [
        (np.zeros((2, 2)), np.array([0]), "must be 2 indices"),
        (np.zeros((2, 2)), np.array([0.0, 1.0]), "must be 2 indices"),
        (np.zeros((2, 2)), np.array([0, 2]), "from 0 to 1"),
        (np.zeros((2, 2)), np.array([0, -1]), "from 0 to 1"),
        (np.array([[np.nan, 1.0]]), np.array([1]), "NaN"),
        (np.array([[np.inf, np.inf]]), np.array([0]), "finite"),
        (np.zeros(3), np.array([0]), "is needed"),
        (np.zeros((0, 3)), np.zeros(0, dtype=np.int64), "is needed"),
    ],
)
def test_what_is_no_profile_is_refused(table: FloatArray, played: IntArray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        exploitability(table, played)


@pytest.mark.parametrize(
    "probabilities", [[[0.5, 0.4]], [[1.5, -0.5]], [[np.nan, 1.0]], [[1.0]], [0.5, 0.5]]
)
def test_what_is_no_distribution_is_refused(probabilities: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="probabilities"):
        mixed_exploitability(np.zeros((1, 2)), np.array(probabilities))
