"""Clipped sums against per-example autograd (the definition) and Opacus (a peer)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedgame.mechanisms import bookkeeping
from fedgame.mechanisms.bookkeeping import PerExampleClipper, to_tensor
from fedgame.mechanisms.layer_gradients import ghost_is_cheaper


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets, reduction="none")


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 9), nn.ReLU(inplace=True), nn.Linear(9, 4))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(6 * 2 * 2, 8),
        nn.ReLU(),
        nn.Linear(8, 4),
    )


def conv(channels: int, **options: Any) -> nn.Module:
    """Return a convolution of 9 x 8 pictures that feeds four classes."""
    head = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * 6, 4))
    return nn.Sequential(nn.Conv2d(channels, 6, **options), nn.Tanh(), head)


class Scale(nn.Module):
    """A layer of one's own whose one parameter has no axes."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = self.factor * x
        return scaled


class Counting(nn.Module):
    """A layer with an integer buffer, which is none of a gradient's business."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x


class Branches(nn.Module):
    """Two layers that see the model's input, and one of which is followed by a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(12, 4), nn.Linear(12, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.left(x) + torch.tanh(self.right(x))
        return out


def positions(sizes: tuple[int, int, int]) -> nn.Module:
    """Return a linear layer that acts at each position of (positions, features)."""
    steps, inputs, outputs = sizes
    head = nn.Linear(steps * outputs, 4)
    return nn.Sequential(nn.Linear(inputs, outputs), nn.Tanh(), nn.Flatten(), head)


GHOST, MATERIALISED = (2, 16, 8), (40, 3, 2)

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (12,)),
    "cnn": (cnn, (1, 14, 14)),
    "linear": (lambda: nn.Linear(12, 4), (12,)),
    "linear without bias": (lambda: nn.Linear(12, 4, bias=False), (12,)),
    "linear at few positions": (lambda: positions(GHOST), GHOST[:2]),
    "linear at many positions": (lambda: positions(MATERIALISED), MATERIALISED[:2]),
    "branches": (Branches, (12,)),
    "stride and padding": (lambda: conv(3, kernel_size=3, stride=2, padding=(2, 1)), (3, 9, 8)),
    "dilation": (lambda: conv(3, kernel_size=(3, 2), dilation=(1, 2)), (3, 9, 8)),
    "same": (lambda: conv(3, kernel_size=(4, 3), padding="same", dilation=(1, 2)), (3, 9, 8)),
    "valid": (lambda: conv(3, kernel_size=3, padding="valid", bias=False), (3, 9, 8)),
    "reflect": (lambda: conv(3, kernel_size=3, padding=1, padding_mode="reflect"), (3, 9, 8)),
    "circular": (lambda: conv(3, kernel_size=3, padding=2, padding_mode="circular"), (3, 9, 8)),
    "groups": (lambda: conv(4, kernel_size=3, groups=2), (4, 9, 8)),
    "groups at few positions": (lambda: conv(16, kernel_size=3, stride=5, groups=2), (16, 9, 8)),
    "few positions": (lambda: conv(16, kernel_size=3, stride=5), (16, 9, 8)),
    "layer norm": (lambda: nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 4)), (12,)),
    "group norm": (
        lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4 * 6, 4)),
        (4, 6),
    ),
    "conv1d": (
        lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 4)),
        (3, 6),
    ),
    "scale": (lambda: nn.Sequential(Scale(), nn.Linear(12, 4), Scale()), (12,)),
    "integer buffer": (lambda: nn.Sequential(Counting(), nn.Linear(12, 4)), (12,)),
}


def examples(shape: tuple[int, ...], n: int, seed: int = 0) -> tuple[NDArray[np.float32], Any]:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n, *shape)).astype(np.float32)
    # Lengths differ, so that some gradients are clipped and others are not.
    inputs *= np.geomspace(0.1, 3.0, n).reshape(n, *[1] * len(shape)).astype(np.float32)
    return inputs, rng.integers(0, 4, n)


def flat_parameters(module: nn.Module, seed: int = 1) -> NDArray[np.float32]:
    size = sum(parameter.numel() for parameter in module.parameters())
    return np.random.default_rng(seed).normal(size=size).astype(np.float32) * np.float32(0.3)


