"""An attack on burnt-in particles against the flow accountant's mu, in one round and in many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedgame.accountants.flow import BurnIn, flow_mu
from fedgame.audits.flow_attack import FlowGame, attack_flow

STRENGTH, TAU, RADIUS = 1.0, 0.1, 1.0
NOISE = float(np.sqrt(2 * STRENGTH * TAU))
SURE = 1 - 1e-6
RUNS = 20_000


def burn_in(steps: int, smoothness: float, examples: int = 1, relation: Any = None) -> BurnIn:
    return BurnIn(
        radius=RADIUS,
        strength=STRENGTH,
        tau=TAU,
        steps=steps,
        smoothness=smoothness,
        num_examples=examples,
        neighbours=relation or "example-replace",
        first_send=steps,
        public_settings=True,
        particles_only=True,
        labels="none",
        projection=False,
    )


def linear(smoothness: float) -> Callable[[Any], Any]:
    """Return the flow of a loss that drives particles apart at its full rate everywhere."""
    return lambda x: (1 - TAU * STRENGTH + TAU * smoothness) * x


def bent(smoothness: float) -> Callable[[Any], Any]:
    """Return the flow of a loss that drives particles apart at its full rate near 0 alone."""
    return lambda x: (1 - TAU * STRENGTH) * x + TAU * smoothness * np.tanh(x)


def game(flow: Callable[[Any], Any], steps: int, rounds: int = 1, dim: int = 2) -> FlowGame:
    end = np.zeros(dim)
    end[0] = RADIUS
    return FlowGame(flow, np.stack([-end, end]), NOISE, steps, rounds)


@pytest.mark.parametrize("rounds", [1, 10])
@pytest.mark.parametrize(("steps", "smoothness"), [(1, 0.0), (10, 0.0), (10, 0.3)])
def test_a_linear_flow_attains_its_mu_and_no_more(
    steps: int, smoothness: float, rounds: int
) -> None:
    mu = burn_in(steps, smoothness).mu
    played = game(linear(smoothness), steps, rounds)
    found = attack_flow(played, RUNS, np.random.default_rng(1), SURE)
    # an accountant that were 30 % too low would be refuted for certain
    assert 0.7 * mu < found.mu() < mu


def test_with_one_in_twenty_a_linear_flow_s_mu_is_found_to_a_few_percent() -> None:
    found = attack_flow(game(linear(0.3), 10), 100_000, np.random.default_rng(8))
    assert 0.97 * burn_in(10, 0.3).mu < found.mu() < burn_in(10, 0.3).mu


@pytest.mark.parametrize("rounds", [1, 10])
def test_a_bent_flow_stays_below_its_mu(rounds: int) -> None:
    mu = burn_in(10, 0.8).mu
    found = attack_flow(game(bent(0.8), 10, rounds), RUNS, np.random.default_rng(2), SURE)
    # tanh is flat where the two examples are, so that its particles are driven apart less
    assert 0.5 * mu < found.mu() < 0.95 * mu


def test_where_a_bent_flow_is_straight_its_mu_is_attained() -> None:
    near = FlowGame(bent(0.8), np.array([[-0.01], [0.01]]), 0.01 * NOISE, 10)
    mu = float(flow_mu(0.02, 10, 1 - TAU * (STRENGTH - 0.8), 1e-4 * STRENGTH, TAU))
    assert mu == pytest.approx(burn_in(10, 0.8).mu)
    found = attack_flow(near, RUNS, np.random.default_rng(3))
    assert 0.93 * mu < found.mu() < mu


def test_an_earlier_look_tells_more_than_the_burn_in_allows() -> None:
    # sent at step 5 of 10: why the accountant refuses to cover it
    early = attack_flow(game(linear(0.0), 5, rounds=6), RUNS, np.random.default_rng(4), SURE)
    assert early.mu() > burn_in(10, 0.0).mu


def test_all_particles_of_a_client_together_tell_as_much_as_its_distance() -> None:
    whole = burn_in(10, 0.0, examples=4, relation="client-replace")
    ends = np.ones(4)  # four examples of dimension 1, one after the other
    client = FlowGame(linear(0.0), np.stack([-ends, ends]), NOISE, 10)
    found = attack_flow(client, RUNS, np.random.default_rng(5))
    assert 0.93 * whole.mu < found.mu() < whole.mu
    assert whole.mu == pytest.approx(2 * burn_in(10, 0.0).mu)


def test_a_long_burn_in_leaves_nothing_to_find() -> None:
    found = attack_flow(game(linear(0.0), 60, rounds=5), 5000, np.random.default_rng(6))
    assert found.mu() == 0.0
    assert burn_in(60, 0.0).mu < 0.01


def test_play_is_the_flow_itself() -> None:
    one = game(linear(0.0), steps=3, rounds=2)
    seen = one.play(4, np.random.default_rng(7), world=1)
    assert seen.shape == (4, 2, 2)
    rng = np.random.default_rng(7)
    particles = np.tile([RADIUS, 0.0], (4, 1))
    for _ in range(3):
        particles = 0.9 * particles + NOISE * rng.standard_normal((4, 2))
    assert seen[:, 0] == pytest.approx(particles)


@pytest.mark.parametrize(
    ("starts", "steps", "noise", "said"),
    [
        (np.zeros((3, 1)), 1, 1.0, "starts: must be two finite vectors"),
        (np.array([[0.0], [np.nan]]), 1, 1.0, "starts: must be two finite vectors"),
        (np.zeros((2, 1)), 0, 1.0, "burn_in = 0"),
        (np.zeros((2, 1)), 1, 0.0, r"noise_std = 0\.0"),
    ],
)
def test_no_such_flow_is_played(starts: Any, steps: int, noise: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FlowGame(linear(0.0), starts, noise, steps)
