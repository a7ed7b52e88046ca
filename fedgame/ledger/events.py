"""The privacy events: the one vocabulary that mechanisms emit and accountants consume.

The set is closed. An accountant that meets an event which it does not know refuses it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, TypeAlias

Neighbours = Literal["example", "client", "client-replace"]
"""Who differs between neighbouring data sets: one example of one client is added or removed
("example"); one client's whole contribution becomes zero ("client") or another one
("client-replace")."""


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """`steps` Gaussian releases, each on a Poisson sample.

    Attributes:
        noise_multiplier: Noise standard deviation over sensitivity under `neighbours`.
        sampling_rate: Probability q in (0, 1] that an example is in a batch; 1 where the relation
            allows no amplification.
        steps: How many releases, at least 1.
        neighbours: The relation under which the noise multiplier is stated.
        mechanism: The name of the mechanism that made the release.
        strength: The entropic strength behind the noise multiplier, where there is one.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    neighbours: Neighbours
    mechanism: str
    strength: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0):
            raise ValueError(f"noise_multiplier = {self.noise_multiplier}: must be finite and > 0")
        if not 0 < self.sampling_rate <= 1:
            raise ValueError(f"sampling_rate = {self.sampling_rate}: must be in (0, 1]")
        if not (isinstance(self.steps, Integral) and self.steps >= 1):
            raise ValueError(f"steps = {self.steps}: must be a whole number of at least 1")


@dataclass(frozen=True, slots=True)
class PureDPChoice:
    """A choice that depends on data and is `epsilon`-DP, amplification included."""

    epsilon: float
    neighbours: Neighbours
    mechanism: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon = {self.epsilon}: must be finite and > 0")


@dataclass(frozen=True, slots=True)
class UnaccountedRelease:
    """Something that depends on data and left without any guarantee, as in paper mode.

    No accountant can charge it; every report that holds one says what is not covered.
    """

    neighbours: Neighbours
    mechanism: str


PrivacyEvent: TypeAlias = SampledGaussian | PureDPChoice | UnaccountedRelease


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One event with its primary key (client, round, step, purpose)."""

    client: int
    round: int
    step: int
    purpose: str
    event: PrivacyEvent
