"""The bound against linear maps, which attain it, and exact privacy curves of random losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgame.accountants.base import Accountant
from fedgame.accountants.contraction import (
    Center,
    ContractionAccountant,
    client_constant,
    contraction_mu,
    example_constant,
)
from fedgame.accountants.gdp import gdp_delta
from fedgame.accountants.pld import PldAccountant
from fedgame.errors import AccountingError
from fedgame.ledger.events import LaplaceVector, PureDPChoice, SampledGaussian, UnaccountedRelease
from tests.accountants.exact_chains import exact_delta, gaussian_mu, last_density

TAU, STEPS, CLIP = 0.1, 10, 1.0
EPSILONS = (0.0, 0.5, 1.0, 2.0)
LINEAR: dict[str, Any] = {"convex": True, "outputs": 1, "smoothness": 0.25}


def accountant(**changes: Any) -> ContractionAccountant:
    facts: dict[str, Any] = {
        "local_steps": STEPS,
        "only_last_sent": True,
        "public_start": True,
        "projection": "none",
        "tau": TAU,
        "variance_penalty": 0.01,
    }
    return ContractionAccountant(**facts | changes)


def step(strength: float = 0.3, **changes: Any) -> SampledGaussian:
    z = sqrt(2 * strength / TAU) / CLIP
    return replace(SampledGaussian(z, 1.0, 1, "client", "jko", strength), **changes)


@pytest.mark.parametrize(
    ("strength", "mu", "delta"), [(0.3, 1.286090, 0.235244), (1.0, 0.677338, 0.033138)]
)
def test_one_local_run(strength: float, mu: float, delta: float) -> None:
    events = [step(strength)] * STEPS
    assert accountant().mu(events) == pytest.approx(mu, abs=5e-7)
    assert accountant().delta(events, 1.0) == pytest.approx(delta, abs=5e-7)
    assert isinstance(accountant(), Accountant)


@given(
    c=st.one_of(st.just(1.0), st.floats(0.0, 1.0), st.floats(0, 1e-9).map(lambda x: 1 - x)),
    steps=st.integers(1, 60),
    z=st.floats(0.1, 100.0),
)
def test_linear_maps_attain_it(c: float, steps: int, z: float) -> None:
    """Mean and variance of x <- c x + 1/z + N(0, 1) and of the same without 1/z."""
    mean, variance = 0.0, 0.0
    for _ in range(steps):
        mean, variance = c * mean + 1 / z, c * c * variance + 1.0
    assert float(contraction_mu(z, steps, c)) == pytest.approx(mean / sqrt(variance), rel=1e-12)


def test_it_saturates_in_the_steps_and_grows_with_the_sends() -> None:
    mu = contraction_mu(2.0, np.array([1, 2, 10, 10**3, 10**9]), 0.97)
    assert np.all(np.diff(mu[:-1]) > 0)
    assert mu[0] == pytest.approx(0.5)
    assert mu[-1] == pytest.approx(sqrt(1.97 / 0.03) / 2)
    np.testing.assert_allclose(contraction_mu(2.0, 7, 0.9, [1, 4, 9]) / [1, 2, 3], mu_of_seven())


def mu_of_seven() -> float:
    return sqrt((1 - 0.9**7) / (1 + 0.9**7) * 1.9 / 0.1) / 2


@pytest.mark.parametrize("c", [1.0, 1.3, 50.0])
def test_without_contraction_it_is_composition(c: float) -> None:
    """The closed form falls again above 1, but x <- x + 1/z attains sqrt(K)/z."""
    assert float(contraction_mu(2.0, 9, c)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("noise_multiplier", (0.0, 1, 0.5)),
        ("noise_multiplier", (np.nan, 1, 0.5)),
        ("steps", (1.0, 0, 0.5)),
        ("constant", (1.0, 1, -0.1)),
        ("constant", (1.0, 1, np.nan)),
        ("sends", (1.0, 1, 0.5, 0)),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, arguments: tuple[float, ...]) -> None:
    with pytest.raises(AccountingError, match=f"^{name}: every value must be finite and >"):
        contraction_mu(*arguments)


@pytest.mark.parametrize("center", ["own", "public"])
@pytest.mark.parametrize("tau", [0.1, 1.0, 2.5])
def test_client_constant_is_the_norm_of_the_pull(center: Center, tau: float) -> None:
    """The pull on five entries as a matrix."""
    strength, prior_std, penalty = 0.3, 0.7, 0.4
    own = np.eye(5) - np.full((5, 5), 0.2)
    pull = strength / prior_std**2 * np.eye(5) + penalty * (own if center == "own" else np.eye(5))
    constant = client_constant(tau, strength, prior_std, penalty, center)
    assert float(constant) == pytest.approx(np.linalg.norm(np.eye(5) - tau * pull, 2), rel=1e-12)


@pytest.mark.parametrize("center", ["own", "public"])
def test_example_constant_is_the_norm_of_the_steepest_and_flattest_loss(center: Center) -> None:
    tau, strength, smooth, penalty = 0.4, 0.5, 2.0, 0.3
    own = np.eye(4) - np.full((4, 4), 0.25)
    pull = strength * np.eye(4) + penalty * (own if center == "own" else np.eye(4))
    norms = [
        np.linalg.norm(np.eye(4) - tau * (pull + curvature * np.eye(4)), 2)
        for curvature in (0.0, smooth)
    ]
    constant = example_constant(tau, strength, smooth, 1.0, penalty, center)
    assert float(constant) == pytest.approx(max(norms), rel=1e-12)


def test_example_constant_has_a_largest_tau() -> None:
    limit = 2 / (2 * 0.5 + 3.0)
    assert float(example_constant(limit, 0.5, 3.0)) == pytest.approx(1 - 0.5 * limit)
    with pytest.raises(AccountingError, match=r"tau = 0\.51: .* tau <= 2/\(2 m \+ M\) = 0\.5,"):
        example_constant(0.51, 0.5, 3.0)
    with pytest.raises(AccountingError, match="smoothness: every value must be finite and >= 0"):
        example_constant(0.1, 0.5, np.nan)


def curves(
    phi: Callable[[np.ndarray], np.ndarray],
    other: Callable[[np.ndarray], np.ndarray],
    start: float,
    sigma: float,
) -> list[float]:
    """Exact delta at each of EPSILONS of the state after STEPS steps."""
    reach = abs(start) + STEPS * TAU * CLIP + 9 * sigma * sqrt(STEPS)
    grid = np.arange(-reach, reach, sigma / 12)
    one, two = (last_density(f, start, STEPS, sigma, grid) for f in (phi, other))
    return [exact_delta(one, two, epsilon, grid) for epsilon in EPSILONS]


@pytest.mark.parametrize("seed", range(12))
def test_no_loss_beats_the_client_bound(seed: int) -> None:
    """Any clipped gradient, with steps that expand, against the client that adds nothing."""
    rng = np.random.default_rng(seed)
    strength = (0.1, 0.3, 1.0)[seed % 3]
    sigma = sqrt(2 * strength * TAU)
    height, slope, phase, level = rng.normal(scale=(3.0, 1.5 / sigma, 3.0, 1.0))

    def gradient(w: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(height * np.sin(slope * w + phase) + level, -CLIP, CLIP))

    def idle(w: np.ndarray) -> np.ndarray:
        return (1 - TAU * strength) * w

    start = float(rng.normal())
    exact = curves(lambda w: idle(w) - TAU * gradient(w), idle, start, sigma)

    mu = accountant().mu([step(strength)] * STEPS)
    assert np.all(exact <= gdp_delta(mu, EPSILONS) + 1e-7)


def test_a_constant_gradient_attains_the_client_bound() -> None:
    strength = 0.3
    exact = curves(
        lambda w: (1 - TAU * strength) * w - TAU * CLIP,
        lambda w: (1 - TAU * strength) * w,
        0.5,
        sqrt(2 * strength * TAU),
    )
    mu = accountant().mu([step(strength)] * STEPS)
    np.testing.assert_allclose(exact, gdp_delta(mu, EPSILONS), rtol=1e-6)


EXAMPLES, EXAMPLE_STRENGTH = 4, 0.02
EXAMPLE_SIGMA = sqrt(2 * EXAMPLE_STRENGTH * TAU)


def example_event() -> SampledGaussian:
    z = EXAMPLES * sqrt(2 * EXAMPLE_STRENGTH / TAU) / CLIP
    return step(EXAMPLE_STRENGTH, noise_multiplier=z, neighbours="example", steps=STEPS)


def example_step(
    features: np.ndarray,
    targets: np.ndarray,
    slope: Callable[[np.ndarray], np.ndarray],
    pull: float = EXAMPLE_STRENGTH,
) -> Callable[[np.ndarray], np.ndarray]:
    """A step on per-example gradients x l'(x w - y), each clipped."""

    def phi(w: np.ndarray) -> np.ndarray:
        each = features[:, None] * slope(features[:, None] * w - targets[:, None])
        mean = np.clip(each, -CLIP, CLIP).sum(axis=0) / EXAMPLES
        return np.asarray((1 - TAU * pull) * w - TAU * mean)

    return phi


