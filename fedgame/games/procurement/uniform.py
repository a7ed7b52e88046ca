"""USBM, the unbiased selection based mechanism (JSAM paper, section VI-B)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import BoolArray, FloatArray
from fedgame.games.procurement.base import BudgetCurve, Choice, Terms
from fedgame.games.procurement.subset import UniformCurve, choose_uniformly


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Usbm:
    """Everybody is selected with probability 1/N; only the budgets are chosen."""

    name: ClassVar[str] = "usbm"
    complete_information: ClassVar[bool] = False
    optimises_selection: ClassVar[bool] = False

    def eligible(self, num_clients: int) -> BoolArray:
        """Mark the clients that can be selected at all: everybody."""
        return np.ones(num_clients, dtype=np.bool_)

    def choose(self, costs: FloatArray, terms: Terms) -> Choice:
        """Return the choice at virtual costs of shape (clients,)."""
        return choose_uniformly(costs, self.eligible(len(costs)), terms)

    def curve(
        self,
        costs: FloatArray,
        client: int,
        low: float,  # noqa: ARG002
        high: float,  # noqa: ARG002
        terms: Terms,
    ) -> BudgetCurve:
        """Return one client's budget as a function of its own virtual cost."""
        return UniformCurve(costs, client, self.eligible(len(costs)), terms, leaves=False)
