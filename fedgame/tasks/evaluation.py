"""Losses and accuracy of a flat parameter vector on a data set."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedgame.tasks.base import Examples, Task

BATCH = 128
"""Examples in one forward pass: activations stay near the cache. A constant, since the last bits of
a sum may depend on it."""

LINEAR_BATCH = 4096
"""The same for a single linear layer, which has no activations to keep."""


def named_tensors(module: nn.Module, flat: NDArray[np.floating]) -> dict[str, torch.Tensor]:
    """Return float32 tensors by parameter name, cut from a copy of one flat vector.

    Args:
        module: The model whose names and shapes are used.
        flat: All parameters in `module.parameters()` order, shape (parameters,).

    Raises:
        ValueError: The vector does not have as many entries as the model has parameters.
    """
    sizes = [parameter.numel() for parameter in module.parameters()]
    if np.shape(flat) != (sum(sizes),):
        raise ValueError(f"parameters of shape {np.shape(flat)} for a model with {sum(sizes)}")
    pieces = torch.split(torch.from_numpy(np.array(flat, dtype=np.float32)), sizes)
    named = module.named_parameters()
    return {name: piece.view_as(own) for (name, own), piece in zip(named, pieces, strict=True)}


def load_parameters(module: nn.Module, flat: NDArray[np.floating]) -> None:
    """Copy one flat vector into the model's parameters, in `module.parameters()` order.

    Raises:
        ValueError: The vector does not have as many entries as the model has parameters.
    """
    tensors = named_tensors(module, flat)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(tensors[name])


def per_example_losses(
    task: Task, module: nn.Module, parameters: NDArray[np.floating], examples: Examples
) -> NDArray[np.float64]:
    """Return each example's loss, shape (examples,).

    Args:
        task: Its loss is used.
        module: The task's model; its parameters are overwritten.
        parameters: Flat parameter vector.
        examples: The data.
    """
    losses, _ = _forward(task, module, parameters, examples, 0)
    return losses


def evaluate(
    task: Task,
    module: nn.Module,
    parameters: NDArray[np.floating],
    examples: Examples,
    batch: int = 0,
) -> tuple[float, float | None]:
    """Return (mean loss, accuracy), averaged in float64; the accuracy of a regression is None.

    Args:
        task: Its loss and its notion of correct are used.
        module: The task's model; its parameters are overwritten.
        parameters: Flat parameter vector.
        examples: The data, at least one example.
        batch: Examples in one forward pass; 0 = what suits the model.
    """
    losses, correct = _forward(task, module, parameters, examples, batch)
    return float(losses.mean()), None if correct is None else float(correct.mean())


def _forward(
    task: Task,
    module: nn.Module,
    parameters: NDArray[np.floating],
    examples: Examples,
    batch: int,
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    load_parameters(module, parameters)
    batch = batch or (LINEAR_BATCH if isinstance(module, nn.Linear) else BATCH)
    losses = np.empty(len(examples))
    correct: NDArray[np.bool_] | None = None
    with torch.inference_mode():
        for start in range(0, len(examples), batch):
            part = slice(start, start + batch)
            outputs = module(torch.from_numpy(examples.inputs[part]))
            targets = torch.from_numpy(examples.targets[part])
            losses[part] = task.losses(outputs, targets).numpy()
            hits = task.correct(outputs, targets)
            if hits is not None:
                correct = np.empty(len(examples), dtype=np.bool_) if correct is None else correct
                correct[part] = hits.numpy()
    return losses, correct
