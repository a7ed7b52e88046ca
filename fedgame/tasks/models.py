"""The models of the tasks, built with zero parameters and no draw from a global generator."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn


def linear(inputs: int, outputs: int, *, bias: bool) -> nn.Linear:
    """Return a linear layer with `inputs` features and `outputs` outputs, all parameters zero."""
    # torch's own initialisation would consume the global generator: on the meta device it cannot.
    layer = nn.Linear(inputs, outputs, bias=bias, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    return layer


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
