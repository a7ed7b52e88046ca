"""The Gaussian mechanism: a step of noisy gradient descent on clipped gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.ledger.events import SampledGaussian
from fedgame.mechanisms.base import ClientContext, Release, strength_to_noise_multiplier

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Gaussian:
    """Noisy gradient descent, the local update of DP-SGD and MAPG-DP (MFPG paper, Alg. 2).

    w <- w - lr (g + N(0, (z sensitivity)^2 I)), g the clipped sum over the public divisor.

    Attributes:
        learning_rate: lr, the factor of the noisy gradient.
        calibration: Where the noise multiplier z comes from: "target" (the smallest that keeps the
            planned run within `target_epsilon`), "paper" (the classic bound at `target_epsilon` for
            each step) or "noise-multiplier" (given).
        target_epsilon: Budget of the whole run under "target", of each step under "paper".
        noise_multiplier: z under "noise-multiplier".
    """

    name: ClassVar[str] = "gaussian"

    learning_rate: float = Field(default=2.0, ge=1e-9, le=1e9)
    calibration: Literal["target", "paper", "noise-multiplier"] = "target"
    target_epsilon: float = Field(default=4.0, gt=0, le=1e9)
    noise_multiplier: float = Field(default=4.0, gt=0, le=1e30)

    @property
    def step_size(self) -> float:
        """The learning rate."""
        return self.learning_rate

    def release(
        self,
        states: FloatArray,
        gradients: FloatArray,
        strengths: FloatArray,
        contexts: Sequence[ClientContext],
        noise: FloatArray,
        tensor_sizes: Sequence[int],  # noqa: ARG002
    ) -> Release:
        """Take one noisy step; see `Mechanism.release`."""
        value = noisy_step(states, gradients, strengths, noise, self.learning_rate)
        return Release(value, gaussian_events(self.name, strengths, contexts, self.learning_rate))


def noisy_step(
    states: FloatArray,
    drift: FloatArray,
    strengths: FloatArray,
    noise: FloatArray,
    step_size: float,
) -> FloatArray:
    """Return states - tau drift + sqrt(2 s tau) noise, elementwise.

    Args:
        states: Shape (clients, parameters).
        drift: Same shape.
        strengths: s of each client, shape (clients,).
        noise: Standard normal draws, same shape as `states`.
        step_size: tau.
    """
    value: FloatArray = np.sqrt(2.0 * step_size * strengths)[:, None] * noise
    value -= step_size * drift
    value += states
    return value


def gaussian_events(
    mechanism: str,
    strengths: FloatArray,
    contexts: Sequence[ClientContext],
    step_size: float,
) -> tuple[SampledGaussian, ...]:
    """Return what one step at each client's strength costs; equal events are one object."""
    of: dict[tuple[float, ClientContext], SampledGaussian] = {}
    pairs = list(zip(strengths.tolist(), contexts, strict=True))
    for strength, context in set(pairs):
        of[strength, context] = SampledGaussian(
            noise_multiplier=strength_to_noise_multiplier(strength, step_size, context.sensitivity),
            sampling_rate=context.amplifying_rate,
            steps=1,
            neighbours=context.neighbours,
            mechanism=mechanism,
            strength=strength,
        )
    return tuple(of[pair] for pair in pairs)


def paper_noise_multiplier(epsilon: float, delta: float) -> float:
    """Return z = sqrt(2 ln(1.25/delta))/epsilon, the classic bound for one release.

    The noise it gives to the *averaged* gradient is z C, as the MFPG paper prints it; a guarantee
    for that release only where C is the sensitivity and epsilon <= 1.

    >>> round(paper_noise_multiplier(1.0, 1e-5), 10)
    4.8448052626
    """
    return sqrt(2.0 * log(1.25 / delta)) / epsilon
