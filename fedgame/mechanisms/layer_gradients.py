"""Per-example gradients of one layer, kept as its inputs and its output gradients.

The gradient of example i in a linear map is a sum over positions t of g_it a_it^T, a the layer's
inputs and g the gradient of the loss with respect to its outputs. Norms and weighted sums follow
from a and g, so that one backward pass that computes no weight gradient at all is enough
(Goodfellow 2015; Bu, Mao, Xu 2022, "book-keeping"). The weighted sum then costs what the weight
gradient would have cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

FloatArray = NDArray[np.float64]

BLOCK = 8
"""Examples whose patches are unfolded at once: a block stays in the cache."""

SQUARED_ROWS = 1024
"""Rows whose squares are summed at once."""

SQUARED_COLUMNS = 4096
"""Entries of a row in one dot product: short enough for a BLAS not to split it over threads."""

MATERIALISED_COST = 16
"""Multiply-adds that take about as long as to write, square and sum one materialised entry."""


class LayerGradients(Protocol):
    """The per-example gradients of one layer's parameters, for n examples."""

    def squared_norms(self) -> FloatArray:
        """Return each example's squared L2 norm over the layer's parameters, shape (n,)."""
        ...

    def weighted_sum(self, weights: Tensor, out: Sequence[Tensor]) -> None:
        """Write sum_i weights_i grad_i into `out`.

        Args:
            weights: float32, shape (n,).
            out: One contiguous tensor a parameter, of its shape, in the layer's own order.
        """
        ...


LayerRule = Callable[[Tensor, Tensor], LayerGradients]
"""Builds a layer's gradients from its inputs (n, ...) and its output gradients (n, ...)."""


def squared_rows(rows: Tensor) -> FloatArray:
    """Return the squared L2 norm of each row of (n, k), accumulated in float64."""
    values = rows.numpy()
    squares = np.zeros(len(values))
    # The float64 copy is made in pieces: it is larger than the rows themselves.
    for row in range(0, len(values), SQUARED_ROWS):
        for column in range(0, values.shape[1], SQUARED_COLUMNS):
            part = values[row : row + SQUARED_ROWS, column : column + SQUARED_COLUMNS]
            part = part.astype(np.float64)
            products = np.matmul(part[:, None, :], part[:, :, None])
            squares[row : row + SQUARED_ROWS] += products[:, 0, 0]
    return squares


@dataclass(frozen=True)
class RankOne:
    """A linear layer seen at one position an example: grad_i = g_i a_i^T.

    Attributes:
        inputs: a, shape (n, d).
        gradients: g, shape (n, o).
        bias: Whether the layer has a bias, whose gradient is g_i.
    """

    inputs: Tensor
    gradients: Tensor
    bias: bool

    def squared_norms(self) -> FloatArray:
        """Return |g|^2 |a|^2, or |g|^2 (|a|^2 + 1) with a bias."""
        return squared_rows(self.gradients) * (squared_rows(self.inputs) + float(self.bias))

    def weighted_sum(self, weights: Tensor, out: Sequence[Tensor]) -> None:
        """Write g^T diag(weights) a, and g^T weights for a bias."""
        weighted = self.gradients * weights[:, None]
        torch.mm(weighted.T, self.inputs, out=out[0])
        if self.bias:
            torch.sum(weighted, 0, out=out[1])


@dataclass(frozen=True)
class Ghost:
    """A linear map at T positions an example, whose per-example gradients are never formed.

    Attributes:
        inputs: a, shape (n, d, T).
        gradients: g, shape (n, o, T).
        bias: Whether there is a bias, whose gradient is the sum of g over the positions.
    """

    inputs: Tensor
    gradients: Tensor
    bias: bool

    def squared_norms(self) -> FloatArray:
        """Return sum_tt' (a_t . a_t') (g_t . g_t'), in float64."""
        a, g = self.inputs.double(), self.gradients.double()
        inner = torch.bmm(a.transpose(1, 2), a)
        # A bias is one more input that is always 1.
        inner += float(self.bias)
        products = inner.mul_(torch.bmm(g.transpose(1, 2), g))
        # Rounding can leave a sum of squares a hair below zero.
        squares: FloatArray = products.sum((1, 2)).clamp_(min=0.0).numpy()
        return squares

    def weighted_sum(self, weights: Tensor, out: Sequence[Tensor]) -> None:
        """Write sum_i weights_i g_i a_i^T as one product over examples and positions."""
        weighted = (self.gradients * weights[:, None, None]).transpose(0, 1).flatten(1)
        torch.mm(weighted, self.inputs.transpose(1, 2).flatten(0, 1), out=out[0].flatten(1))
        if self.bias:
            torch.sum(weighted, 1, out=out[1])


