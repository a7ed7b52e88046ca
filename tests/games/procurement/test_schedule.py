"""Schedules: as often as the probabilities say, in the order that turns count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedgame.games.procurement.schedule import draw_schedule, implied_q
from fedgame.messages.training import turns

P = np.array([0.4, 0.0, 0.2, 0.25, 0.15])


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_an_iid_schedule_draws_by_the_probabilities() -> None:
    counts = np.bincount(draw_schedule(P, 4000, 5, "iid", _rng()).ravel(), minlength=5)
    assert counts[1] == 0
    chosen = P > 0
    assert stats.chisquare(counts[chosen], 20_000 * P[chosen]).pvalue > 1e-3


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(1, 30), st.integers(1, 6),
       st.integers(0, 10**6))  # fmt: skip
def test_a_systematic_schedule_rounds_the_expected_draws(
    weights: list[float], rounds: int, draws: int, seed: int
) -> None:
    p = np.array(weights) + 1e-3
    p /= p.sum()
    schedule = draw_schedule(p, rounds, draws, "systematic", _rng(seed))
    counts = np.bincount(schedule.ravel(), minlength=len(p))
    expected = rounds * draws * p
    for count, mean in zip(counts, expected, strict=True):
        assert math.floor(mean - 1e-9) <= count <= math.ceil(mean + 1e-9)
    assert counts.sum() == rounds * draws


def test_a_systematic_schedule_has_no_favourite_round() -> None:
    rounds = np.array(
        [
            (draw_schedule(P, 10, 2, "systematic", _rng(seed)) == 4).any(axis=1)
            for seed in range(800)
        ]
    )
    share = rounds.mean(axis=0)
    assert share.std() < 4 * math.sqrt(share.mean() / 800)


@pytest.mark.parametrize("kind", ["iid", "systematic"])
def test_a_certain_client_has_every_draw(kind: str) -> None:
    schedule = draw_schedule(np.array([0.0, 1.0, 0.0]), 3, 4, kind, _rng())  # type: ignore[arg-type]
    assert (schedule == 1).all()
    assert schedule.shape == (3, 4)


def test_rounds_are_sorted_and_reproducible() -> None:
    one, other = (draw_schedule(P, 50, 6, "iid", _rng(3)) for _ in range(2))
    assert np.array_equal(one, other)
    assert (np.diff(one, axis=1) >= 0).all()
    assert not np.array_equal(one, draw_schedule(P, 50, 6, "iid", _rng(4)))


@given(st.lists(st.integers(0, 4), max_size=12))
def test_turns_count_the_equal_entries_before(values: list[int]) -> None:
    clients = np.sort(np.array(values, dtype=np.int64))
    expected = [clients[:place].tolist().count(client) for place, client in enumerate(clients)]
    assert turns(clients).tolist() == expected


def test_the_implied_q_is_that_of_exact_accounting() -> None:
    """At q = .1 and epsilon = 1 the Rényi accountant gives 37.0, 18.3, 16.6 for these T."""
    from fedgame.accountants.batch_calibration import noise_multipliers_for
    from fedgame.accountants.rdp import RdpAccountant

    draws = np.array([10, 100, 1000, 0])
    z = np.zeros(4)
    z[:3] = noise_multipliers_for(
        np.ones(3), 1e-5, 0.1, draws[:3], "example", RdpAccountant(), tolerance=1e-4
    )
    ratios = implied_q(z, np.ones(4), draws, 0.1)
    assert ratios[:3] == pytest.approx([37.0, 18.3, 16.6], abs=0.06)
    assert np.isnan(ratios[3])
