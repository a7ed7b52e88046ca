"""Clients of which a share of the data is alike and the rest sorted by class."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.partitions.checks import require_class_labels, require_enough_examples
from fedgame.partitions.owners import by_client


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Similarity:
    """The section [similarity]: a uniform share for everyone, and what is left sorted by class.

    A client with n_k examples gets round(percent n_k / 100) of them from a uniformly random part of
    the training set. The examples that are left are sorted by label (those of one class in random
    order) and cut into one contiguous block a client; who gets which block is random. A block has
    at most two classes where no class has fewer examples left than the block, less one: only a
    class that lies inside a block with an example to either side of it makes a third. MNIST and
    CIFAR-10 over 100 clients are far from that limit at any `percent`.

    Follows Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated
    visual classification" (2019), as used by Karimireddy et al., "SCAFFOLD" (2020), and by the JSAM
    paper, section VI-A2.

    Attributes:
        percent: Share of each client's examples, in percent, that is drawn uniformly; 100 = the
            split of [iid], 0 = nothing but sorted blocks.
    """

    name: ClassVar[str] = "similarity"

    percent: float = Field(default=100.0, ge=0, le=100)

    def split(
        self, targets: NDArray[Any], num_clients: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        """Return each client's indices, ascending; sizes differ by at most one.

        Args:
            targets: Class labels of all examples, integers (or whole floats), shape (examples,).
            num_clients: How many clients, at least 1.
            rng: The public generator of the partition.

        Raises:
            ConfigError: There are more clients than examples, or the targets are no class labels.
        """
        require_enough_examples(len(targets), num_clients)
        require_class_labels(targets, self.name)
        clients = np.arange(num_clients)
        sizes = len(targets) // num_clients + (clients < len(targets) % num_clients)
        uniform = np.rint(self.percent * sizes / 100.0).astype(np.int64)
        shuffled = rng.permutation(len(targets))
        rest = shuffled[uniform.sum() :]
        by_label = rest[np.argsort(targets[rest], kind="stable")]
        order = rng.permutation(num_clients)
        owners = np.empty(len(targets), dtype=np.int64)
        owners[shuffled[: uniform.sum()]] = np.repeat(clients, uniform)
        owners[by_label] = np.repeat(order, (sizes - uniform)[order])
        return by_client(owners, num_clients)
