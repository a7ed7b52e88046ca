"""The models of the tasks, built with zero parameters and no draw from a global generator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

Layer = TypeVar("Layer", bound=nn.Module)


def _zeroed(layer: Layer) -> Layer:
    """Give a layer of the meta device zero parameters in memory."""
    # torch's own initialisation would consume the global generator: on the meta device it cannot.
    layer = layer.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    return layer


def linear(inputs: int, outputs: int, *, bias: bool) -> nn.Linear:
    """Return a linear layer with `inputs` features and `outputs` outputs, all parameters zero."""
    return _zeroed(nn.Linear(inputs, outputs, bias=bias, device="meta"))


def convolution(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, padding: int = 0
) -> nn.Conv2d:
    """Return a convolution with a square kernel and a bias, all parameters zero.

    Args:
        inputs: Channels of the input.
        outputs: Channels of the output.
        kernel: Side of the kernel, in pixels.
        stride: Pixels from one position to the next.
        padding: Zeros added on each side.
    """
    layer = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, device="meta")
    return _zeroed(layer)


class MaxPool(nn.MaxPool2d):
    """2x2 max pooling with the channels last in memory.

    torch then compares several channels at a time; in the usual layout, pooling took a third of a
    clipped gradient of a small network on one core.
    """

    def __init__(self, stride: int) -> None:
        """Pool squares of two by two pixels whose corners are `stride` pixels apart."""
        super().__init__(2, stride)

    def forward(self, images: Tensor) -> Tensor:
        """Return the largest value of each square, shape (n, channels, rows, columns)."""
        pooled: Tensor = super().forward(images.contiguous(memory_format=torch.channels_last))
        return pooled


def multilayer_perceptron(widths: Sequence[int]) -> nn.Module:
    """Return linear layers with ReLU between them, all parameters zero.

    Args:
        widths: Sizes of the input, of each hidden layer, and of the output; two sizes give one
            linear layer.
    """
    first, *others = (linear(a, b, bias=True) for a, b in pairwise(widths))
    if not others:
        return first
    return nn.Sequential(first, *(part for layer in others for part in (nn.ReLU(), layer)))
