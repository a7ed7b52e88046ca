"""The gradient-matching adversary against a plain loop, and in the experiment of the PML paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgame.accountants.pml_logs import FloatArray, IntArray
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior
from fedgame.audits.gradient_matching import GradientMatching, matching_gains
from fedgame.audits.quadratic_parameters import true_parameters
from fedgame.games.aggregative.dynamics import Dynamics, play
from fedgame.games.aggregative.graphs import CompleteGraph, ring
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.sets import Box, Everywhere
from fedgame.games.aggregative.vaccination import vaccination_game
from tests.audits.cases import hidden, random_run
from tests.games.aggregative.cases import named_game

NOISES = (None, "power:1:0.5:1", "power:1:1:1", "power:1:1.5:1")
"""No, low, medium and high noise of the PML paper, Fig. 1."""


def quadratic(dynamics: Dynamics) -> QuadraticGame:
    assert isinstance(dynamics.game, QuadraticGame)
    return dynamics.game


def vaccination_run(
    seed: int, noise: str | None, *, iterations: int = 40, players: int = 5, paper: bool = False
) -> tuple[Dynamics, FloatArray, IntArray]:
    """One draw of the vaccination game of the paper, its transcript and its types."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0, 1, (players, 2, 3)), rng.uniform(0, 1, (players, 2, 3, 3))
    dynamics = Dynamics(
        vaccination_game(a, b, Everywhere()),
        CompleteGraph(players),
        Schedules.of(iterations, noise=noise or "1", step="inverse:1:1:0.1"),
        np.full((players, 3), 1 / 3),
        "ye",
        "paper" if paper else "full",
    )
    types = correlated_prior(players, 0.3, 0.5).draw(rng, 1)[0]
    scales = dynamics.schedules.noise[:, None, None] if noise else 0.0
    lap = rng.laplace(size=(iterations, players, 3)) * scales
    return dynamics, play(dynamics, types, lap).messages, types


def plain_loop(
    dynamics: Dynamics,
    o: FloatArray,
    start: FloatArray,
    step: float,
    sign: int = -1,
    *,
    limited: bool = False,
) -> FloatArray:
    """Eq. 9 with the paper's gradient A - B^T o: sign is -1, or 1 as it is printed."""
    lr, (count, players, n) = dynamics.schedules.step, o.shape
    kept = [start]
    for k in range(count - 1):
        rows = []
        for i in range(players):
            a, b = kept[-1][i, :n], -kept[-1][i, n:].reshape(n, n).T
            residual = o[k].mean(axis=0) + sign * lr[k] * (a - b.T @ o[k, i]) - o[k + 1, i]
            of_a = sign * 2 * lr[k] * residual
            of_b = -np.outer(o[k, i], of_a)
            least = 1 / (2 * lr[k] ** 2 * (1 + o[k, i] @ o[k, i]))
            size = min(step, least) if limited else step
            rows.append(np.concatenate([a - size * of_a, -(b - size * of_b).T.ravel()]))
        kept.append(np.array(rows))
    return np.array(kept)


@pytest.mark.parametrize("noise", [None, "0.5"])
@pytest.mark.parametrize(("step", "limited"), [(0.01, False), (0.2, True)])
def test_a_plain_loop_finds_the_same(noise: str | None, step: float, *, limited: bool) -> None:
    dynamics, o, types = vaccination_run(0, noise, iterations=6, paper=True)
    start = np.random.default_rng(3).standard_normal((5, 12))
    adversary = GradientMatching(step_size=step, limited=limited)
    found = adversary.guess(dynamics, o, np.random.default_rng(3))
    expected = plain_loop(dynamics, o, start, step, limited=limited)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    gains = adversary.gains(dynamics, o, types, np.random.default_rng(3))
    theta = true_parameters(quadratic(dynamics), types)
    cosine = (found[-1] * theta).sum() / np.linalg.norm(found[-1]) / np.linalg.norm(theta)
    np.testing.assert_allclose(gains.whole[-1], 1 + cosine)


