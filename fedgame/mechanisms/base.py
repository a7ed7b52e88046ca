"""What every mechanism offers, and the bridge between strength and noise multiplier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedgame.ledger.events import Neighbours, SampledGaussian

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The public quantities of one client that set the sensitivity of its update.

    Attributes:
        num_examples: n_k, public by declaration.
        sampling_rate: q, the probability that an example is in a batch.
        clipping_norm: C, the bound on one contribution's L2 norm.
        neighbours: The relation under which the run is accounted.
    """

    num_examples: int
    sampling_rate: float
    clipping_norm: float
    neighbours: Neighbours

    @property
    def divisor(self) -> float:
        """The public expected batch size q n_k by which a clipped sum is divided."""
        return self.sampling_rate * self.num_examples

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of the averaged clipped gradient under `neighbours`."""
        if self.neighbours == "example":
            return self.clipping_norm / self.divisor
        return self.clipping_norm * (2.0 if self.neighbours == "client-replace" else 1.0)

    @property
    def amplifying_rate(self) -> float:
        """The sampling rate that an accountant may use: who takes part in a round is public."""
        return self.sampling_rate if self.neighbours == "example" else 1.0


def strength_to_noise_multiplier(strength: float, step_size: float, sensitivity: float) -> float:
    """Return z = sqrt(2 s / tau) / sensitivity, the bridge from strength to noise multiplier.

    A step adds noise of standard deviation sqrt(2 s tau) to the state and tau times the averaged
    clipped gradient, so it is a Gaussian mechanism whatever else it does with public quantities.

    Args:
        strength: The entropic strength s > 0.
        step_size: tau of the JKO step; the learning rate of a Gaussian step.
        sensitivity: L2 sensitivity of the averaged clipped gradient.
    """
    return sqrt(2.0 * strength / step_size) / sensitivity


def noise_multiplier_to_strength(
    noise_multiplier: float, step_size: float, sensitivity: float
) -> float:
    """Return the strength s = tau (z sensitivity)^2 / 2, the inverse of the bridge."""
    return 0.5 * step_size * (noise_multiplier * sensitivity) ** 2


@dataclass(frozen=True)
class Release:
    """What leaves a mechanism: privatised states and the events that they cost.

    Attributes:
        value: The new states, shape (clients, parameters).
        events: One event of one step for each client.
    """

    value: FloatArray
    events: tuple[SampledGaussian, ...]


class Mechanism(Protocol):
    """One noisy local step on the states of many clients at once.

    Every operation is elementwise over clients, so a client's bits do not depend on its neighbours
    in the array.
    """

    name: ClassVar[str]

    @property
    def step_size(self) -> float:
        """The factor by which a step multiplies the gradient: the learning rate, or tau."""
        ...

    def release(
        self,
        states: FloatArray,
        gradients: FloatArray,
        strengths: FloatArray,
        contexts: Sequence[ClientContext],
        noise: FloatArray,
        tensor_sizes: Sequence[int],
    ) -> Release:
        """Take one noisy step.

        Args:
            states: Current parameters, shape (clients, parameters).
            gradients: Clipped gradient sums over the public divisor, same shape; the only input
                that depends on data.
            strengths: Entropic strength of each client, shape (clients,), which
                `strength_to_noise_multiplier` turns into the noise multiplier.
            contexts: Each client's public quantities.
            noise: Standard normal draws, same shape as `states`, each used once.
            tensor_sizes: Sizes of the parameter tensors, in order; they sum to `parameters`.
        """
        ...
