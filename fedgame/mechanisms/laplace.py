"""Laplace noise on a vector, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgame.ledger.events import LaplaceVector

NAME = "laplace"

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LaplaceRelease:
    """A privatised vector, shape (n,), and the event that it costs."""

    value: FloatArray
    event: LaplaceVector


def release(
    value: FloatArray, scale: float, sensitivity: float, rng: np.random.Generator
) -> LaplaceRelease:
    """Add independent Laplace noise to each coordinate of one client's vector.

    Args:
        value: Shape (n,).
        scale: M > 0 of the noise, in the units of the value.
        sensitivity: How far, in L1, the value could be moved by another private input, >= 0.
        rng: The client's generator for this release.

    Raises:
        ValueError: A number is out of range.
    """
    event = laplace_event(scale, sensitivity, len(value))
    return LaplaceRelease(value + scale * rng.laplace(size=len(value)), event)


def laplace_event(scale: float, sensitivity: float, dimension: int) -> LaplaceVector:
    """Return what such a release costs a client whose whole private input is replaced.

    Args:
        scale: M > 0.
        sensitivity: In L1, >= 0.
        dimension: n.

    Raises:
        ValueError: A number is out of range.
    """
    return LaplaceVector(
        scale=scale,
        sensitivity=sensitivity,
        dimension=dimension,
        neighbours="client-replace",
        mechanism=NAME,
    )
