"""The public choice of training examples that `task.train-size` asks for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedgame.errors import ConfigError
from fedgame.randomness import public_generator
from fedgame.tasks.base import DataSource


def train_indices(available: int, source: DataSource, seed: int) -> NDArray[np.int64]:
    """Return the positions of the training examples in use, in a public shuffled order.

    Args:
        available: How many training examples the task has.
        source: Its `train_size` says how many to keep; 0 keeps all, shuffled all the same.
        seed: The public seed; a larger `train_size` only appends to a smaller one's choice.

    Raises:
        ConfigError: `train_size` is larger than `available`.
    """
    if source.train_size > available:
        allowed = f"at most {available}, the training examples of task {source.name}; 0 = all"
        raise ConfigError("task.train-size", source.train_size, allowed)
    order = public_generator(seed, "training subset").permutation(available)
    return order[: source.train_size or available]
