"""The section [procurement]: what a server wants, what it knows, and how it trains with it."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import ConfigDict, Field, field_validator
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.prior import Prior
from fedgame.games.procurement.prior_spec import parse_prior

CLIENT_NOBODY = -1


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Procurement:
    """The section [procurement] (JSAM paper, section IV).

    Attributes:
        name: The mechanism that selects, buys and pays.
        eta: Weight of the bound on the training loss against money, > 0; not used with a budget.
        q: Q, how much the noise of a small privacy budget matters in that bound, > 0.
        epsilon_max: Public cap on the privacy budget that is bought from one client.
        budget: Money that all payments are expected to cost; eta is then found on the distribution,
            before any report is known. 0 = take eta as it is.
        distribution: What everybody knows about a client's privacy sensitivity: "uniform:LOW:HIGH",
            "NAME:ARGUMENT:..." of scipy.stats, or "samples:FILE".
        c_max: Largest sensitivity, where the distribution is truncated; 0 = its end.
        payments: "ex-post" (for the others' reports as they are: truth is dominant) or "interim"
            (for the others' reports averaged out by Monte Carlo: the paper's form).
        draws: m, how many clients are drawn in a round, with replacement.
        schedule: "iid" draws every place by the probabilities; "systematic" makes each client's
            number of draws its expected one, rounded up or down.
        misreport_client: Number of a simulated client that does not report its own sensitivity; -1
            = everybody does.
        misreport_factor: What it multiplies its sensitivity by; the result is kept in the support.
    """

    name: str = "jsam"
    eta: float = Field(default=1.0, gt=0, le=1e15)
    q: float = Field(default=1.0, gt=0, le=1e15)
    epsilon_max: float = Field(default=10.0, ge=1e-9, le=1e6)
    budget: float = Field(default=0.0, ge=0, le=1e15)
    distribution: str = "uniform:0:1"
    c_max: float = Field(default=0.0, ge=0)
    payments: Literal["ex-post", "interim"] = "ex-post"
    draws: int = Field(default=10, ge=1, le=10**6)
    schedule: Literal["iid", "systematic"] = "iid"
    misreport_client: int = Field(default=CLIENT_NOBODY, ge=CLIENT_NOBODY)
    misreport_factor: float = Field(default=1.0, gt=0, le=1e6)

    @field_validator("distribution")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if not value.startswith("samples:"):
            parse_prior(value)
        return value

    @property
    def terms(self) -> Terms:
        """The server's terms, before eta is found for a budget."""
        return Terms(self.eta, self.q, self.epsilon_max)

    def prior(self) -> Prior:
        """Return the distribution as a prior.

        Raises:
            ValueError: It has no density somewhere.
            DataError: The file of samples cannot be read.
        """
        return parse_prior(self.distribution, self.c_max or None)

    def report(self, client: int, sensitivity: float, prior: Prior) -> float:
        """Return what a simulated client reports: its sensitivity, unless it is to misreport."""
        if client != self.misreport_client:
            return sensitivity
        claimed = sensitivity * self.misreport_factor
        return float(np.clip(claimed, prior.c_min, prior.c_max))


def draw_sensitivities(prior: Prior, num_clients: int, rng: np.random.Generator) -> FloatArray:
    """Return simulated sensitivities, shape (clients,), one draw of the prior a client."""
    return prior.draw(rng, (num_clients,))
