"""Sums of clipped per-example gradients of any supported torch model, by book-keeping.

One forward pass keeps the inputs of each layer that has parameters, one backward pass stops at
those layers' outputs, and norms and clipped sums follow from the two (see `layer_gradients`). The
backward pass computes no weight gradient and no gradient for the model's input, so a private step
takes about as long as a plain one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgame.mechanisms.layer_gradients import LayerGradients
from fedgame.mechanisms.supported_layers import Layer, refused, supported_layers

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""Returns per-example losses from outputs (..., n, k) and targets (..., n)."""

BLOCK = 128
"""Examples in one pass: memory does not grow with n, and activations stay near the cache."""

LINEAR_BLOCK = 4096
"""The same for models of linear layers only, whose activations are small beside their weights."""

LARGEST_SQUARE = 1e60
"""A gradient with a larger squared norm counts as not finite: float32 has no room to scale it."""

UNCLIPPED = 1e300
"""A norm that no gradient of finite float32 numbers reaches."""

ALIGNMENT = 64
"""Bytes: the bits of a matrix product may depend on how its operands are aligned."""


@dataclass(frozen=True)
class ClippedSum:
    """A sum over examples.

    Attributes:
        value: The sum, float64, shape (parameters,).
        non_finite: How many examples had a gradient that is not finite; they contribute zero.
    """

    value: NDArray[np.float64]
    non_finite: int


@dataclass
class _Call:
    """One call of a layer in the forward pass now being recorded."""

    layer: Layer
    inputs: Tensor
    outputs: Tensor
    versions: tuple[int, int]