def per_example_gradients(
    module: nn.Module, parameters: NDArray[np.float32], inputs: Any, targets: Any
) -> NDArray[np.float64]:
    """Return gradients (n, P) in float64 by one backward pass an example."""
    reference = copy.deepcopy(module).double()
    flat = torch.from_numpy(parameters).double()
    nn.utils.vector_to_parameters(flat, reference.parameters())
    rows = []
    for x, y in zip(inputs, targets, strict=True):
        outputs = reference(torch.from_numpy(x[None]).double())
        loss = cross_entropy(outputs, torch.tensor([y]))
        gradients = torch.autograd.grad(loss, list(reference.parameters()))
        rows.append(torch.cat([g.reshape(-1) for g in gradients]).numpy())
    return np.stack(rows)


def clip(gradients: NDArray[np.float64], norm: float) -> NDArray[np.float64]:
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped: NDArray[np.float64] = gradients * np.minimum(1.0, norm / norms)
    return clipped


@pytest.mark.filterwarnings("ignore")  # importing Opacus warns about torch's own deprecations
@pytest.mark.parametrize("name", MODELS)
def test_sum_equals_brute_force(name: str) -> None:
    make, shape = MODELS[name]
    module = make()
    parameters, (inputs, targets) = flat_parameters(module), examples(shape, 11)
    gradients = per_example_gradients(module, parameters, inputs, targets)
    norm = float(np.median(np.linalg.norm(gradients, axis=1)))
    clipper = PerExampleClipper(module, cross_entropy)

    result = clipper.clipped_sum(parameters, inputs, targets, norm)

    assert result.value.dtype == np.float64
    assert result.non_finite == 0
    np.testing.assert_allclose(result.value, clip(gradients, norm).sum(0), atol=1e-5 * norm)
    average = clipper.average_gradient(parameters, inputs, targets)
    np.testing.assert_allclose(average.value, gradients.mean(0), atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_blocks_add_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, shape = MODELS[name]
    module = make()
    parameters, (inputs, targets) = flat_parameters(module), examples(shape, 11)
    inputs[[1, 9]] = np.nan
    whole = PerExampleClipper(module, cross_entropy).clipped_sum(parameters, inputs, targets, 1.0)
    monkeypatch.setattr(bookkeeping, "BLOCK", 4)
    monkeypatch.setattr(bookkeeping, "LINEAR_BLOCK", 4)

    blocks = PerExampleClipper(module, cross_entropy).clipped_sum(parameters, inputs, targets, 1.0)

    assert blocks.non_finite == whole.non_finite == 2
    np.testing.assert_allclose(blocks.value, whole.value, atol=1e-5)


def test_both_ways_to_take_norms_are_tested() -> None:
    assert ghost_is_cheaper(*GHOST)
    assert not ghost_is_cheaper(*MATERIALISED)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_sum_equals_opacus(name: str) -> None:
    from opacus.grad_sample import GradSampleModule

    make, shape = MODELS[name]
    module = make()
    parameters, (inputs, targets) = flat_parameters(module), examples(shape, 32)
    peer = copy.deepcopy(module)
    for part in peer.modules():
        if isinstance(part, nn.ReLU):
            part.inplace = False
    nn.utils.vector_to_parameters(torch.from_numpy(parameters), peer.parameters())
    peer = GradSampleModule(peer, loss_reduction="sum")
    loss = cross_entropy(peer(torch.from_numpy(inputs)), torch.from_numpy(targets)).sum()
    torch.autograd.backward(loss)
    samples = [p.grad_sample.reshape(32, -1).double().numpy() for p in peer.parameters()]
    gradients = np.concatenate(samples, axis=1)
    norm = float(np.median(np.linalg.norm(gradients, axis=1)))

    result = PerExampleClipper(module, cross_entropy).clipped_sum(parameters, inputs, targets, norm)

    np.testing.assert_allclose(result.value, clip(gradients, norm).sum(0), atol=1e-5)


def test_token_inputs() -> None:
    module = nn.Sequential(nn.Embedding(7, 5), nn.Flatten(), nn.Linear(15, 4))
    tokens = np.random.default_rng(0).integers(0, 7, (6, 3))
    targets = np.arange(6) % 4
    parameters = flat_parameters(module)
    clipper = PerExampleClipper(module, cross_entropy)

    total = clipper.clipped_sum(parameters, tokens, targets, 0.5)  # type: ignore[arg-type]

    singles = [
        clipper.clipped_sum(parameters, tokens[[i]], targets[[i]], np.inf).value  # type: ignore[arg-type]
        for i in range(6)
    ]
    np.testing.assert_allclose(total.value, clip(np.stack(singles), 0.5).sum(0), atol=1e-6)


@given(
    seed=st.integers(0, 2**16),
    n=st.integers(1, 9),
    norm=st.floats(1e-3, 1e3),
    scale=st.floats(1e-3, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_one_example_moves_the_sum_by_at_most_the_norm(
    seed: int, n: int, norm: float, scale: float
) -> None:
    clipper = PerExampleClipper(CLIPPED, cross_entropy)
    parameters, (inputs, targets) = flat_parameters(CLIPPED), examples((1, 14, 14), n, seed)
    inputs = inputs * np.float32(scale)

    total = clipper.clipped_sum(parameters, inputs, targets, norm).value
    others = clipper.clipped_sum(parameters, inputs[1:], targets[1:], norm).value
    own = clipper.clipped_sum(parameters, inputs[:1], targets[:1], norm).value

    rounding = 1e-6 * n
    assert np.linalg.norm(own) <= norm * (1 + rounding)
    assert np.linalg.norm(total - others) <= norm * (1 + rounding)


CLIPPED = cnn()


def test_long_gradients_are_clipped_to_the_norm_itself() -> None:
    """In float32 the square of 1e25 is infinite; the norm is accumulated in float64."""
    module = nn.Linear(12, 4)
    inputs, targets = examples((12,), 1)

    result = PerExampleClipper(module, cross_entropy).clipped_sum(
        flat_parameters(module), inputs * np.float32(1e25), targets, 1.0
    )

    assert result.non_finite == 0
    assert np.linalg.norm(result.value) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("name", ["mlp", "cnn", "linear at few positions"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_examples_with_gradients_that_are_not_finite_contribute_zero(name: str, bad: float) -> None:
    make, shape = MODELS[name]
    module = make()
    parameters, (inputs, targets) = flat_parameters(module), examples(shape, 8)
    clipper = PerExampleClipper(module, cross_entropy)
    expected = clipper.clipped_sum(
        parameters, np.delete(inputs, [2, 5], 0), np.delete(targets, [2, 5]), 1.0
    )
    inputs[2].flat[3] = bad
    inputs[5].flat[0] = bad

    result = clipper.clipped_sum(parameters, inputs, targets, 1.0)

    assert result.non_finite == 2
    np.testing.assert_array_equal(result.value, expected.value)


def test_no_example_has_a_finite_gradient() -> None:
    inputs, targets = examples((12,), 3)
    module = mlp()
    parameters = np.full_like(flat_parameters(module), np.nan)

    result = PerExampleClipper(module, cross_entropy).clipped_sum(parameters, inputs, targets, 1.0)

    assert result.non_finite == 3
    assert not result.value.any()


def test_empty_batch_gives_zeros() -> None:
    module = mlp()
    clipper = PerExampleClipper(module, cross_entropy)
    inputs, targets = np.zeros((0, 12), dtype=np.float32), np.zeros(0, dtype=np.int64)
    parameters = flat_parameters(module)

    for result in (
        clipper.clipped_sum(parameters, inputs, targets, 1.0),
        clipper.average_gradient(parameters, inputs, targets),
    ):
        assert result.non_finite == 0
        np.testing.assert_array_equal(result.value, np.zeros(clipper.num_parameters))
    assert clipper.losses(parameters, inputs, targets).shape == (0,)


class Sometimes(nn.Module):
    """A model whose loss depends on its second layer for positive inputs only."""

    def __init__(self) -> None:
        super().__init__()
        self.always, self.sometimes = nn.Linear(12, 4), nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.always(x)
        other: Tensor = self.sometimes(x)
        return out + other if x.min() > 0 else out


def test_a_layer_that_the_loss_does_not_depend_on_has_a_zero_gradient() -> None:
    module = Sometimes()
    inputs, targets = examples((12,), 5)
    clipper = PerExampleClipper(module, cross_entropy)
    parameters = flat_parameters(module)
    with_both = clipper.clipped_sum(parameters, np.abs(inputs), targets, 1.0).value
    assert with_both[52:].any()

    value = clipper.clipped_sum(parameters, inputs, targets, 1.0).value

    assert value[:52].any()
    assert not value[52:].any()


def test_losses_at_one_and_at_several_parameter_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookkeeping, "BLOCK", 4)
    module = cnn()
    inputs, targets = examples((1, 14, 14), 10)
    vectors = np.stack([flat_parameters(module, seed) for seed in (1, 2, 3)])
    clipper = PerExampleClipper(module, cross_entropy)

    several = clipper.losses(vectors, inputs, targets)

    assert several.shape == (3, 10)
    for row, vector in zip(several, vectors, strict=True):
        np.testing.assert_array_equal(row, clipper.losses(vector, inputs, targets))
        nn.utils.vector_to_parameters(torch.from_numpy(vector), module.parameters())
        with torch.no_grad():
            expected = cross_entropy(module(torch.from_numpy(inputs)), torch.from_numpy(targets))
        np.testing.assert_allclose(row, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_the_callers_module_stays_as_it_is() -> None:
    module = mlp()
    before = copy.deepcopy(module.state_dict())
    inputs, targets = examples((12,), 5)

    PerExampleClipper(module, cross_entropy).clipped_sum(
        flat_parameters(module), inputs, targets, 1.0
    )

    assert all(parameter.requires_grad for parameter in module.parameters())
    assert all(parameter.grad is None for parameter in module.parameters())
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    inner = module[1]  # type: ignore[index]
    assert inner.inplace


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_bits_depend_on_values_alone(name: str) -> None:
    """The same numbers elsewhere in memory, in any layout, give the same bits."""
    make, shape = MODELS[name]
    module = make()
    parameters, (inputs, targets) = flat_parameters(module), examples(shape, 13)
    clipper = PerExampleClipper(module, cross_entropy)
    expected = clipper.clipped_sum(parameters, inputs, targets, 0.5).value
    for offset in range(1, 5):
        shifted = np.empty(inputs.size + offset, dtype=np.float32)[offset:].reshape(inputs.shape)
        shifted[:] = inputs
        shifted.flags.writeable = offset % 2 == 0
        strided = np.repeat(parameters, 2)[::2]
        result = PerExampleClipper(make(), cross_entropy).clipped_sum(
            strided, shifted, targets, 0.5
        )
        np.testing.assert_array_equal(result.value, expected)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.arange(3, dtype=np.int32), torch.int64),
        (np.arange(3, dtype=np.float64), torch.float32),
        (np.array([True, False]), torch.int64),
    ],
)
def test_arrays_become_tensors_of_the_two_types_in_use(
    array: NDArray[Any], dtype: torch.dtype
) -> None:
    tensor = to_tensor(array)
    assert tensor.dtype == dtype
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_arrays_that_may_not_be_written_are_copied() -> None:
    aligned = torch.arange(8.0).numpy()
    assert to_tensor(aligned).data_ptr() == aligned.ctypes.data
    aligned.flags.writeable = False
    assert to_tensor(aligned).data_ptr() != aligned.ctypes.data


def test_arguments_of_the_wrong_shape_or_range_are_refused() -> None:
    module = mlp()
    clipper = PerExampleClipper(module, cross_entropy)
    parameters, (inputs, targets) = flat_parameters(module), examples((12,), 3)
    with pytest.raises(ValueError, match=r"parameters have shape \(156,\): must be \(157,\)"):
        clipper.clipped_sum(parameters[1:], inputs, targets, 1.0)
    for norm in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="clipping_norm"):
            clipper.clipped_sum(parameters, inputs, targets, norm)
    mean = PerExampleClipper(module, functional.cross_entropy)
    with pytest.raises(ValueError, match=r"losses have shape \(\): must be one a example, \(3,\)"):
        mean.clipped_sum(parameters, inputs, targets, 1.0)