@pytest.mark.parametrize("seed", range(8))
def test_no_convex_loss_beats_the_example_bound(seed: int) -> None:
    """Logistic and squared losses of one output, one example removed."""
    rng = np.random.default_rng(seed)
    features, targets = 2 * rng.normal(size=EXAMPLES), rng.normal(size=EXAMPLES)
    slope, curvature = ((np.tanh, 1.0), (lambda u: u, 1.0))[seed % 2]
    smooth = curvature * float(np.mean(features**2))
    exact = curves(
        example_step(features, targets, slope),
        example_step(features[1:], targets[1:], slope),
        float(rng.normal()),
        EXAMPLE_SIGMA,
    )
    judge = accountant(variance_penalty=0.0, **LINEAR | {"smoothness": smooth})
    bound = gdp_delta(judge.mu([example_event()]), EPSILONS)
    assert np.all(exact <= bound + 1e-7)


def test_one_constant_gradient_attains_the_example_bound() -> None:
    judge = accountant(variance_penalty=0.0, **LINEAR)
    bound = gdp_delta(judge.mu([example_event()]), EPSILONS)
    features, targets = np.array([1e3, 1e-9, 1e-9, 1e-9]), np.array([1e9, 0.0, 0.0, 0.0])
    flat = example_step(features, targets, lambda u: u)
    without = example_step(features[1:], targets[1:], lambda u: u)
    np.testing.assert_allclose(curves(flat, without, 0.0, EXAMPLE_SIGMA), bound, rtol=1e-5)


