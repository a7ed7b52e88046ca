"""Batched sums against the client-by-client clipper, and bits that no neighbour can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgame.mechanisms import linear_cohort
from fedgame.mechanisms.bookkeeping import PerExampleClipper
from fedgame.mechanisms.linear_cohort import ROWS, LinearCohort

Client = tuple[NDArray[np.float32], NDArray[Any]]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return -outputs.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def logistic(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(
        outputs.squeeze(-1), targets.float(), reduction="none"
    )


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * (outputs.squeeze(-1) - targets).square()


LOSSES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], int]] = {
    "cross entropy": (cross_entropy, 5),
    "logistic": (logistic, 1),
    "squared": (squared, 1),
}


def make_client(loss: str, n: int, d: int, seed: int) -> Client:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n, d)).astype(np.float32) * np.float32(2.0)
    if loss == "squared":
        return inputs, rng.normal(size=n).astype(np.float32)
    return inputs, rng.integers(0, 5 if loss == "cross entropy" else 2, n)


def make_parameters(cohort: LinearCohort, seeds: list[int]) -> NDArray[np.float32]:
    size = cohort.num_parameters
    return np.stack([np.random.default_rng(s).normal(size=size) for s in seeds]).astype(np.float32)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("clipping_norm", [0.7, np.inf])
def test_equals_a_loop_over_clients(loss: str, bias: bool, clipping_norm: float) -> None:
    function, outputs = LOSSES[loss]
    sizes = [1, 2, ROWS - 1, ROWS, ROWS + 1, 150, 0, 40]
    clients = [make_client(loss, n, 11, seed) for seed, n in enumerate(sizes)]
    cohort = LinearCohort(clients, function, out_features=outputs, bias=bias)
    parameters = make_parameters(cohort, list(range(len(sizes))))
    rng = np.random.default_rng(0)
    batches = [rng.random(n) < 0.6 for n in sizes]
    one_by_one = PerExampleClipper(nn.Linear(11, outputs, bias=bias), function)

    sums = cohort.clipped_sums(parameters, batches, clipping_norm)
    losses = cohort.losses(parameters)
    batch_losses = cohort.losses(parameters, batches)

    assert sums.value.shape == (len(sizes), one_by_one.num_parameters)
    assert not sums.non_finite.any()
    for k, ((inputs, targets), batch) in enumerate(zip(clients, batches, strict=True)):
        expected = one_by_one.clipped_sum(
            parameters[k], inputs[batch], targets[batch], clipping_norm
        )
        scale = max(1.0, float(np.abs(expected.value).max()))
        np.testing.assert_allclose(sums.value[k], expected.value, atol=1e-6 * scale)
        own = one_by_one.losses(parameters[k], inputs, targets)
        np.testing.assert_allclose(losses[k], own, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(batch_losses[k], own[batch], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_at_several_vectors(loss: str) -> None:
    function, outputs = LOSSES[loss]
    clients = [make_client(loss, n, 7, n) for n in (3, 40)]
    cohort = LinearCohort(clients, function, out_features=outputs, bias=True)
    grid = np.stack([make_parameters(cohort, [5 * g, 5 * g + 1]) for g in range(3)], axis=1)

    several = cohort.losses(grid)

    assert [losses.shape for losses in several] == [(3, 3), (3, 40)]
    for g in range(3):
        for losses, expected in zip(several, cohort.losses(grid[:, g]), strict=True):
            np.testing.assert_allclose(losses[g], expected, rtol=1e-5, atol=1e-6)


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_a_clients_bits_do_not_depend_on_the_cohort(data: st.DataObject) -> None:
    """Alone, among any others, in any place: the same sums and losses bit for bit."""
    loss = data.draw(st.sampled_from(sorted(LOSSES)))
    bias = data.draw(st.booleans())
    d = data.draw(st.sampled_from([1, 2, 7, 20, 64, 300]))
    sizes = data.draw(st.lists(st.integers(0, 100), min_size=1, max_size=40))
    place = data.draw(st.integers(0, len(sizes)))
    function, outputs = LOSSES[loss]
    n = data.draw(st.integers(1, 130))
    rate = data.draw(st.sampled_from([0.3, 1.0]))
    own = make_client(loss, n, d, 1000)
    batch = np.random.default_rng(7).random(n) < rate
    crowd = [make_client(loss, size, d, seed) for seed, size in enumerate(sizes)]
    crowd.insert(place, own)
    seeds = [*range(place), 1000, *range(place, len(sizes))]
    batches = [np.random.default_rng(s).random(len(c[1])) < 0.5 for s, c in enumerate(crowd)]
    batches[place] = batch

    alone = LinearCohort([own], function, out_features=outputs, bias=bias)
    among = LinearCohort(crowd, function, out_features=outputs, bias=bias)
    parameters = make_parameters(alone, [1000])
    others = make_parameters(among, seeds)

    np.testing.assert_array_equal(
        alone.clipped_sums(parameters, [batch], 0.9).value[0],
        among.clipped_sums(others, batches, 0.9).value[place],
    )
    np.testing.assert_array_equal(alone.losses(parameters)[0], among.losses(others)[place])
    grid = np.stack([parameters, 2 * parameters, parameters - 1], axis=1)
    grids = np.stack([others, 2 * others, others - 1], axis=1)
    np.testing.assert_array_equal(
        alone.losses(grid, [batch])[0], among.losses(grids, batches)[place]
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_many_blocks_give_each_client_the_bits_it_has_alone(loss: str) -> None:
    function, outputs = LOSSES[loss]
    clients = [make_client(loss, 20 + k % 60, 20, k) for k in range(300)]
    cohort = LinearCohort(clients, function, out_features=outputs, bias=True)
    parameters = make_parameters(cohort, list(range(300)))
    batches = [np.random.default_rng(k).random(len(c[1])) < 0.8 for k, c in enumerate(clients)]

    sums = cohort.clipped_sums(parameters, batches, 0.5).value

    for k in range(0, 300, 7):
        alone = LinearCohort([clients[k]], function, out_features=outputs, bias=True)
        own = alone.clipped_sums(parameters[[k]], [batches[k]], 0.5).value[0]
        np.testing.assert_array_equal(sums[k], own)


def test_nobody_has_a_batch() -> None:
    clients = [make_client("logistic", n, 4, n) for n in (3, 0)]
    cohort = LinearCohort(clients, logistic, out_features=1, bias=True)
    parameters = make_parameters(cohort, [0, 1])
    batches = [np.zeros(3, dtype=bool), np.zeros(0, dtype=bool)]

    sums = cohort.clipped_sums(parameters, batches, 1.0)

    np.testing.assert_array_equal(sums.value, np.zeros((2, 5)))
    np.testing.assert_array_equal(sums.non_finite, [0, 0])
    assert [losses.shape for losses in cohort.losses(parameters, batches)] == [(0,), (0,)]


def test_gradients_that_are_not_finite_contribute_zero_and_are_counted() -> None:
    clients = [make_client("cross entropy", 50, 6, seed) for seed in range(4)]
    cohort = LinearCohort(clients, cross_entropy, out_features=5, bias=True)
    parameters = make_parameters(cohort, [0, 1, 2, 3])
    everything = [np.ones(50, dtype=bool)] * 4
    expected = cohort.clipped_sums(parameters, everything, 1.0).value
    bad = [(inputs.copy(), targets) for inputs, targets in clients]
    bad[1][0][[4, 40], [0, 5]] = [np.nan, np.inf]
    without = [batch.copy() for batch in everything]
    without[1][[4, 40]] = False
    kept = cohort.clipped_sums(parameters, without, 1.0).value[1]
    parameters[3] = np.nan

    sums = LinearCohort(bad, cross_entropy, out_features=5, bias=True).clipped_sums(
        parameters, everything, 1.0
    )

    np.testing.assert_array_equal(sums.non_finite, [0, 2, 0, 50])
    np.testing.assert_array_equal(sums.value[[0, 2]], expected[[0, 2]])
    np.testing.assert_allclose(sums.value[1], kept, atol=1e-5)
    np.testing.assert_array_equal(sums.value[3], np.zeros(35))


@given(seed=st.integers(0, 2**16), n=st.integers(1, 70), norm=st.floats(1e-3, 1e2))
@settings(max_examples=30, deadline=None)
def test_one_example_moves_the_sum_by_at_most_the_norm(seed: int, n: int, norm: float) -> None:
    cohort = LinearCohort(
        [make_client("cross entropy", n, 9, seed)], cross_entropy, out_features=5, bias=True
    )
    parameters = make_parameters(cohort, [seed])
    everything, others = np.ones(n, dtype=bool), np.ones(n, dtype=bool)
    others[seed % n] = False

    difference = (
        cohort.clipped_sums(parameters, [everything], norm).value
        - cohort.clipped_sums(parameters, [others], norm).value
    )

    assert np.linalg.norm(difference) <= norm * (1 + 1e-6 * n)


def test_wrong_arguments_are_refused() -> None:
    cohort = LinearCohort([make_client("logistic", 3, 4, 0)], logistic, out_features=1, bias=False)
    parameters = make_parameters(cohort, [0])
    with pytest.raises(ValueError, match="one entry for each example of each client"):
        cohort.clipped_sums(parameters, [np.ones(2, dtype=bool)], 1.0)
    with pytest.raises(ValueError, match="clipping_norm = nan"):
        cohort.clipped_sums(parameters, [np.ones(3, dtype=bool)], np.nan)


def test_small_and_large_models_share_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of tiles in a block is a matter of speed: results agree to rounding."""
    clients = [make_client("cross entropy", n, 30, n) for n in (10, 90)]
    everything = [np.ones(n, dtype=bool) for n in (10, 90)]
    results = []
    for entries in (2**18, 1):
        monkeypatch.setattr(linear_cohort, "BLOCK_ENTRIES", entries)
        cohort = LinearCohort(clients, cross_entropy, out_features=5, bias=True)
        parameters = make_parameters(cohort, [0, 1])
        results.append(cohort.clipped_sums(parameters, everything, 1.0).value)
    np.testing.assert_allclose(results[0], results[1], atol=1e-5)


def test_inputs_may_lie_anywhere_in_memory() -> None:
    inputs, targets = make_client("logistic", 33, 5, 0)
    shifted = np.empty(inputs.size + 3, dtype=np.float32)[3:].reshape(inputs.shape)
    shifted[:] = inputs
    shifted.flags.writeable = False
    batch = [np.ones(33, dtype=bool)]
    values = []
    for own in (inputs, shifted, np.asfortranarray(inputs)):
        cohort = LinearCohort([(own, targets)], logistic, out_features=1, bias=True)
        values.append(cohort.clipped_sums(make_parameters(cohort, [0]), batch, 1.0).value)
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])
    assert torch.get_num_threads() == 1
