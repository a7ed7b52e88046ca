"""BBM, the biased selection based mechanism (JSAM paper, section VI-B)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import BoolArray, FloatArray
from fedgame.games.procurement.base import BudgetCurve, Choice, Terms, require_subset_size
from fedgame.games.procurement.subset import UniformCurve, choose_uniformly


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Bbm:
    """The M clients of largest initial local loss are selected with probability 1/M each.

    Who they are depends on the clients' data: a release that no mechanism accounts for. It does not
    depend on the reports.

    Attributes:
        eta: Weight of the bound on the training loss against money, > 0.
        q: Q, how much the noise of a small budget matters in that bound, > 0.
        epsilon_max: Public cap on every client's budget, > 0.
        clients: M, from 1 to the number of clients.
    """

    name: ClassVar[str] = "bbm"

    eta: float = Field(default=1.0, gt=0)
    q: float = Field(default=1.0, gt=0)
    epsilon_max: float = Field(default=10.0, gt=0)
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
        members = tuple(sorted(order[: self.clients].tolist()))
        return BbmAtLosses(self.eta, self.q, self.epsilon_max, members)


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class BbmAtLosses:
    """BBM once it is known who has the largest losses.

    Attributes:
        eta: As for `Bbm`.
        q: As for `Bbm`.
        epsilon_max: As for `Bbm`.
        members: The clients that are selected, by index.
    """

    name: ClassVar[str] = "bbm"
    complete_information: ClassVar[bool] = False
    optimises_selection: ClassVar[bool] = False

    eta: float
    q: float
    epsilon_max: float
    members: tuple[int, ...]

    @property
    def terms(self) -> Terms:
        """The server's terms."""
        return Terms(self.eta, self.q, self.epsilon_max)

    def eligible(self, num_clients: int) -> BoolArray:
        """Mark the clients that can be selected at all: the members."""
        return np.isin(np.arange(num_clients), self.members)

    def choose(self, costs: FloatArray) -> Choice:
        """Return the choice at virtual costs of shape (clients,)."""
        return choose_uniformly(costs, self.eligible(len(costs)), self.terms)

    def curve(self, costs: FloatArray, client: int, low: float, high: float) -> BudgetCurve:  # noqa: ARG002
        """Return a member's budget as a function of its own virtual cost."""
        return UniformCurve(costs, client, self.eligible(len(costs)), self.terms, leaves=False)
