"""The flow against exact linear flows, exact privacy curves and the optimal two-point attack."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgame.accountants.flow import BurnIn, ParticleCenter, Relation, flow_constant, flow_mu
from fedgame.accountants.gdp import gdp_delta, gdp_epsilon
from fedgame.accountants.pld import PldAccountant
from fedgame.errors import AccountingError
from fedgame.ledger.events import SampledGaussian
from tests.accountants.exact_chains import attacked_delta, exact_delta, gaussian_mu, last_density

TAU, STRENGTH, STEPS, RADIUS = 0.1, 1.0, 10, 1.0
SIGMA = sqrt(2 * STRENGTH * TAU)
EPSILONS = (0.0, 0.5, 1.0, 2.0)
CENTERS: tuple[ParticleCenter, ...] = ("own", "public")


def burn_in(**changes: Any) -> BurnIn:
    facts: dict[str, Any] = {
        "radius": RADIUS,
        "strength": STRENGTH,
        "tau": TAU,
        "steps": STEPS,
        "smoothness": 0.0,
        "num_examples": 9,
        "neighbours": "example-replace",
        "first_send": STEPS,
        "public_settings": True,
        "particles_only": True,
        "labels": "none",
        "projection": False,
    }
    return BurnIn(**facts | changes)


@pytest.mark.parametrize(
    ("steps", "smoothness", "mu"),
    [
        (1, 0.0, 4.0249223595),
        (10, 0.0, 0.7252119605),
        (50, 0.0, 0.0100466908),
        (10, 0.3, 0.9091289762),
    ],
)
def test_one_replaced_example(steps: int, smoothness: float, mu: float) -> None:
    run = burn_in(steps=steps, smoothness=smoothness, first_send=steps)
    assert run.mu == pytest.approx(mu, abs=6e-11)


@given(
    c=st.one_of(st.just(1.0), st.floats(0.05, 3.0), st.floats(-1e-9, 1e-9).map(lambda x: 1 + x)),
    steps=st.integers(1, 40),
    distance=st.floats(0.1, 10.0),
)
def test_a_linear_flow_attains_it(c: float, steps: int, distance: float) -> None:
    """Means and variance of x <- c x + N(0, 2 s tau) from two starts, step by step."""
    apart, variance = distance, 0.0
    for _ in range(steps):
        apart, variance = c * apart, c * c * variance + 2 * STRENGTH * TAU
    mu = float(flow_mu(distance, steps, c, STRENGTH, TAU))
    assert mu == pytest.approx(apart / sqrt(variance), rel=1e-12)


def test_the_limits() -> None:
    assert float(flow_mu(2.0, 25, 1.0, STRENGTH, TAU)) == pytest.approx(2 / (5 * SIGMA), rel=1e-15)
    assert float(flow_mu(2.0, 5, 0.0, STRENGTH, TAU)) == 0.0
    decay = flow_mu(2.0, np.array([10, 20, 40]), 0.9, STRENGTH, TAU)
    np.testing.assert_allclose(
        decay, 2 / SIGMA * sqrt(1 - 0.81) * 0.9 ** np.array([10, 20, 40]), rtol=0.07
    )
    # A flow that expands forgets only so much.
    assert float(flow_mu(2.0, 10**4, 1.5, STRENGTH, TAU)) == pytest.approx(2 / SIGMA * sqrt(1.25))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("distance", (-1.0, 1, 0.5, 1.0, 1.0)),
        ("steps", (1.0, 0, 0.5, 1.0, 1.0)),
        ("constant", (1.0, 1, np.nan, 1.0, 1.0)),
        ("strength", (1.0, 1, 0.5, 0.0, 1.0)),
        ("tau", (1.0, 1, 0.5, 1.0, np.inf)),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, arguments: tuple[float, ...]) -> None:
    with pytest.raises(AccountingError, match=f"^{name}: every value must be finite and >"):
        flow_mu(*arguments)


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("tau", [0.1, 1.5])
def test_the_constant_is_the_norm_of_the_step_on_all_particles(
    center: ParticleCenter, tau: float
) -> None:
    """Six particles as one matrix; a loss gradient of slope -G_x drives them apart."""
    prior_std, penalty, smooth = 0.8, 0.7, 0.2
    own = np.eye(6) - np.full((6, 6), 1 / 6)
    pull = STRENGTH / prior_std**2 * np.eye(6) + penalty * (own if center == "own" else np.eye(6))
    signs = (-1.0, 1.0)
    norms = [np.linalg.norm(np.eye(6) - tau * (pull + s * smooth * np.eye(6)), 2) for s in signs]
    constant = flow_constant(tau, STRENGTH, smooth, prior_std, penalty, center)
    assert float(constant) == pytest.approx(max(norms), rel=1e-12)


def test_the_own_mean_couples_particles_within_the_bound() -> None:
    """All particles together, one of them replaced, and the whole client replaced."""
    count, penalty = 9, 2.0
    own = np.eye(count) - np.full((count, count), 1 / count)
    step = (1 - TAU * STRENGTH) * np.eye(count) - TAU * penalty * own
    for neighbours, shift in (
        ("example-replace", 2 * RADIUS * np.eye(count)[0]),
        ("client-replace", 2 * RADIUS * np.ones(count)),
    ):
        covariance = np.zeros((count, count))
        for _ in range(STEPS):
            shift, covariance = step @ shift, step @ covariance @ step.T + SIGMA**2 * np.eye(count)
        mu = burn_in(neighbours=neighbours, variance_penalty=penalty).mu
        exact = gaussian_mu(shift, covariance)
        assert exact <= mu * (1 + 1e-12)
        if neighbours == "client-replace":
            assert exact == pytest.approx(mu, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_no_loss_beats_the_bound(seed: int) -> None:
    """A gradient of slope up to G_x in both directions, by the exact privacy curve."""
    rng = np.random.default_rng(seed)
    smooth = (0.3, 2.0)[seed % 2]
    speed, phase = rng.uniform(0.5, 4.0), rng.uniform(0, 6)

    def phi(x: np.ndarray) -> np.ndarray:
        gradient = smooth / speed * np.sin(speed * x + phase)
        return np.asarray((1 - TAU * STRENGTH) * x - TAU * gradient)

    grid = np.arange(-9.0, 9.0, SIGMA / 12)
    one, two = (last_density(phi, start, STEPS, SIGMA, grid) for start in (-RADIUS, RADIUS))
    exact = [exact_delta(one, two, epsilon, grid) for epsilon in EPSILONS]
    assert np.all(exact <= gdp_delta(burn_in(smoothness=smooth).mu, EPSILONS) + 1e-7)


def linear_path(start: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of x_1, ..., x_steps of the linear flow."""
    c = 1 - TAU * STRENGTH
    powers = c ** np.arange(1, steps + 1)
    noise = np.array(
        [[c ** (i - j) if j <= i else 0.0 for j in range(steps)] for i in range(steps)]
    )
    return start * powers, SIGMA**2 * noise @ noise.T


