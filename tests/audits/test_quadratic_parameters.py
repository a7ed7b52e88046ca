"""Unknown parameters of quadratic games, and what can be gained without a message."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior
from fedgame.audits.quadratic_parameters import (
    Unknowns,
    blind_gain,
    candidate_parameters,
    true_parameters,
)
from fedgame.games.aggregative.base import GradientKind, pseudo_gradient, realised
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Everywhere
from fedgame.games.aggregative.vaccination import vaccination_game
from tests.audits.cases import KINDS, random_prior
from tests.games.aggregative.cases import named_game, random_game


@pytest.mark.parametrize("kind", ["full", "paper"])
@pytest.mark.parametrize("name", ["vaccination", "cournot", "energy"])
def test_true_parameters_give_the_true_gradient(name: str, kind: GradientKind) -> None:
    game = named_game(name, 5, dimension=3, per_player=True)
    types = np.array([0, 1, 1, 0, 1])
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(2, 5, 3))
    found = Unknowns.of(game, kind).gradient(true_parameters(game, types), x, v)
    np.testing.assert_allclose(found, pseudo_gradient(realised(game, types), x, v, 5, kind))


@pytest.mark.parametrize(
    ("name", "count"), [("vaccination", 3 + 9), ("cournot", 3 + 3), ("energy", 3 + 3)]
)
def test_what_is_the_same_for_all_is_known(name: str, count: int) -> None:
    """A and B of the vaccination game; linear costs and the diagonals of curvatures of others."""
    game = named_game(name, 4, dimension=3)
    assert Unknowns.of(game, "full").count == count
    assert candidate_parameters(game).shape == (4, 2, count)


def test_vaccination_parameters_are_a_and_b() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(size=(3, 2, 2)), rng.uniform(size=(3, 2, 2, 2))
    game = vaccination_game(a, b, Everywhere())
    found = true_parameters(game, [1, 0, 1])
    np.testing.assert_array_equal(found[0, :2], a[0, 1])
    np.testing.assert_array_equal(found[0, 2:].reshape(2, 2), -b[0, 1].T)


def test_nothing_may_be_unknown() -> None:
    game = QuadraticGame.of(np.ones((2, 2, 1)), curvature=1.0)
    assert Unknowns.of(game, "full").count == 0


@pytest.mark.parametrize("kind", ["full", "paper"])
@pytest.mark.parametrize("tied", [True, False])
def test_slope_is_the_derivative(kind: GradientKind, tied: bool) -> None:
    game = named_game("vaccination", 3, dimension=2) if tied else random_game(0, 3, 2, Everywhere())
    unknowns = Unknowns.of(game, kind)
    assert unknowns.tied == tied
    rng = np.random.default_rng(1)
    x, v, weights = rng.normal(size=(3, 4, 3, 2))
    theta = rng.normal(size=(4, 3, unknowns.count))
    slope = unknowns.slope(weights, x, v)
    for entry in range(unknowns.count):
        unit = np.zeros_like(theta)
        unit[..., entry] = 1
        rise = unknowns.gradient(theta + unit, x, v) - unknowns.gradient(theta, x, v)
        np.testing.assert_allclose(unknowns.change(unit, x, v), rise, atol=1e-12)
        np.testing.assert_allclose(slope[..., entry], (weights * rise).sum(axis=-1), atol=1e-12)


def test_blind_gain_of_positive_parameters_is_1_87() -> None:
    """Of many parameters uniform in [0, 1]: the cosine with (1, .., 1) tends to sqrt(3)/2."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(size=(6, 200, 4)), rng.uniform(size=(6, 200, 4, 4))
    game = vaccination_game(a, b, Everywhere())
    prior = product_prior(np.full((6, 200), 1 / 200))
    whole, individual = blind_gain(game, prior, rng)
    assert whole == pytest.approx(1 + np.sqrt(3) / 2, abs=0.01)
    np.testing.assert_allclose(individual, 1 + np.sqrt(3) / 2, atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_blind_gain_is_reached_and_is_the_best(kind: str) -> None:
    rng = np.random.default_rng(3)
    game = random_game(0, 3, 2, Everywhere())
    prior = random_prior(kind, 3, rng)
    whole, individual = blind_gain(game, prior, rng)
    profiles = np.array(list(itertools.product(range(2), repeat=3)))
    weights = np.exp(prior.log_probability(profiles))
    theta = true_parameters(game, profiles).reshape(8, -1)
    units = theta / np.linalg.norm(theta, axis=1, keepdims=True)
    best = weights @ units
    assert whole == pytest.approx(1 + weights @ (units @ best) / np.linalg.norm(best))
    for _ in range(100):
        guess = best + rng.normal(size=best.shape)
        assert 1 + weights @ (units @ guess) / np.linalg.norm(guess) <= whole
    first = true_parameters(game, profiles)[:, 0]
    mean = weights @ (first / np.linalg.norm(first, axis=1, keepdims=True))
    np.testing.assert_allclose(individual[0], 1 + np.linalg.norm(mean))


def test_drawn_profiles_come_near_to_all_of_them() -> None:
    """12 players have 4096 profiles; one more that has one type only makes them too many."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(13, 2, 1))
    rows[12] = 0.0
    twelve = QuadraticGame.of(rows[:12])
    prior = correlated_prior(12, 0.3, 0.5)
    certain = np.broadcast_to([[1.0, 0.0]], (len(prior.weights), 1, 2))
    more = Prior(prior.weights, np.concatenate([prior.probabilities, certain], axis=1))
    exact, individual = blind_gain(twelve, prior, rng)
    drawn, others = blind_gain(QuadraticGame.of(rows), more, rng)
    assert drawn == pytest.approx(exact, abs=0.02)
    assert exact > 1.2
    np.testing.assert_allclose(others[:12], individual)
    assert others[12] == 1
