"""Sums of clipped gradients by their definition, as judges of the fast ones."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fedgame.tasks.base import Examples


def clipped_sum_by_loop(
    module: nn.Module, parameters: NDArray[np.float32], examples: Examples, norm: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the clipped sum and each gradient's norm, in float64, one backward pass an example."""
    module = module.double()
    nn.utils.vector_to_parameters(torch.from_numpy(parameters).double(), module.parameters())
    total, norms = np.zeros(len(parameters)), np.zeros(len(examples))
    for i in range(len(examples)):
        outputs = module(torch.from_numpy(examples.inputs[i : i + 1]).double())
        loss = functional.cross_entropy(outputs, torch.from_numpy(examples.targets[i : i + 1]))
        parts = torch.autograd.grad(loss, list(module.parameters()))
        gradient = torch.cat([part.flatten() for part in parts]).numpy()
        norms[i] = np.linalg.norm(gradient)
        total += gradient * min(1.0, norm / norms[i])
    return total, norms


def clipped_sum_by_opacus(
    module: nn.Module, parameters: NDArray[np.float32], examples: Examples, norm: float
) -> NDArray[np.float64]:
    """Return the clipped sum from Opacus' per-sample gradients."""
    from opacus.grad_sample import GradSampleModule

    nn.utils.vector_to_parameters(torch.from_numpy(parameters), module.parameters())
    sampler = GradSampleModule(module, loss_reduction="sum")
    outputs = sampler(torch.from_numpy(examples.inputs))
    targets = torch.from_numpy(examples.targets)
    loss = functional.cross_entropy(outputs, targets, reduction="sum")
    torch.autograd.backward(loss)
    rows = np.concatenate(
        [p.grad_sample.flatten(1).double().numpy() for p in sampler.parameters()], axis=1
    )
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    total: NDArray[np.float64] = (rows * np.minimum(1.0, norm / norms)).sum(axis=0)
    return total


def noise_examples(shape: tuple[int, ...], count: int = 6) -> Examples:
    """Return pictures of noise of growing contrast, so that some gradients are clipped."""
    rng = np.random.default_rng(3)
    scale = np.geomspace(0.1, 3.0, count).reshape(-1, 1, 1, 1)
    inputs = (rng.normal(size=(count, *shape)) * scale).astype(np.float32)
    return Examples(inputs, rng.integers(0, 10, count))
