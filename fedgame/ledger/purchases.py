"""What a server bought from a client before training: a privacy budget, for a payment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral


@dataclass(frozen=True, slots=True)
class Purchase:
    """The budget bought from one client, settled before its first release.

    The payment is for the budget bought, whatever is spent of it in the end: a client that is never
    drawn keeps its payment. Each client sells once.

    Attributes:
        client: The seller, >= 0.
        epsilon: The budget bought, for all draws together, >= 0.
        delta: The slack at which `epsilon` is stated, in (0, 1).
        payment: What the client gets, >= 0, in the unit of its report times epsilon.
        draws: How many times the schedule draws the client; 0 where no budget was bought.
        noise_multiplier: Of each draw, calibrated so that all draws together cost at most
            `epsilon`; 0 where there is no draw.
        report: The privacy sensitivity that the client reported, cost per unit of epsilon, >= 0.
    """

    client: int
    epsilon: float
    delta: float
    payment: float
    draws: int
    noise_multiplier: float
    report: float

    def __post_init__(self) -> None:
        for name in ("client", "draws"):
            value = getattr(self, name)
            if not (isinstance(value, Integral) and int(value) >= 0):
                raise ValueError(f"{name} = {value}: must be a whole number of at least 0")
        for name in ("epsilon", "payment", "noise_multiplier", "report"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} = {value}: must be finite and >= 0")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta = {self.delta}: must be in (0, 1)")
        if self.draws > 0 and self.epsilon == 0:
            raise ValueError(f"draws = {self.draws}: must be 0 where no budget was bought")
        if (self.noise_multiplier > 0) != (self.draws > 0):
            raise ValueError(
                f"noise_multiplier = {self.noise_multiplier}: must be > 0 if the client is drawn "
                f"and 0 if it is not (draws = {self.draws})"
            )
