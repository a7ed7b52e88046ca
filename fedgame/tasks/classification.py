"""Loss and prediction of multinomial classification, shared by the image tasks."""

from __future__ import annotations

import torch


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