def test_the_printed_sign_drives_the_guess_away() -> None:
    right: list[float] = []
    wrong: list[float] = []
    for seed in range(30):
        dynamics, o, types = vaccination_run(seed, None, iterations=20, paper=True)
        theta = true_parameters(quadratic(dynamics), types)
        start = np.random.default_rng(seed).standard_normal((5, 12))
        for sign, kept in ((-1, right), (1, wrong)):
            guess = plain_loop(dynamics, o, start, 1.0, sign, limited=True)[-1]
            kept.append(float(matching_gains(theta, guess).whole))
    assert np.mean(right) > 1.4
    assert np.mean(wrong) < 0.6


@pytest.fixture(scope="module")
def figure_1() -> FloatArray:
    """Mean gains by iteration without noise and with three levels of it, shape (4, K)."""
    means = []
    for noise in NOISES:
        kept = []
        for seed in range(40):
            dynamics, o, types = vaccination_run(seed, noise, iterations=25)
            rng = np.random.default_rng(seed)
            kept.append(GradientMatching().gains(dynamics, o, types, rng).whole)
        means.append(np.mean(kept, axis=0))
    return np.array(means)


def test_gain_rises_without_noise(figure_1: FloatArray) -> None:
    quiet = figure_1[0]
    assert 0.9 < quiet[0] < 1.1
    assert quiet[-1] > 1.55
    assert (np.diff(quiet[1:8]) > 0).all()


def test_gain_falls_with_noise(figure_1: FloatArray) -> None:
    assert (np.diff(figure_1[:, -1]) < -0.01).all()
    assert figure_1[-1, -1] > 1.2


@pytest.mark.parametrize("rule", ["ye", "wang"])
@pytest.mark.parametrize("feasible", [Everywhere(), Box(-50, 50)])
def test_what_can_be_identified_is_found(rule: str, feasible: Everywhere | Box) -> None:
    """A alone is unknown, B is public: without noise the gain reaches 2, for each player."""
    rng = np.random.default_rng(1)
    a = rng.uniform(-1, 1, (5, 2, 3))
    b = np.broadcast_to(-np.eye(3), (5, 2, 3, 3))
    dynamics = Dynamics(
        vaccination_game(a, b, feasible),
        ring(5),
        Schedules.of(30, noise="1", step="0.4", gamma="0.5"),
        np.full((5, 3), 0.3),
        "ye" if rule == "ye" else "wang",
    )
    types = np.array([0, 1, 1, 0, 1])
    o = play(dynamics, types, np.zeros((30, 5, 3))).messages
    found = GradientMatching(passes=20).gains(dynamics, o, types, rng)
    assert (found.individual[-1] > 2 - 1e-6).all()
    assert found.whole[-1] > 2 - 1e-6


@pytest.mark.parametrize("name", ["cournot", "energy"])
def test_other_games_are_attacked_too(name: str) -> None:
    game = named_game(name, 6, dimension=2, per_player=True)
    dynamics = Dynamics(
        game, CompleteGraph(6), Schedules.of(30, noise="1", step="0.2"), np.ones((6, 2))
    )
    types = np.array([0, 1, 0, 1, 0, 1])
    o = play(dynamics, types, np.zeros((30, 6, 2))).messages
    several = np.broadcast_to(o, (5, *o.shape))
    for passes, low, high in ((1, 1.2, 1.8), (100, 1.97, 2.0)):
        rng = np.random.default_rng(0)
        gains = GradientMatching(passes=passes).gains(dynamics, several, types, rng).whole
        assert low < gains[:, -1].mean() < high


def test_transcripts_on_leading_axes_are_attacked_one_by_one() -> None:
    run = random_run(2, "product", holes=False)
    rng = np.random.default_rng(0)
    many = rng.normal(size=(2, 3, *run.transcript.messages.shape))
    types = run.prior.draw(rng, 6).reshape(2, 3, -1)
    sent = rng.random(many.shape[:-1]) < 0.7
    together = GradientMatching().guess(run.dynamics, many, np.random.default_rng(5), sent)
    gains = GradientMatching().gains(run.dynamics, many, types, np.random.default_rng(5), sent)
    again = np.random.default_rng(5)
    for place in np.ndindex(2, 3):
        alone = GradientMatching().guess(run.dynamics, many[place], again, sent[place])
        np.testing.assert_array_equal(together[place], alone)
        theta = true_parameters(quadratic(run.dynamics), types[place])
        expected = matching_gains(theta, alone[-1])
        np.testing.assert_allclose(gains.whole[(*place, -1)], expected.whole)
        np.testing.assert_allclose(gains.individual[(*place, -1)], expected.individual)


