"""No gradient, however large, gets past the clipping norm: float32 cannot scale the largest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedgame.mechanisms.bookkeeping import PerExampleClipper
from fedgame.mechanisms.linear_cohort import LinearCohort

SIZES = [1e0, 1e10, 1e18, 1e20, 1e25, 1e30, 1e38]


def squared(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return 0.5 * (outputs.squeeze(-1) - targets).square()


def _norms(inputs: Any, targets: Any, norm: float) -> tuple[float, float]:
    state = np.zeros(3, dtype=np.float32)
    clipper = PerExampleClipper(nn.Linear(3, 1, bias=False), squared)
    one = clipper.clipped_sum(state, inputs, targets, norm).value
    cohort = LinearCohort([(inputs, targets)], squared, out_features=1, bias=False)
    batches = [np.ones(len(targets), dtype=np.bool_)]
    other = cohort.clipped_sums(state[None], batches, norm).value[0]
    return float(np.linalg.norm(one)), float(np.linalg.norm(other))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("target", SIZES)
def test_one_example_moves_the_sum_by_at_most_the_clipping_norm(size: float, target: float) -> None:
    inputs = np.full((1, 3), size, dtype=np.float32)
    targets = np.array([target], dtype=np.float32)
    for norm in _norms(inputs, targets, 1.0):
        assert norm <= 1.0 + 1e-6


def test_a_sum_that_is_not_clipped_stays_finite() -> None:
    inputs = np.full((4, 3), 1e19, dtype=np.float32)
    targets = np.full(4, 1.5e19, dtype=np.float32)
    assert np.isfinite(_norms(inputs, targets, np.inf)).all()
