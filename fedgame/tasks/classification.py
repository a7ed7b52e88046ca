"""What tasks of multinomial classification share: initial model, loss, prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedgame.tasks.initial import initial_parameters


def cross_entropy(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return -ln softmax(outputs)[label] of each example.

    Args:
        outputs: Logits, shape (..., examples, classes).
        labels: int64 classes, shape (..., examples).
    """
    return -outputs.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def is_argmax(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return whether the largest logit is the label's (the first of equal ones counts)."""
    return outputs.argmax(-1) == labels


class Classifier(ABC):
    """A task with class labels, whose model returns one logit a class."""

    kind: ClassVar[str] = "classification"

    @abstractmethod
    def module(self) -> nn.Module:
        """Return the model."""

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        """Return zeros for a single linear layer, else torch's default rule from the seed."""
        return initial_parameters(self.module(), seed)

    def input_smoothness(self, parameters: NDArray[np.float32]) -> float | None:
        """Return |W|^2/2 in the spectral norm for a single linear layer, None for a network.

        The Hessian in x is W^T (diag(p) - p p^T) W, p the probabilities of the classes, and the
        middle has norm at most 1/2.
        """
        module = self.module()
        if not isinstance(module, nn.Linear):
            return None
        weight = parameters[: module.weight.numel()].reshape(module.weight.shape)
        return float(np.linalg.norm(weight.astype(np.float64), 2)) ** 2 / 2

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy of each example, shape (..., examples)."""
        return cross_entropy(outputs, targets)

    def correct(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return whether the largest logit is the label's."""
        return is_argmax(outputs, targets)
