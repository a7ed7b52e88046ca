"""One noisy step of each mechanism: its formula, its noise, its event, and its post-processing."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from fedgame.ledger.events import Neighbours, SampledGaussian
from fedgame.mechanisms import MECHANISMS
from fedgame.mechanisms.base import (
    ClientContext,
    Mechanism,
    noise_multiplier_to_strength,
    strength_to_noise_multiplier,
)
from fedgame.mechanisms.gaussian import Gaussian, gaussian_events, paper_noise_multiplier
from fedgame.mechanisms.jko import Jko
from fedgame.mechanisms.sinkhorn import barycentric_projection

FloatArray = NDArray[np.float64]


def context(n: int = 100, q: float = 0.25, neighbours: Neighbours = "example") -> ClientContext:
    return ClientContext(num_examples=n, sampling_rate=q, clipping_norm=1.5, neighbours=neighbours)


def release(
    mechanism: Mechanism,
    states: FloatArray,
    gradients: FloatArray,
    noise: FloatArray,
    strengths: FloatArray,
    sizes: tuple[int, ...] | None = None,
) -> FloatArray:
    contexts = [context()] * len(states)
    sizes = sizes or (states.shape[1],)
    return mechanism.release(states, gradients, strengths, contexts, noise, sizes).value


def arrays(clients: int, size: int, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    states, gradients, noise = rng.normal(size=(3, clients, size))
    return states, gradients, noise


@pytest.mark.parametrize(
    ("n", "q", "tau", "strength", "expected"),
    [(6000, 0.1, 0.1, 1e-4, 26.8328157300), (600, 0.1, 0.5, 1e-3, 3.7947331922)],
)
def test_bridge(n: int, q: float, tau: float, strength: float, expected: float) -> None:
    own = ClientContext(num_examples=n, sampling_rate=q, clipping_norm=1.0, neighbours="example")
    z = strength_to_noise_multiplier(strength, tau, own.sensitivity)
    assert z == pytest.approx(expected, abs=5e-10)
    assert noise_multiplier_to_strength(z, tau, own.sensitivity) == pytest.approx(strength)


def test_clients_with_equal_events_share_one_object() -> None:
    strengths = np.array([0.1, 0.2, 0.1, 0.1])
    contexts = [context(), context(), context(), context(n=50)]
    events = gaussian_events("jko", strengths, contexts, 0.5)
    for event, strength, own in zip(events, strengths, contexts, strict=True):
        z = strength_to_noise_multiplier(float(strength), 0.5, own.sensitivity)
        assert event == SampledGaussian(z, 0.25, 1, "example", "jko", float(strength))
    assert events[0] is events[2]


def test_sensitivity_of_each_relation() -> None:
    """C over the divisor for an example, C for a client's zeroing, 2 C for its replacement."""
    assert context().sensitivity == pytest.approx(1.5 / 25)
    assert context(neighbours="client").sensitivity == 1.5
    assert context(neighbours="client-replace").sensitivity == 3.0


def test_paper_noise_multiplier() -> None:
    assert paper_noise_multiplier(1.0, 1e-5) == pytest.approx(4.8448052626, abs=5e-11)
    assert paper_noise_multiplier(0.5, 1e-5) == pytest.approx(2 * 4.8448052626, abs=1e-10)


def test_gaussian_is_a_gradient_step_with_noise() -> None:
    states, gradients, noise = arrays(3, 7)
    strengths = np.array([0.1, 0.2, 0.3])

    value = release(Gaussian(learning_rate=0.5), states, gradients, noise, strengths)

    expected = states - 0.5 * gradients + np.sqrt(2 * strengths * 0.5)[:, None] * noise
    np.testing.assert_allclose(value, expected, rtol=1e-14)


def test_jko_is_the_papers_step() -> None:
    """Alg. 3 written out entry by entry, two tensors, without the projection."""
    mechanism = Jko(tau=0.3, prior_std=2.0, lambda_=0.7, sinkhorn=False)
    states, gradients, noise = arrays(2, 5)
    strengths = np.array([0.1, 0.4])

    value = release(mechanism, states, gradients, noise, strengths, (2, 3))

    for k, s in enumerate(strengths):
        for i in range(5):
            own = states[k, :2] if i < 2 else states[k, 2:]
            drift = gradients[k, i] + s / 4.0 * states[k, i] + 0.7 * (states[k, i] - own.mean())
            expected = states[k, i] - 0.3 * drift + sqrt(2 * s * 0.3) * noise[k, i]
            assert value[k, i] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("solver", ["symmetric", "pot"])
def test_jko_projects_tensors_up_to_the_cap(solver: str) -> None:
    sizes = (1, 2, 6, 7)
    options = {"tau": 0.3, "sinkhorn_reg": 1.0, "sinkhorn_cap": 6, "sinkhorn_solver": solver}
    states, gradients, noise = arrays(3, 16)
    strengths = np.full(3, 0.1)
    plain = release(
        Jko(**options, sinkhorn=False),  # type: ignore[arg-type]
        states,
        gradients,
        noise,
        strengths,
        sizes,
    )

    value = release(Jko(**options), states, gradients, noise, strengths, sizes)  # type: ignore[arg-type]

    np.testing.assert_array_equal(value[:, :1], plain[:, :1])
    np.testing.assert_array_equal(value[:, 9:], plain[:, 9:])
    for tensor in (slice(1, 3), slice(3, 9)):
        expected = [barycentric_projection(row[tensor], 1.0) for row in plain]
        np.testing.assert_allclose(value[:, tensor], expected, atol=1e-6)
        assert not np.allclose(value[:, tensor], plain[:, tensor], atol=1e-4)


