"""FSBM-M, the fixed selection based mechanism (JSAM paper, section VI-B)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import BoolArray, FloatArray
from fedgame.games.procurement.base import (
    BudgetCurve,
    Choice,
    Terms,
    check_costs,
    require_subset_size,
)
from fedgame.games.procurement.subset import UniformCurve, cheapest_members, choose_uniformly


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Fsbm:
    """The M clients of lowest virtual cost are selected with probability 1/M each.

    Attributes:
        clients: M, from 1 to the number of clients; 50 and 75 of 100 in the paper.
    """

    name: ClassVar[str] = "fsbm"
    complete_information: ClassVar[bool] = False
    optimises_selection: ClassVar[bool] = False

    clients: int = Field(default=50, ge=1)

    def eligible(self, num_clients: int) -> BoolArray:
        """Mark the clients that can be selected at all: everybody, at some cost."""
        return np.ones(num_clients, dtype=np.bool_)

    def choose(self, costs: FloatArray, terms: Terms) -> Choice:
        """Return the choice at virtual costs of shape (clients,).

        Raises:
            ValueError: There are fewer than M clients, or as for `choose_uniformly`.
        """
        require_subset_size("clients", self.clients, len(costs))
        checked = check_costs(costs, terms)
        return choose_uniformly(checked, cheapest_members(checked, self.clients), terms)

    def curve(
        self,
        costs: FloatArray,
        client: int,
        low: float,  # noqa: ARG002
        high: float,  # noqa: ARG002
        terms: Terms,
    ) -> BudgetCurve:
        """Return one client's budget as a function of its own virtual cost.

        Raises:
            ValueError: There are fewer than M clients.
        """
        require_subset_size("clients", self.clients, len(costs))
        as_cheapest = costs.copy()
        as_cheapest[client] = -1.0
        members = cheapest_members(as_cheapest, self.clients)
        return UniformCurve(costs, client, members, terms, leaves=True)
