"""From the owner of each example to the examples of each owner."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def by_client(owners: NDArray[np.int64], num_clients: int) -> list[NDArray[np.int64]]:
    """Return the ascending positions of each client's examples.

    Args:
        owners: The client of each example, from 0 to `num_clients` - 1, shape (examples,).
        num_clients: How many clients; one without examples gets an empty array.
    """
    ends = np.cumsum(np.bincount(owners, minlength=num_clients))
    return np.split(np.argsort(owners, kind="stable"), ends[:-1])
