"""Clipped gradients and losses of a cohort of clients, each client's bits independent of the rest.

A model that is one linear layer is computed for many clients at once; any other model is computed
client by client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    def losses(self, states: FloatArray, batches: Sequence[BoolArray]) -> list[FloatArray]:
        """Return each client's losses on its batch at several states.

        Args:
            states: Parameter vectors, shape (clients, vectors, parameters).
            batches: For each client, which of its examples are in the batch.

        Returns:
            For each client, shape (vectors, examples in the batch).
        """
        ...


class ModuleByClient:
    """Any torch module, one client after the other."""

    def __init__(self, task: Task, clients: Iterable[Examples]) -> None:
        """Prepare the module; unsupported layers are refused here."""
        self._clients = tuple(clients)
        self._clipper = PerExampleClipper(task.module(), task.losses)

    def _batch(self, client: int, batch: BoolArray) -> Examples:
        return self._clients[client].subset(np.flatnonzero(batch))

    def clipped_sums(
        self, states: FloatArray, batches: Sequence[BoolArray], clipping_norm: float
    ) -> FloatArray:
        """Return the sum of clipped per-example gradients of each client's batch."""
        sums = np.empty_like(states)
        for row, batch in enumerate(batches):
            part = self._batch(row, batch)
            state = states[row].astype(np.float32)
            total = self._clipper.clipped_sum(state, part.inputs, part.targets, clipping_norm)
            sums[row] = total.value
        return sums

    def losses(self, states: FloatArray, batches: Sequence[BoolArray]) -> list[FloatArray]:
        """Return each client's losses on its batch at several states."""
        result = []
        for row, batch in enumerate(batches):
            part = self._batch(row, batch)
            state = states[row].astype(np.float32)
            result.append(self._clipper.losses(state, part.inputs, part.targets))
        return result


class LinearByCohort:
    """A single linear layer, all clients in batched passes."""

    def __init__(self, task: Task, layer: nn.Linear, clients: Iterable[Examples]) -> None:
        """Copy the clients' data into padded blocks of a fixed shape."""
        self._cohort = LinearCohort(
            [(examples.inputs, examples.targets) for examples in clients],
            task.losses,
            out_features=layer.out_features,
            bias=layer.bias is not None,
        )

    def clipped_sums(
        self, states: FloatArray, batches: Sequence[BoolArray], clipping_norm: float
    ) -> FloatArray:
        """Return the sum of clipped per-example gradients of each client's batch."""
        return self._cohort.clipped_sums(states.astype(np.float32), batches, clipping_norm).value

    def losses(self, states: FloatArray, batches: Sequence[BoolArray]) -> list[FloatArray]:
        """Return each client's losses on its batch at several states."""
        return self._cohort.losses(states.astype(np.float32), batches)


def local_model(task: Task, clients: Iterable[Examples]) -> LocalModel:
    """Return the fastest backend that computes this task's model."""
    module = task.module()
    if isinstance(module, nn.Linear):
        return LinearByCohort(task, module, clients)
    return ModuleByClient(task, clients)
