"""What a prior on privacy sensitivities is, and what all priors share."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.procurement.base import check_values

MONOTONE_TOLERANCE = 1e-9
"""By how much, relatively, a virtual cost may fall by rounding."""


class Prior(Protocol):
    """What everybody knows about a client's privacy sensitivity."""

    @property
    def c_min(self) -> float:
        """The smallest sensitivity."""

    @property
    def c_max(self) -> float:
        """The largest one."""

    @property
    def ironed(self) -> bool:
        """Whether virtual costs are ironed, since they would fall somewhere."""

    @property
    def steps(self) -> FloatArray:
        """Sensitivities up to which virtual costs are constant; none if they vary smoothly."""

    @property
    def kinks(self) -> FloatArray:
        """Sensitivities at which the virtual cost is not smooth, ascending."""

    def virtual_cost(self, reports: ArrayLike) -> FloatArray:
        """Return virtual costs of reports, shape (clients,), non-decreasing in the report.

        Raises:
            ValueError: A report is negative, not finite, or has no density.
        """

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw sensitivities."""


def check_support(reports: ArrayLike, c_min: float, c_max: float) -> FloatArray:
    """Return checked reports, shape (clients,).

    Raises:
        ValueError: A report is negative, not finite or outside [c_min, c_max].
    """
    checked = check_values(reports, "report")
    outside = (checked < c_min) | (checked > c_max)
    if outside.any():
        client = int(np.argmax(outside))
        raise ValueError(
            f"report of client {client} = {checked[client]}: must be from {c_min} to {c_max}, "
            "where the prior has a density"
        )
    return checked


def convex_minorant(x: FloatArray, y: FloatArray) -> IntArray:
    """Return the indices of the points on the greatest convex minorant of (x, y).

    Args:
        x: Ascending, shape (points,).
        y: Shape (points,).

    >>> convex_minorant(np.arange(4.0), np.array([0.0, 1.0, 0.5, 3.0])).tolist()
    [0, 2, 3]
    """
    hull: list[int] = []
    for index in range(len(x)):
        while len(hull) > 1:
            first, last = hull[-2], hull[-1]
            rise = (y[last] - y[first]) * (x[index] - x[first])
            if rise < (y[index] - y[first]) * (x[last] - x[first]):
                break
            hull.pop()
        hull.append(index)
    return np.array(hull)
