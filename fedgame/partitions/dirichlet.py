"""Clients with different class frequencies, drawn from a Dirichlet distribution."""

from __future__ import annotations

import heapq
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.errors import ConfigError
from fedgame.partitions.checks import require_class_labels, require_enough_examples
from fedgame.partitions.owners import by_client

IntArray = NDArray[np.int64]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Dirichlet:
    """The section [dirichlet]: each class is shared out in proportions drawn from Dir(alpha).

    Follows Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated
    visual classification" (2019), with proportions over clients for each class. Clients left with
    too little are filled up from the largest ones, where common implementations redraw until every
    client has enough, which may never happen.

    Attributes:
        alpha: Concentration; small = each class sits with few clients, large = every client has
            the same class frequencies, which is so long before the largest value, 1e6.
        min_examples: Every client gets at least so many examples.
    """

    name: ClassVar[str] = "dirichlet"

    alpha: float = Field(default=0.5, gt=0, le=1e6)
    min_examples: int = Field(default=1, ge=1)

    def split(
        self, targets: NDArray[Any], num_clients: int, rng: np.random.Generator
    ) -> list[IntArray]:
        """Return each client's indices, ascending.

        Args:
            targets: Class labels of all examples, integers (or whole floats), shape (examples,).
            num_clients: How many clients, at least 1.
            rng: The public generator of the partition.

        Raises:
            ConfigError: There are more clients than examples, not `min_examples` for each client,
                or the targets are no class labels.
        """
        require_enough_examples(len(targets), num_clients)
        if num_clients * self.min_examples > len(targets):
            allowed = f"at most {len(targets) // num_clients} with this many clients and examples"
            raise ConfigError("dirichlet.min-examples", self.min_examples, allowed)
        require_class_labels(targets, self.name)
        owners = self._draw_owners(targets, num_clients, rng)
        _fill_up(owners, num_clients, self.min_examples, rng)
        return by_client(owners, num_clients)

    def _draw_owners(
        self, targets: NDArray[Any], num_clients: int, rng: np.random.Generator
    ) -> IntArray:
        """Return the client of each example, shape (examples,)."""
        owners = np.empty(len(targets), dtype=np.int64)
        for label in np.unique(targets):
            members = rng.permutation(np.flatnonzero(targets == label))
            shares = np.cumsum(rng.dirichlet(np.full(num_clients, self.alpha)))
            ends = np.rint(shares / shares[-1] * len(members)).astype(np.int64)
            owners[members] = np.repeat(np.arange(num_clients), np.diff(ends, prepend=0))
        return owners


def _fill_up(
    owners: IntArray, num_clients: int, min_examples: int, rng: np.random.Generator
) -> None:
    """Give, in place, every client its minimum: one example at a time from the then largest client.

    Ends after as many moves as examples are wanting: while a client is short and there are enough
    examples for all, the largest client has more than the minimum.
    """
    counts = np.bincount(owners, minlength=num_clients)
    wanting = np.maximum(min_examples - counts, 0)
    largest = [(-count, client) for client, count in enumerate(counts.tolist())]
    heapq.heapify(largest)
    taken = np.zeros(num_clients, dtype=np.int64)
    for _ in range(wanting.sum()):
        count, client = largest[0]
        heapq.heapreplace(largest, (count + 1, client))
        taken[client] += 1
    members = by_client(owners, num_clients)
    moved = [
        rng.choice(members[client], taken[client], replace=False)
        for client in np.flatnonzero(taken)
    ]
    if moved:
        owners[np.concatenate(moved)] = np.repeat(np.arange(num_clients), wanting)
