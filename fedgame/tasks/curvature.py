"""Trace of the Hessian of each example's loss: kappa of the quadratic disutility."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call

from fedgame.tasks.base import Examples, Task
from fedgame.tasks.evaluation import load_parameters, named_tensors

BATCH = 2048


def per_example_curvature(
    task: Task,
    parameters: NDArray[np.floating],
    examples: Examples,
    rng: np.random.Generator,
    probes: int = 8,
) -> NDArray[np.float64]:
    """Return the trace of the Hessian, in the parameters, of each example's loss, shape (n,).

    Exact for a single linear layer under any loss. For other models it is Hutchinson's unbiased
    estimate, the mean of v.H v over Rademacher probes v, which can be negative. All examples see
    the same probes, so given the probes an example's value depends on that example alone: a sum of
    values, clipped to [0, kappa], changes by at most kappa when one example is added or removed.

    Args:
        task: Its model and loss are used.
        parameters: Flat parameter vector.
        examples: The data.
        rng: Draws the probes; not used for a single linear layer. It must not be a stream that
            noise or batches are drawn from.
        probes: How many probes are averaged, at least 1.
    """
    module = task.module()
    if isinstance(module, nn.Linear):
        return _exact(task, module, parameters, examples)
    directions = rng.integers(0, 2, size=(probes, len(parameters))) * 2.0 - 1.0
    state = named_tensors(module, parameters)
    for tensor in state.values():
        tensor.requires_grad_()
    total = np.zeros(len(examples))
    for direction in directions:
        probe = named_tensors(module, direction)
        for part, inputs, targets in _batches(examples):
            total[part] += _second_derivative(task, module, state, probe, inputs, targets)
    return total / probes


def _batches(examples: Examples) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
    for start in range(0, len(examples), BATCH):
        part = slice(start, start + BATCH)
        inputs, targets = examples.inputs[part], examples.targets[part]
        yield part, torch.from_numpy(inputs), torch.from_numpy(targets)


def _exact(
    task: Task, module: nn.Linear, parameters: NDArray[np.floating], examples: Examples
) -> NDArray[np.float64]:
    """Use that the Hessian for outputs W x + b is (d2 loss / d outputs2) (x) (x, 1)(x, 1)^T."""
    load_parameters(module, parameters)
    module.double()
    curvature = np.empty(len(examples))
    for part, inputs, targets in _batches(examples):
        wide = inputs.double()
        squares = wide.square().sum(-1) + (0.0 if module.bias is None else 1.0)
        outputs = module(wide).detach().requires_grad_()
        curvature[part] = (_output_trace(task, outputs, targets) * squares).numpy()
    return curvature


def _output_trace(task: Task, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the trace of the Hessian in the outputs of each example's loss, shape (n,)."""
    loss = task.losses(outputs, targets).sum()
    (slopes,) = torch.autograd.grad(loss, outputs, create_graph=True)
    trace = torch.zeros(len(outputs), dtype=outputs.dtype)
    for k in range(outputs.shape[-1]):
        (row,) = torch.autograd.grad(slopes[:, k].sum(), outputs, retain_graph=True)
        trace += row[:, k]
    return trace


def _second_derivative(
    task: Task,
    module: nn.Module,
    state: dict[str, torch.Tensor],
    probe: dict[str, torch.Tensor],
    inputs: torch.Tensor,
    targets: torch.Tensor,
) -> NDArray[np.float64]:
    """Return v.H v of each example, the second derivative of its loss along `probe`."""

    def along_probe(values: torch.Tensor) -> torch.Tensor:
        # Weighting the examples by a dummy and differentiating by it keeps them apart: two backward
        # passes for the whole batch, where a gradient an example would need its memory n times.
        weights = torch.zeros_like(values, requires_grad=True)
        gradients = torch.autograd.grad(
            values, list(state.values()), weights, create_graph=True, materialize_grads=True
        )
        pairs = zip(gradients, probe.values(), strict=True)
        slope = torch.stack([(gradient * part).sum() for gradient, part in pairs]).sum()
        return torch.autograd.grad(slope, weights, create_graph=True)[0]

    losses = task.losses(functional_call(module, state, (inputs,)), targets)
    return along_probe(along_probe(losses)).detach().double().numpy()