@dataclass(frozen=True)
class Materialised:
    """Per-example gradients that were formed one by one.

    Attributes:
        tensors: One (n, size) tensor a parameter, in the layer's own order.
        squares: Their squared norms over all tensors, shape (n,).
    """

    tensors: tuple[Tensor, ...]
    squares: FloatArray

    def squared_norms(self) -> FloatArray:
        """Return the squared norms taken when the gradients were formed."""
        return self.squares

    def weighted_sum(self, weights: Tensor, out: Sequence[Tensor]) -> None:
        """Write weights @ gradients for each tensor."""
        for rows, total in zip(self.tensors, out, strict=True):
            torch.mv(rows.T, weights, out=total.view(-1))


def materialised(tensors: tuple[Tensor, ...]) -> Materialised:
    """Wrap per-example gradients (n, ...) of each parameter of a layer."""
    rows = tuple(tensor.flatten(1) if tensor.dim() > 1 else tensor[:, None] for tensor in tensors)
    squares = sum((squared_rows(row) for row in rows[1:]), start=squared_rows(rows[0]))
    return Materialised(rows, squares)


def ghost_is_cheaper(positions: int, inputs: int, outputs: int) -> bool:
    """Return whether norms from inner products beat norms of materialised gradients."""
    return positions**2 * (inputs + outputs) <= MATERIALISED_COST * inputs * outputs


def linear_rule(layer: nn.Linear) -> LayerRule:
    """Return the rule of a linear layer on inputs (n, d) or (n, ..., d)."""
    bias = layer.bias is not None

    def rule(inputs: Tensor, gradients: Tensor) -> LayerGradients:
        if inputs.dim() == 2:
            return RankOne(inputs, gradients, bias)
        a = inputs.flatten(1, -2).transpose(1, 2)
        g = gradients.flatten(1, -2).transpose(1, 2)
        if ghost_is_cheaper(a.shape[2], a.shape[1], g.shape[1]):
            return Ghost(a, g, bias)
        products = torch.bmm(g, a.transpose(1, 2))
        return materialised((products, g.sum(2)) if bias else (products,))

    return rule


def conv2d_rule(layer: nn.Conv2d) -> LayerRule:
    """Return the rule of a two-dimensional convolution, any stride, padding, dilation, groups."""
    bias, groups = layer.bias is not None, layer.groups

    def rule(inputs: Tensor, gradients: Tensor) -> LayerGradients:
        g = gradients.flatten(2)
        outputs, positions = g.shape[1:]
        fan_in = layer.weight[0].numel()
        if groups == 1 and ghost_is_cheaper(positions, fan_in, outputs):
            return Ghost(_patches(layer, inputs), g, bias)
        products = g.new_empty(len(g) * groups, outputs // groups, fan_in)
        rows = products.view(len(g), -1)
        squares = squared_rows(g.sum(2)) if bias else np.zeros(len(g))
        for start in range(0, len(g), BLOCK):
            block = slice(start, start + BLOCK)
            patches = _patches(layer, inputs[block]).view(-1, fan_in, positions)
            torch.bmm(
                g[block].reshape(-1, outputs // groups, positions),
                patches.transpose(1, 2),
                out=products[start * groups : (start + BLOCK) * groups],
            )
            squares[block] += squared_rows(rows[block])
        return Materialised((rows, g.sum(2)) if bias else (rows,), squares)

    return rule


def _patches(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    """Return the inputs that each output position sees, (n, channels kh kw, positions)."""
    padded = _pad(layer, inputs).contiguous()
    (kh, kw), (sh, sw), (dh, dw) = layer.kernel_size, layer.stride, layer.dilation
    n, channels, height, width = padded.shape
    rows = (height - dh * (kh - 1) - 1) // sh + 1
    columns = (width - dw * (kw - 1) - 1) // sw + 1
    s0, s1, s2, s3 = padded.stride()
    view = padded.as_strided(
        (n, channels, kh, kw, rows, columns), (s0, s1, s2 * dh, s3 * dw, s2 * sh, s3 * sw)
    )
    return view.reshape(n, channels * kh * kw, rows * columns)


def _pad(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    """Pad the inputs as the layer itself does."""
    if layer.padding == "valid":
        return inputs
    sides: list[int] = []
    for axis in (1, 0):
        if isinstance(layer.padding, str):
            total = layer.dilation[axis] * (layer.kernel_size[axis] - 1)
            sides += [total // 2, total - total // 2]
        else:
            sides += [int(layer.padding[axis])] * 2
    if not any(sides):
        return inputs
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return functional.pad(inputs, sides, mode=mode)