class PerExampleClipper:
    """Per-example gradients of one model, clipped to one L2 norm over all its tensors.

    Results are bits that depend on the arguments alone, on one thread. A clipper is not safe to
    share between threads.
    """

    def __init__(self, module: nn.Module, losses: LossFunction) -> None:
        """Prepare a copy of `module`; the caller's own stays as it is.

        Args:
            module: The model; its parameter values do not matter. Each layer with parameters is
                called at most once in a forward pass, with one tensor whose first axis counts the
                examples.
            losses: Returns each example's loss, shape (n,), from outputs (n, k) and targets (n,).

        Raises:
            ConfigError: A layer mixes examples, draws random numbers or cannot be supported; the
                message names it.
        """
        self._module = copy.deepcopy(module)
        self._losses = losses
        self._layers = supported_layers(self._module)
        self._values, self._places = flat_views(self._module)
        self._sums = torch.zeros_like(self._values)
        linear = all(isinstance(layer.module, nn.Linear) for layer in self._layers)
        self._block = LINEAR_BLOCK if linear else BLOCK
        self._calls: list[_Call] | None = None
        for layer in self._layers:
            layer.module.register_forward_hook(self._hook(layer))

    @property
    def num_parameters(self) -> int:
        """The number of entries of the flat parameter vector."""
        return len(self._values)

    def clipped_sum(
        self,
        parameters: NDArray[np.float32],
        inputs: NDArray[np.float32],
        targets: NDArray[Any],
        clipping_norm: float,
    ) -> ClippedSum:
        """Return sum_i min(1, C / |grad_i|) grad_i over the examples.

        Args:
            parameters: Flat parameters in the order of `module.parameters()`, shape (parameters,).
            inputs: The examples, shape (n, ...); none gives zeros.
            targets: Class labels or values, shape (n,).
            clipping_norm: C > 0; infinity clips nothing.

        Raises:
            ValueError: An argument has the wrong shape or range.
        """
        if not clipping_norm > 0:
            raise ValueError(f"clipping_norm = {clipping_norm}: must be > 0")
        self._load(parameters)
        x, y, limit = to_tensor(inputs), to_tensor(targets), min(clipping_norm, UNCLIPPED)
        with torch.no_grad():
            total = self._sum(x[: self._block], y[: self._block], limit)
            for start in range(self._block, len(x), self._block):
                block = slice(start, start + self._block)
                part = self._sum(x[block], y[block], limit)
                total = ClippedSum(total.value + part.value, total.non_finite + part.non_finite)
        return total

    def average_gradient(
        self,
        parameters: NDArray[np.float32],
        inputs: NDArray[np.float32],
        targets: NDArray[Any],
    ) -> ClippedSum:
        """Return the mean gradient over the n examples, none of them clipped.

        Arguments are those of `clipped_sum`. One example can move it by any amount; what is made
        of it must be clipped as a whole.
        """
        total = self.clipped_sum(parameters, inputs, targets, UNCLIPPED)
        return ClippedSum(total.value / max(len(inputs), 1), total.non_finite)

    def losses(
        self,
        parameters: NDArray[np.float32],
        inputs: NDArray[np.float32],
        targets: NDArray[Any],
    ) -> NDArray[np.float64]:
        """Return each example's loss by forward passes without gradients.

        Args:
            parameters: One flat vector, shape (parameters,), or several, shape (g, parameters).
            inputs: The examples, shape (n, ...).
            targets: Class labels or values, shape (n,).

        Returns:
            Shape (n,), or (g, n) for several parameter vectors.
        """
        x, y = to_tensor(inputs), to_tensor(targets)
        vectors = np.atleast_2d(parameters)
        result = np.zeros((len(vectors), len(x)))
        with torch.no_grad():
            for row, vector in zip(result, vectors, strict=True):
                self._load(vector)
                for start in range(0, len(x), self._block):
                    block = slice(start, start + self._block)
                    row[block] = self._losses(self._module(x[block]), y[block]).numpy()
        return result if np.ndim(parameters) == 2 else result[0]

    def _load(self, parameters: NDArray[np.float32]) -> None:
        if parameters.shape != (self.num_parameters,):
            raise ValueError(
                f"parameters have shape {parameters.shape}: must be ({self.num_parameters},)"
            )
        self._values.numpy()[:] = parameters

    def _sum(self, inputs: Tensor, targets: Tensor, limit: float) -> ClippedSum:
        if len(inputs) == 0:
            return ClippedSum(np.zeros(self.num_parameters), 0)
        pairs = self._layer_gradients(inputs, targets)
        squares = np.zeros(len(inputs))
        for _, gradients in pairs:
            squares += gradients.squared_norms()
        finite = squares <= LARGEST_SQUARE
        if not finite.all():
            # Zero weights would not do: zero times infinity is not a number.
            kept = torch.from_numpy(np.flatnonzero(finite))
            rest = self._sum(inputs[kept], targets[kept], limit)
            return ClippedSum(rest.value, rest.non_finite + len(finite) - len(kept))
        norms = np.sqrt(squares)
        # Dividing by the larger of the two leaves short gradients alone and never divides by zero.
        factors = torch.from_numpy((limit / np.maximum(norms, limit)).astype(np.float32))
        self._sums.zero_()
        for layer, gradients in pairs:
            places = (self._places[parameter] for parameter in layer.parameters)
            out = [
                self._sums[start : start + parameter.numel()].view_as(parameter)
                for start, parameter in zip(places, layer.parameters, strict=True)
            ]
            gradients.weighted_sum(factors, out)
        return ClippedSum(self._sums.numpy().astype(np.float64), 0)

    def _layer_gradients(
        self, inputs: Tensor, targets: Tensor
    ) -> list[tuple[Layer, LayerGradients]]:
        """Run one forward and one backward pass; return each layer's per-example gradients."""
        calls: list[_Call] = []
        self._calls = calls
        try:
            with torch.enable_grad():
                losses = self._losses(self._module(inputs), targets)
        finally:
            self._calls = None
        if losses.shape != (len(inputs),):
            raise ValueError(
                f"losses have shape {tuple(losses.shape)}: must be one a example, ({len(inputs)},)"
            )
        self._check_calls(calls)
        gradients = torch.autograd.grad(
            losses, [call.outputs for call in calls], torch.ones_like(losses), allow_unused=True
        )
        return [
            (call.layer, call.layer.rule(call.inputs.detach(), gradient))
            for call, gradient in zip(calls, gradients, strict=True)
            if gradient is not None
        ]

    def _check_calls(self, calls: list[_Call]) -> None:
        """Refuse a model whose parameters act in ways that the recorded calls do not show."""
        for layer in self._layers:
            if all(call.layer is not layer for call in calls):
                raise refused(layer.name, "the forward pass does not call it")
        for call in calls:
            if (call.inputs._version, call.outputs._version) != call.versions:  # noqa: SLF001
                raise refused(call.layer.name, "its input or output is changed in place")

    def _hook(self, layer: Layer) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
            if self._calls is None:
                return
            if any(call.layer is layer for call in self._calls):
                raise refused(layer.name, "it is called twice in one forward pass")
            if len(args) != 1 or not all(isinstance(x, Tensor) for x in (args[0], output)):
                raise refused(layer.name, "it must take one tensor and return one")
            if not output.requires_grad:
                output.requires_grad_()
            # In-place changes would make the kept tensors lie; the versions reveal them.
            versions = (args[0]._version, output._version)  # noqa: SLF001
            self._calls.append(_Call(layer, args[0], output, versions))

        return hook


def flat_views(module: nn.Module) -> tuple[Tensor, dict[nn.Parameter, int]]:
    """Move a module's parameters into one flat float32 tensor, of which they become views.

    Returns:
        The flat tensor, in the order of `module.parameters()`, and where each parameter starts.
    """
    parameters = list(module.parameters())
    flat = torch.zeros(sum(parameter.numel() for parameter in parameters))
    places: dict[nn.Parameter, int] = {}
    start = 0
    for parameter in parameters:
        places[parameter] = start
        parameter.data = flat[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    return flat, places


def to_tensor(array: NDArray[Any]) -> Tensor:
    """Return `array` as a float32 or int64 tensor that starts on a 64-byte boundary."""
    dtype = np.int64 if array.dtype.kind in "iub" else np.float32
    if (
        array.dtype == dtype
        and array.flags.c_contiguous
        and array.flags.writeable
        and array.ctypes.data % ALIGNMENT == 0
    ):
        return torch.from_numpy(array)
    tensor = torch.empty(array.shape, dtype=torch.int64 if dtype == np.int64 else torch.float32)
    tensor.numpy()[...] = array
    return tensor