def test_what_was_not_sent_teaches_nothing() -> None:
    dynamics, o, _ = vaccination_run(0, "0.5", iterations=4)
    sent = np.ones((4, 5), dtype=bool)
    sent[2, 1] = False
    found = GradientMatching().guess(dynamics, o, np.random.default_rng(0), sent)
    moved = np.abs(np.diff(found, axis=0)).max(axis=-1) > 0
    np.testing.assert_array_equal(moved, sent[1:])


def test_large_noise_cannot_make_the_limited_step_diverge() -> None:
    run = random_run(0, "product", iterations=30, holes=False)
    o = 1e6 * run.transcript.messages
    limited = GradientMatching().guess(run.dynamics, o, np.random.default_rng(0))
    plain = GradientMatching(limited=False).guess(run.dynamics, o, np.random.default_rng(0))
    assert np.abs(limited).max() < 100
    assert np.abs(plain).max() > 1e100


@pytest.mark.parametrize("size", [1e100, 1e200, 1e300])
def test_messages_too_large_for_floats_teach_nothing(size: float) -> None:
    run = random_run(0, "product", iterations=10, holes=False)
    o = run.transcript.messages.copy()
    o[5:] *= size
    found = GradientMatching().gains(run.dynamics, o, run.types, np.random.default_rng(0))
    assert np.isfinite(found.whole).all()
    assert np.isfinite(found.individual).all()


def test_more_passes_come_nearer() -> None:
    found = []
    for passes in (1, 3, 30):
        gains = []
        for seed in range(10):
            dynamics, o, types = vaccination_run(seed, None, iterations=8)
            adversary = GradientMatching(step_size=0.05, passes=passes)
            rng = np.random.default_rng(seed)
            gains.append(adversary.gains(dynamics, o, types, rng).whole[-1])
        found.append(np.mean(gains))
    assert found[0] < found[1] < found[2]


def test_one_message_leaves_the_first_guess() -> None:
    dynamics, o, _ = vaccination_run(0, None, iterations=1)
    found = GradientMatching(passes=2).guess(dynamics, o, np.random.default_rng(4))
    np.testing.assert_array_equal(found[0], np.random.default_rng(4).standard_normal((5, 12)))


def test_gains_of_nothing_are_1() -> None:
    found = matching_gains(np.zeros((2, 3)), np.ones((2, 3)))
    assert found.whole == 1
    np.testing.assert_array_equal(found.individual, 1)


def test_fields_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="step_size = 0: must be finite and > 0"):
        GradientMatching(step_size=0)
    with pytest.raises(ValueError, match="passes = 0: must be at least 1"):
        replace(GradientMatching(), passes=0)


def test_games_without_parameters_are_refused() -> None:
    run = hidden(random_run(0, "product"))
    with pytest.raises(ValueError, match="Opaque: only the parameters of quadratic games"):
        GradientMatching().guess(run.dynamics, run.transcript.messages, np.random.default_rng(0))


def test_prior_is_not_needed() -> None:
    """Types that the prior rules out can be attacked as well."""
    dynamics, o, _ = vaccination_run(0, None, iterations=3)
    certain = product_prior(np.tile([1.0, 0.0], (5, 1)))
    assert not certain.support[:, 1].any()
    found = GradientMatching().gains(dynamics, o, np.ones(5, dtype=int), np.random.default_rng(0))
    assert np.isfinite(found.whole).all()


def test_games_of_one_type_are_refused() -> None:
    game = QuadraticGame.of(np.ones((2, 1, 1)))
    dynamics = Dynamics(
        game, CompleteGraph(2), Schedules.of(2, noise="1", step="1"), np.zeros((2, 1))
    )
    with pytest.raises(ValueError, match="have the same parameters: nothing to guess"):
        GradientMatching().guess(dynamics, np.zeros((2, 2, 1)), np.random.default_rng(0))