def test_a_loss_that_is_not_convex_beats_the_example_bound() -> None:
    """Three examples undo a pull of 3 near 0, so that the fourth adds up without decay."""
    pull = 3.0
    judge = accountant(variance_penalty=0.0, prior_std=sqrt(EXAMPLE_STRENGTH / pull), **LINEAR)
    bound = gdp_delta(judge.mu([example_event()]), EPSILONS)
    features, targets = np.array([1e-3, 2.0, 2.0, 2.0]), np.array([1e9, 0.0, 0.0, 0.0])
    concave = [
        example_step(features[first:], targets[first:], lambda u: -u, pull) for first in (0, 1)
    ]
    exact = curves(concave[0], concave[1], 0.12, EXAMPLE_SIGMA)
    assert exact[2] > 1.2 * bound[2]


def test_the_own_mean_on_a_vector_is_within_the_bound() -> None:
    """Three entries with a strong lambda: a common shift decays by the prior's pull alone."""
    strength, penalty = 0.3, 3.0
    sigma = sqrt(2 * strength * TAU)
    own = np.eye(3) - np.full((3, 3), 1 / 3)
    step_matrix = np.eye(3) - TAU * (strength * np.eye(3) + penalty * own)
    shift, covariance = np.zeros(3), np.zeros((3, 3))
    for _ in range(STEPS):
        shift = step_matrix @ shift + TAU * CLIP / sqrt(3) * np.ones(3)
        covariance = step_matrix @ covariance @ step_matrix.T + sigma**2 * np.eye(3)
    mu = accountant(variance_penalty=penalty).mu([step(strength, steps=STEPS)])
    assert gaussian_mu(shift, covariance) == pytest.approx(mu, rel=1e-12)
    frozen = accountant(variance_penalty=penalty, center="public")
    assert frozen.mu([step(strength, steps=STEPS)]) < mu