MECHANISM_EXAMPLES: dict[str, Mechanism] = {
    "gaussian": Gaussian(learning_rate=0.7),
    "jko": Jko(tau=0.7, lambda_=0.2),
}


def test_every_mechanism_has_an_example() -> None:
    assert set(MECHANISM_EXAMPLES) == set(MECHANISMS)
    for name, mechanism in MECHANISM_EXAMPLES.items():
        assert isinstance(mechanism, MECHANISMS.get(name))
        assert mechanism.name == name


@pytest.mark.parametrize("name", MECHANISM_EXAMPLES)
@pytest.mark.parametrize("neighbours", ["example", "client", "client-replace"])
def test_events(name: str, neighbours: Neighbours) -> None:
    mechanism = MECHANISM_EXAMPLES[name]
    states, gradients, noise = arrays(2, 4)
    strengths = np.array([0.01, 0.04])
    contexts = [context(neighbours=neighbours), context(n=200, neighbours=neighbours)]

    events = mechanism.release(states, gradients, strengths, contexts, noise, (4,)).events

    assert events == tuple(
        SampledGaussian(
            noise_multiplier=sqrt(2 * s / 0.7) / own.sensitivity,
            sampling_rate=0.25 if neighbours == "example" else 1.0,
            steps=1,
            neighbours=neighbours,
            mechanism=name,
            strength=s,
        )
        for s, own in zip((0.01, 0.04), contexts, strict=True)
    )


@pytest.mark.parametrize("mechanism", [Gaussian(learning_rate=0.7), Jko(tau=0.7, sinkhorn=False)])
def test_the_noise_is_what_the_event_says(mechanism: Mechanism) -> None:
    """Empirical deviation of the state = step * z * sensitivity of the averaged gradient."""
    size = 200_000
    zeros = np.zeros((1, size))
    noise = np.random.default_rng(0).standard_normal((1, size))

    result = mechanism.release(zeros, zeros, np.array([0.03]), [context()], noise, (size,))

    z = result.events[0].noise_multiplier
    assert result.value.std() == pytest.approx(0.7 * z * context().sensitivity, rel=0.01)
    assert result.value.mean() == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("mechanism", [Gaussian(learning_rate=0.7), Jko(tau=0.7, lambda_=0.3)])
def test_the_gradient_enters_once_and_scaled_by_the_step(mechanism: Mechanism) -> None:
    """Before the projection, a gradient moved by v moves the state by step * v and no more."""
    if isinstance(mechanism, Jko):
        mechanism = Jko(tau=0.7, lambda_=0.3, sinkhorn=False)
    states, gradients, noise = arrays(1, 6)
    moved = gradients.copy()
    moved[0, 2] += 0.25
    strengths = np.array([0.1])

    difference = release(mechanism, states, moved, noise, strengths) - release(
        mechanism, states, gradients, noise, strengths
    )

    np.testing.assert_allclose(difference, [[0, 0, -0.7 * 0.25, 0, 0, 0]], atol=1e-14)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_clients_bits_do_not_depend_on_the_others(data: st.DataObject) -> None:
    mechanism = MECHANISM_EXAMPLES[data.draw(st.sampled_from(sorted(MECHANISM_EXAMPLES)))]
    sizes = tuple(data.draw(st.lists(st.integers(1, 70), min_size=1, max_size=4)))
    clients = data.draw(st.integers(2, 30))
    chosen = data.draw(st.integers(0, clients - 1))
    states, gradients, noise = arrays(clients, sum(sizes), data.draw(st.integers(0, 99)))
    strengths = np.linspace(0.1, 1.0, clients)

    together = release(mechanism, states, gradients, noise, strengths, sizes)
    one = slice(chosen, chosen + 1)
    alone = release(mechanism, states[one], gradients[one], noise[one], strengths[one], sizes)

    np.testing.assert_array_equal(together[chosen], alone[0])


@pytest.mark.parametrize("name", MECHANISM_EXAMPLES)
def test_arguments_are_left_alone(name: str) -> None:
    states, gradients, noise = arrays(2, 9)
    copies = states.copy(), gradients.copy(), noise.copy()
    release(MECHANISM_EXAMPLES[name], states, gradients, noise, np.array([0.1, 0.2]), (4, 5))
    for array, copy in zip((states, gradients, noise), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_no_noise_is_no_release() -> None:
    states, gradients, noise = arrays(1, 3)
    with pytest.raises(ValueError, match="noise_multiplier"):
        Gaussian().release(states, gradients, np.zeros(1), [context()], noise, (3,))


@pytest.mark.parametrize(
    ("component", "field", "value"),
    [
        (Gaussian, "learning_rate", 0.0),
        (Gaussian, "calibration", "none"),
        (Gaussian, "target_epsilon", float("inf")),
        (Gaussian, "noise_multiplier", float("nan")),
        (Jko, "tau", -1.0),
        (Jko, "prior_std", 0.0),
        (Jko, "lambda_", -0.1),
        (Jko, "strength", 0.0),
        (Jko, "noise_multiplier", -1.0),
        (Jko, "sinkhorn_reg", 0.0),
        (Jko, "sinkhorn_cap", 1),
        (Jko, "sinkhorn_solver", "ott"),
        (Jko, "reading", "labels"),
        (Jko, "momentum", 0.9),
    ],
)
def test_settings_out_of_range_are_refused_by_name(
    component: type[Gaussian | Jko], field: str, value: object
) -> None:
    with pytest.raises(ValidationError, match=field):
        component(**{field: value})  # type: ignore[arg-type]
