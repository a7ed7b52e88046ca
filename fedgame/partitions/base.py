"""What every partition offers: a public split of the training examples over clients."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray


class Partition(Protocol):
    """A public rule that gives each client its examples; a frozen dataclass from its section."""

    name: ClassVar[str]

    def __hash__(self) -> int: ...

    def split(
        self, targets: NDArray[Any], num_clients: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        """Return each client's indices: disjoint, together all examples, at least one a client.

        Raises:
            ConfigError: There are more clients than examples.
        """
        ...