def test_runs_of_different_strengths_compose() -> None:
    judge = accountant()
    weak, strong = [step(0.3)] * STEPS, [step(1.0, steps=STEPS)]
    one, other = judge.mu(weak), judge.mu(strong)
    together = judge.mu([*weak, *strong, UnaccountedRelease("client", "argmin"), *weak])
    assert together == pytest.approx(sqrt(2 * one**2 + other**2))
    assert judge.mu(weak * 9) == pytest.approx(3 * one)
    assert judge.delta([], 1.0) == judge.epsilon([], 1e-5) == 0.0


def test_it_costs_less_than_sending_every_step() -> None:
    events = [step(1.0, steps=10 * STEPS)]
    ours = accountant(local_steps=10 * STEPS).epsilon(events, 1e-5)
    assert ours < 0.5 * PldAccountant().epsilon(events, 1e-5)
    single = [step(1.0)]
    assert accountant(local_steps=1).epsilon(single, 1e-5) == pytest.approx(
        PldAccountant().epsilon(single, 1e-5), rel=1e-3
    )


EXAMPLE = step(neighbours="example", steps=STEPS)


@pytest.mark.parametrize(
    ("changes", "event", "reason"),
    [
        ({"projection": "every-step"}, step(steps=STEPS), "Sinkhorn between the local steps"),
        ({"only_last_sent": False}, step(steps=STEPS), "more than the last state"),
        ({"public_start": False}, step(steps=STEPS), "a state that the client kept"),
        ({}, step(steps=STEPS + 1), r"whole local runs of 10 \(1 left over\)"),
        ({}, step(steps=STEPS, neighbours="client-replace"), "'client-replace'"),
        ({}, step(steps=STEPS, mechanism="gaussian"), "'gaussian' is no step of the entropic"),
        ({}, replace(step(steps=STEPS), strength=None), "without a strength"),
        ({}, PureDPChoice(0.1, "client", "exponential"), "'exponential' is no step"),
        ({}, LaplaceVector(1.0, 1.0, 1, "client", "laplace"), "'laplace' is no step"),
        (LINEAR, replace(EXAMPLE, sampling_rate=0.5), r"sampling_rate = 0\.5: .* full batch"),
        (LINEAR | {"convex": False}, EXAMPLE, "not convex = False, outputs = 1"),
        (LINEAR | {"outputs": 10}, EXAMPLE, "one output .* outputs = 10"),
        (LINEAR | {"smoothness": None}, EXAMPLE, "M-smooth.* smoothness = None"),
        (LINEAR | {"smoothness": 30.0}, EXAMPLE, r"tau = 0\.1: .*needs tau <="),
    ],
)
def test_it_refuses_with_the_reason(changes: dict[str, Any], event: Any, reason: str) -> None:
    judge = accountant(**changes)
    for ask in (judge.mu, lambda e: judge.delta(e, 1.0), lambda e: judge.epsilon(e, 1e-5)):
        with pytest.raises(AccountingError, match=reason):
            ask([event])


def test_projecting_after_the_last_step_changes_nothing() -> None:
    events = [step(steps=STEPS)]
    assert accountant(projection="last").mu(events) == accountant().mu(events)


def test_the_relation_example_is_charged_where_its_conditions_hold() -> None:
    assert accountant(**LINEAR).mu([EXAMPLE]) == pytest.approx(
        float(contraction_mu(EXAMPLE.noise_multiplier, STEPS, 1 - TAU * 0.3))
    )


@pytest.mark.parametrize("bad", [-1.0, 2.0, np.nan])
def test_questions_out_of_range_are_refused(bad: float) -> None:
    with pytest.raises(AccountingError, match="delta = "):
        accountant().epsilon([step(steps=STEPS)], bad)
    with pytest.raises(AccountingError, match="epsilon = "):
        accountant().delta([step(steps=STEPS)], -abs(bad))
