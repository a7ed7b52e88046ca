"""Clipped gradients and losses of a cohort of clients, each client's bits independent of the rest.

A model that is one linear layer is computed for many clients at once; any other model is computed
client by client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedgame.mechanisms.bookkeeping import PerExampleClipper
from fedgame.mechanisms.linear_cohort import LinearCohort
from fedgame.tasks.base import Examples, Task

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class LocalModel(Protocol):
    """One model, and the data of a cohort of clients."""

    def clipped_sums(
        self, states: FloatArray, batches: Sequence[BoolArray], clipping_norm: float
    ) -> FloatArray:
        """Return the sum of clipped per-example gradients of each client's batch.

        Args:
            states: Each client's parameters, shape (clients, parameters).
            batches: For each client, which of its examples are in the batch.
            clipping_norm: Bound on the norm of one example's gradient; infinity clips nothing.

        Returns:
            Shape (clients, parameters).
        """
        ...

    def losses(self, states: FloatArray) -> list[FloatArray]:
        """Return each client's loss on each of its examples, at its state."""
        ...


class ModuleByClient:
    """Any torch module, one client after the other."""

    def __init__(self, task: Task, clients: Sequence[Examples]) -> None:
        """Prepare the module; unsupported layers are refused here."""
        self._clients = clients
        self._clipper = PerExampleClipper(task.module(), task.losses)

    def clipped_sums(
        self, states: FloatArray, batches: Sequence[BoolArray], clipping_norm: float
    ) -> FloatArray:
        """Return the sum of clipped per-example gradients of each client's batch."""
        sums = np.empty_like(states)
        for row, (examples, batch) in enumerate(zip(self._clients, batches, strict=True)):
            chosen = np.flatnonzero(batch)
            sums[row] = self._clipper.clipped_sum(
                states[row].astype(np.float32),
                examples.inputs[chosen],
                examples.targets[chosen],
                clipping_norm,
            ).value
        return sums

    def losses(self, states: FloatArray) -> list[FloatArray]:
        """Return each client's loss on each of its examples, at its state."""
        return [
            self._clipper.losses(state.astype(np.float32), examples.inputs, examples.targets)
            for state, examples in zip(states, self._clients, strict=True)
        ]


class LinearByCohort:
    """A single linear layer, all clients in one batched pass."""

    def __init__(self, task: Task, clients: Sequence[Examples], *, deterministic: bool) -> None:
        """Pad the clients' data into blocks of a fixed shape."""
        module = task.module()
        if not isinstance(module, nn.Linear):
            raise TypeError("the model is not a single linear layer")
        self._cohort = LinearCohort(
            [(examples.inputs, examples.targets) for examples in clients],
            task.losses,
            out_features=module.out_features,
            bias=module.bias is not None,
            deterministic=deterministic,
        )

    def clipped_sums(
        self, states: FloatArray, batches: Sequence[BoolArray], clipping_norm: float
    ) -> FloatArray:
        """Return the sum of clipped per-example gradients of each client's batch."""
        return self._cohort.clipped_sums(states.astype(np.float32), batches, clipping_norm)

    def losses(self, states: FloatArray) -> list[FloatArray]:
        """Return each client's loss on each of its examples, at its state."""
        return self._cohort.losses(states.astype(np.float32))


def local_model(task: Task, clients: Sequence[Examples], *, deterministic: bool) -> LocalModel:
    """Return the fastest backend that computes this task's model."""
    if isinstance(task.module(), nn.Linear):
        return LinearByCohort(task, clients, deterministic=deterministic)
    return ModuleByClient(task, clients)
