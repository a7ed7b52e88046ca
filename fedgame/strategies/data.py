"""The data of a federation: the task's examples, split over clients by the public partition."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgame.randomness import public_generator
from fedgame.strategies.settings import Experiment
from fedgame.tasks.base import Examples


@dataclass(frozen=True)
class FederatedData:
    """Training examples, each client's indices into them, and the public test set."""

    train: Examples
    indices: list[NDArray[np.int64]]
    test: Examples

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of examples of each client, shape (clients,)."""
        return np.array([len(index) for index in self.indices], dtype=np.int64)

    def client(self, client: int) -> Examples:
        """Return the examples of one client."""
        return self.train.subset(self.indices[client])


def federated_data(experiment: Experiment) -> FederatedData:
    """Load and split the data of an experiment, once per process."""
    run = experiment.run
    key = (experiment.task, experiment.source, experiment.partition, run.num_clients, run.seed)
    return _load(*key)


@functools.lru_cache(maxsize=2)
def _load(task, source, partition, num_clients, seed) -> FederatedData:  # type: ignore[no-untyped-def]
    train, test = task.load(source, num_clients, seed)
    rng = public_generator(seed, "partition")
    return FederatedData(train, partition.split(train.targets, num_clients, rng), test)
