"""The data of a federation: the task's examples, split over clients by the public partition."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgame.partitions.base import Partition
from fedgame.randomness import public_generator
from fedgame.strategies.settings import Experiment
from fedgame.tasks.base import DataSource, Examples, Task


@dataclass(frozen=True)
class FederatedData:
    """Training examples, each client's indices into them, and the public test set."""

    train: Examples
    indices: list[NDArray[np.int64]]
    test: Examples

    @functools.cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of examples of each client, shape (clients,)."""
        return np.array([len(index) for index in self.indices], dtype=np.int64)

    def client(self, client: int) -> Examples:
        """Return the examples of one client."""
        return self.train.subset(self.indices[client])


def federated_data(experiment: Experiment) -> FederatedData:
    """Load and split the data of an experiment, once per process."""
    run = experiment.run
    return _load(
        experiment.task, experiment.source, experiment.partition, run.num_clients, run.seed
    )


def forget_data() -> None:
    """Let go of the data of every experiment: a process that only waits needs none of them."""
    _load.cache_clear()


# components are frozen dataclasses, so they are keys
@functools.lru_cache(maxsize=2)
def _load(
    task: Task, source: DataSource, partition: Partition, num_clients: int, seed: int
) -> FederatedData:
    train, test = task.load(source, num_clients, seed)
    rng = public_generator(seed, "partition")
    return FederatedData(train, partition.split(train.targets, num_clients, rng), test)
