"""Which tensors the JKO step projects, and by what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgame import config
from fedgame.errors import ConfigError
from fedgame.mechanisms.base import ClientContext
from fedgame.mechanisms.jko import Jko
from fedgame.mechanisms.sinkhorn import barycentric_projection, large_projection, pot_projection

SIZES = (1, 2, 512, 513, 3000)
"""Tensor sizes around the paper's cap."""

CONTEXT = ClientContext(
    num_examples=100, sampling_rate=0.25, clipping_norm=1.0, neighbours="example"
)


def released(sizes: tuple[int, ...] = SIZES, clients: int = 3, **fields: Any) -> np.ndarray:
    """One step, the same for every call but for the fields."""
    states, gradients, noise = np.random.default_rng(0).normal(size=(3, 3, sum(sizes)))
    chosen = slice(0, clients)
    strengths = np.array([0.1, 0.2, 0.3])[chosen]
    mechanism = Jko(tau=0.3, **fields)
    return mechanism.release(
        states[chosen], gradients[chosen], strengths, [CONTEXT] * clients, noise[chosen], sizes
    ).value


def tensors(value: np.ndarray, sizes: tuple[int, ...] = SIZES) -> list[np.ndarray]:
    """The tensors of a released state, each (clients, size)."""
    return np.split(value, np.cumsum(sizes)[:-1], axis=1)


def test_by_default_the_cap_is_the_papers_and_small_tensors_keep_to_the_matrix() -> None:
    """To the bit what the step has always been."""
    assert Jko().sinkhorn_cap == 512
    plain = tensors(released(sinkhorn=False))
    value = tensors(released())
    for tensor in (1, 2):
        np.testing.assert_array_equal(value[tensor], barycentric_projection(plain[tensor], 0.1))
    assert not np.allclose(value[2], plain[2], atol=1e-2)
    for tensor in (0, 3, 4):
        np.testing.assert_array_equal(value[tensor], plain[tensor])


def test_a_larger_cap_projects_larger_tensors_and_changes_no_other() -> None:
    plain = tensors(released(sinkhorn=False))
    default = tensors(released())
    higher, lifted = tensors(released(sinkhorn_cap=513)), tensors(released(sinkhorn_cap=10**9))
    for tensor in (0, 1, 2):
        np.testing.assert_array_equal(lifted[tensor], default[tensor])
        np.testing.assert_array_equal(higher[tensor], default[tensor])
    for tensor in (3, 4):
        np.testing.assert_array_equal(lifted[tensor], large_projection(plain[tensor], 0.1))
        # rho of a Gaussian at 0.1 is 0.975
        shrunk = lifted[tensor].std(axis=1) / plain[tensor].std(axis=1)
        np.testing.assert_allclose(shrunk, 0.975, atol=0.01)
    np.testing.assert_array_equal(higher[3], lifted[3])
    np.testing.assert_array_equal(higher[4], plain[4])


def test_both_solvers_agree_above_the_papers_cap() -> None:
    sizes = (600,)
    ours, pot = (
        released(sizes, 1, sinkhorn_cap=4096, sinkhorn_reg=1.0, sinkhorn_solver=solver)
        for solver in ("symmetric", "pot")
    )
    plain = released(sizes, 1, sinkhorn=False)
    np.testing.assert_array_equal(ours, large_projection(plain, 1.0))
    np.testing.assert_array_equal(pot, pot_projection(plain, 1.0))
    np.testing.assert_allclose(ours, pot, atol=1e-6)


def test_a_clients_bits_do_not_depend_on_the_others_above_the_cap() -> None:
    np.testing.assert_array_equal(
        released(sinkhorn_cap=10**9)[0], released(clients=1, sinkhorn_cap=10**9)[0]
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_large_tensor_that_is_not_finite_is_left_as_it_is(bad: float) -> None:
    states, gradients, noise = np.random.default_rng(1).normal(size=(3, 2, 1500))
    gradients[1, 1000] = bad
    arguments = (states, gradients, np.full(2, 0.1), [CONTEXT] * 2, noise, (700, 800))
    value, plain = (
        Jko(sinkhorn_cap=cap, sinkhorn=sinkhorn).release(*arguments).value
        for cap, sinkhorn in ((10**9, True), (512, False))
    )
    np.testing.assert_array_equal(value[1, 700:], plain[1, 700:])
    np.testing.assert_array_equal(value[1, :700], large_projection(plain[1, :700], 0.1))
    np.testing.assert_array_equal(value[0, 700:], large_projection(plain[0, 700:], 0.1))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"jko.sinkhorn-cap": 1}, "jko.sinkhorn-cap = 1: .*greater than or equal to 2"),
        ({"jko.sinkhorn-cap": 10**9 + 1}, "jko.sinkhorn-cap = 1000000001: .*less than or equal"),
        (
            {"jko.sinkhorn-cap": 4097, "jko.sinkhorn-solver": "pot"},
            "jko.sinkhorn-solver = 'pot': needs a sinkhorn-cap of at most 4096, not 4097",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_run(
    overrides: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config.load(overrides)


@pytest.mark.parametrize(("cap", "solver"), [(4096, "pot"), (10**9, "symmetric")])
def test_what_can_be_done_is_accepted(cap: int, solver: str) -> None:
    found = config.load({"cell": "mfep", "jko.sinkhorn-cap": cap, "jko.sinkhorn-solver": solver})
    assert isinstance(found.mechanism, Jko)
    assert (found.mechanism.sinkhorn_cap, found.mechanism.sinkhorn_solver) == (cap, solver)
