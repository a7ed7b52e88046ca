"""Clients whose examples are a uniformly random, equal share of all examples."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedgame.partitions.checks import require_enough_examples


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Iid:
    """The section [iid], which has no keys: shuffle, then cut into equal parts."""

    name: ClassVar[str] = "iid"

    def split(
        self, targets: NDArray[Any], num_clients: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        """Return each client's indices, ascending; sizes differ by at most one.

        Args:
            targets: Targets of all examples, shape (examples,); only their number matters.
            num_clients: How many clients, at least 1.
            rng: The public generator of the partition.

        Raises:
            ConfigError: There are more clients than examples.
        """
        require_enough_examples(len(targets), num_clients)
        order = rng.permutation(len(targets))
        return [np.sort(part) for part in np.array_split(order, num_clients)]
