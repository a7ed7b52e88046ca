"""The checks that partitions make first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgame.errors import ConfigError


def require_enough_examples(num_examples: int, num_clients: int) -> None:
    """Refuse to split fewer examples than there are clients.

    Raises:
        ConfigError: `num_clients` is less than 1 or more than `num_examples`.
    """
    if not 1 <= num_clients <= num_examples:
        allowed = f"from 1 to {num_examples}, the number of training examples"
        raise ConfigError("num-clients", num_clients, allowed)


def require_class_labels(targets: NDArray[Any], partition: str) -> None:
    """Refuse to split by class where there are none.

    Args:
        targets: Class labels as integers or whole floats, shape (examples,).
        partition: The name of the partition that asks.

    Raises:
        ConfigError: A target is not a whole number.
    """
    if not np.array_equal(targets, np.floor(targets)):
        allowed = "needs class labels and the task is a regression: choose iid"
        raise ConfigError("partition.name", partition, allowed)