def test_later_rounds_add_nothing_and_earlier_ones_do() -> None:
    mean, covariance = linear_path(2 * RADIUS, STEPS + 15)
    mu = burn_in().mu
    later = slice(STEPS - 1, None)
    assert gaussian_mu(mean[later], covariance[later, later]) == pytest.approx(mu, rel=1e-12)
    early = slice(STEPS - 2, None)
    assert gaussian_mu(mean[early], covariance[early, early]) > 1.1 * mu


@pytest.mark.parametrize("rounds", [1, 8])
def test_the_optimal_attack_never_beats_it(rounds: int) -> None:
    """Particles train a model by noisy messages, also while they flow on; all is seen.

    Per round the adversary sees the particle itself and a message that mixes it with the round's
    model; the likelihood ratio of the whole transcript is that of a Gaussian vector.
    """
    rng = np.random.default_rng(rounds)
    runs, epsilon, length = 100_000, 0.25, STEPS - 1 + rounds
    seen = np.zeros((2 * rounds, length + rounds))
    for i in range(rounds):
        seen[2 * i, STEPS - 1 + i] = 1.0
        # w_i = w_(i-1)/2 + x_i + own noise, from w_0 = 0.
        seen[2 * i + 1, STEPS - 1 : STEPS + i] = 0.5 ** np.arange(i, -1, -1)
        seen[2 * i + 1, length : length + i + 1] = 0.5 ** np.arange(i, -1, -1)
    mean, covariance = linear_path(2 * RADIUS, length)
    everything = np.zeros((length + rounds, length + rounds))
    everything[:length, :length] = covariance
    everything[length:, length:] = 0.1 * np.eye(rounds)
    shift, spread = seen[:, :length] @ mean, seen @ everything @ seen.T
    weights = np.linalg.solve(spread, shift)

    transcripts = []
    for start in (0.0, 2 * RADIUS):
        x, path = np.full(runs, start), np.empty((length + rounds, runs))
        for k in range(length):
            x = (1 - TAU * STRENGTH) * x + SIGMA * rng.normal(size=runs)
            path[k] = x
        path[length:] = sqrt(0.1) * rng.normal(size=(rounds, runs))
        transcripts.append(weights @ (seen @ path))

    mu = burn_in().mu
    threshold = epsilon + mu**2 / 2
    attacked = attacked_delta((transcripts[0], transcripts[1]), threshold, epsilon, 1 - 1e-6)
    allowed = float(gdp_delta(mu, epsilon))
    assert 0.8 * allowed < attacked <= allowed


