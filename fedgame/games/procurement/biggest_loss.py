"""BBM, the biased selection based mechanism (JSAM paper, section VI-B)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import BoolArray
from fedgame.games.procurement.base import require_subset_size
from fedgame.games.procurement.subset import UniformSelection


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Bbm:
    """The M clients of largest initial local loss are selected with probability 1/M each.

    Who they are depends on the clients' data: a release that no mechanism accounts for. It does not
    depend on the reports. `at_losses` makes the mechanism.

    Attributes:
        clients: M, from 1 to the number of clients.
    """

    name: ClassVar[str] = "bbm"

    clients: int = Field(default=50, ge=1)

    def at_losses(self, losses: ArrayLike) -> BbmAtLosses:
        """Return the mechanism for clients of these initial losses.

        Args:
            losses: One a client, shape (clients,); of equals, the lower index comes first.

        Raises:
            ValueError: A loss is not a number, or there are fewer than M clients.
        """
        checked = np.array(losses, dtype=np.float64)
        if checked.ndim != 1 or np.isnan(checked).any():
            raise ValueError(f"losses = {checked.tolist()}: one a client is needed, none NaN")
        require_subset_size("clients", self.clients, len(checked))
        order = np.argsort(-checked, kind="stable")
        return BbmAtLosses(tuple(sorted(order[: self.clients].tolist())))


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class BbmAtLosses(UniformSelection):
    """BBM once it is known who has the largest losses.

    Attributes:
        members: The clients that are selected, by index.
    """

    name: ClassVar[str] = "bbm"

    members: tuple[int, ...]

    def eligible(self, num_clients: int) -> BoolArray:
        """Mark the clients that can be selected at all: the members."""
        return np.isin(np.arange(num_clients), self.members)
