"""USBM, the unbiased selection based mechanism (JSAM paper, section VI-B)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import BoolArray, FloatArray
from fedgame.games.procurement.base import BudgetCurve, Choice, Terms
from fedgame.games.procurement.subset import UniformCurve, choose_uniformly


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Usbm:
    """Everybody is selected with probability 1/N; only the budgets are chosen.

    Attributes:
        eta: Weight of the bound on the training loss against money, > 0.
        q: Q, how much the noise of a small budget matters in that bound, > 0.
        epsilon_max: Public cap on every client's budget, > 0.
    """

    name: ClassVar[str] = "usbm"
    complete_information: ClassVar[bool] = False
    optimises_selection: ClassVar[bool] = False

    eta: float = Field(default=1.0, gt=0)
    q: float = Field(default=1.0, gt=0)
    epsilon_max: float = Field(default=10.0, gt=0)

    @property
    def terms(self) -> Terms:
        """The server's terms."""
        return Terms(self.eta, self.q, self.epsilon_max)

    def eligible(self, num_clients: int) -> BoolArray:
        """Mark the clients that can be selected at all: everybody."""
        return np.ones(num_clients, dtype=np.bool_)

    def choose(self, costs: FloatArray) -> Choice:
        """Return the choice at virtual costs of shape (clients,)."""
        return choose_uniformly(costs, self.eligible(len(costs)), self.terms)

    def curve(self, costs: FloatArray, client: int, low: float, high: float) -> BudgetCurve:  # noqa: ARG002
        """Return one client's budget as a function of its own virtual cost."""
        return UniformCurve(costs, client, self.eligible(len(costs)), self.terms, leaves=False)