@pytest.mark.parametrize(
    ("neighbours", "distance"),
    [("example", 1.0), ("example-replace", 2.0), ("client", 3.0), ("client-replace", 6.0)],
)
def test_distances_of_the_relations(neighbours: Relation, distance: float) -> None:
    run = burn_in(neighbours=neighbours)
    assert run.distance == pytest.approx(distance)
    assert run.mu == pytest.approx(float(flow_mu(distance, STEPS, 0.9, STRENGTH, TAU)))


def test_the_event_costs_what_the_run_costs() -> None:
    run = burn_in(neighbours="client", strength=2.0)
    event = run.event()
    assert event == SampledGaussian(1 / run.mu, 1.0, 1, "client", "flow", 2.0)
    assert PldAccountant().epsilon([event], 1e-5) == pytest.approx(
        float(gdp_epsilon(run.mu, 1e-5)), rel=1e-3
    )


def test_a_flow_that_forgets_everything_at_once_has_an_event_that_costs_nothing() -> None:
    run = burn_in(neighbours="example", strength=10.0)
    assert run.activation.constant == 0
    assert run.mu == 0
    assert run.event().noise_multiplier == pytest.approx(1e100)


@pytest.mark.parametrize(
    ("changes", "holds", "text"),
    [
        (
            {"smoothness": 0.3},
            True,
            r"pull 1 > G_x 0\.3, tau \(pull \+ G_x\) 0\.13 < 2: c = 0\.93, .* forget exponentially",
        ),
        ({"smoothness": 1.2}, False, r"pull 1 <= G_x 1\.2, .* 0\.22 < 2: c = 1\.02, .*do not"),
        ({"strength": 19.0, "smoothness": 2.0}, False, r"pull 19 > G_x 2, .* 2\.1 >= 2: c = 1\.1"),
        (
            {"smoothness": 1.2, "variance_penalty": 0.5, "center": "public"},
            True,
            r"pull 1\.5 > G_x 1\.2, .* 0\.27 < 2: c = 0\.97",
        ),
        (
            {"smoothness": 1.2, "variance_penalty": 0.5},
            False,
            r"pull 1 <= G_x 1\.2, .* 0\.27 < 2: c = 1\.02",
        ),
    ],
)
def test_activation_is_reported(changes: dict[str, Any], holds: bool, text: str) -> None:
    run = burn_in(**changes)
    assert run.activation.holds is holds
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(str(run.activation))
    assert run.mu > 0


@given(
    strength=st.floats(0.05, 30.0),
    smooth=st.floats(0, 3.0),
    penalty=st.floats(0, 3.0),
    center=st.sampled_from(CENTERS),
)
def test_activation_is_the_two_printed_conditions(
    strength: float, smooth: float, penalty: float, center: ParticleCenter
) -> None:
    found = burn_in(
        strength=strength, smoothness=smooth, variance_penalty=penalty, center=center
    ).activation
    if abs(found.constant - 1) > 1e-9:
        assert found.holds == (found.pull > found.smoothness and found.overshoot < 2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"smoothness": None}, "no Lipschitz constant G_x, as for a network with ReLU"),
        ({"center": "clients", "variance_penalty": 0.1}, "mean over clients"),
        ({"center": "clients"}, "mean over clients"),
        ({"projection": True}, "Sinkhorn during the burn-in"),
        ({"first_send": STEPS - 1}, "first_send = 9: something is sent before step 10"),
        ({"labels": "private"}, "labels are not covered"),
        ({"public_settings": False}, "depends on the client's data"),
        ({"particles_only": False}, "raw examples are used again"),
    ],
)
def test_it_refuses_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    run = burn_in(neighbours="example", **changes)
    with pytest.raises(AccountingError, match=reason):
        _ = run.mu
    with pytest.raises(AccountingError, match=reason):
        run.event()


def test_labels_that_are_accounted_elsewhere_are_accepted() -> None:
    accepted = {burn_in(labels=labels).mu for labels in ("none", "public", "randomised-response")}
    assert accepted == {burn_in().mu}


def test_the_ledger_has_no_relation_for_a_replaced_example() -> None:
    with pytest.raises(AccountingError, match="no relation for one example replaced"):
        burn_in(neighbours="example-replace").event()
