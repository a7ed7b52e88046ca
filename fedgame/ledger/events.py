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
        _require_positive("noise_multiplier", self.noise_multiplier)
        if not 0 < self.sampling_rate <= 1:
            raise ValueError(f"sampling_rate = {self.sampling_rate}: must be in (0, 1]")
        _require_count("steps", self.steps)


@dataclass(frozen=True, slots=True)
class PureDPChoice:
    """A choice that depends on data and is `epsilon`-DP, amplification included."""

    epsilon: float
    neighbours: Neighbours
    mechanism: str

    def __post_init__(self) -> None:
        _require_positive("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class LaplaceVector:
    """One release of a vector with independent Laplace noise on each coordinate.

    Attributes:
        scale: M > 0, the scale of the noise on each coordinate, in the units of the vector.
        sensitivity: How much the vector can change under `neighbours`, >= 0, in the L1 norm over
            all coordinates.
        dimension: How many coordinates the vector has, at least 1.
        neighbours: The relation under which the sensitivity is stated.
        mechanism: The name of the mechanism that made the release.
    """

    scale: float
    sensitivity: float
    dimension: int
    neighbours: Neighbours
    mechanism: str

    def __post_init__(self) -> None:
        _require_positive("scale", self.scale)
        if not (math.isfinite(self.sensitivity) and self.sensitivity >= 0):
            raise ValueError(f"sensitivity = {self.sensitivity}: must be finite and >= 0")
        _require_count("dimension", self.dimension)
        if not math.isfinite(self.epsilon):
            raise ValueError(
                f"scale = {self.scale}: too small for sensitivity = {self.sensitivity}, "
                "their ratio must be finite"
            )

    @property
    def epsilon(self) -> float:
        """The pure-DP budget of the release, sensitivity / scale, whatever the dimension."""
        return float(self.sensitivity) / float(self.scale)


@dataclass(frozen=True, slots=True)
class UnaccountedRelease:
    """Something that depends on data and left without any guarantee, as in paper mode.

    No accountant can charge it; every report that holds one says what is not covered.
    """

    neighbours: Neighbours
    mechanism: str


ChargedEvent: TypeAlias = SampledGaussian | PureDPChoice | LaplaceVector
"""What accountants charge."""

PrivacyEvent: TypeAlias = ChargedEvent | UnaccountedRelease


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One event with its primary key (client, round, step, purpose)."""

    client: int
    round: int
    step: int
    purpose: str
    event: PrivacyEvent


def _require_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} = {value}: must be finite and > 0")


def _require_count(name: str, value: int) -> None:
    if not (isinstance(value, Integral) and value >= 1):
        raise ValueError(f"{name} = {value}: must be a whole number of at least 1")
