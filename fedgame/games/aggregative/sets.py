"""Where a strategy may lie: anywhere, in a box, or on the probability simplex."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.best_response import FloatArray

Face = tuple[FloatArray, FloatArray]
"""A face of a polytope as point + basis z: a point, shape (n,), and a basis, shape (n, face)."""


class FeasibleSet(Protocol):
    """A closed convex set of strategies, the same for all players."""

    def project(self, points: FloatArray) -> FloatArray:
        """Return the nearest points of the set in the Euclidean norm, shape (..., n)."""


class Polyhedron(FeasibleSet, Protocol):
    """A feasible set in which equilibria and best responses are found exactly."""

    def slope(self, points: FloatArray) -> FloatArray:
        """Return a Jacobian of the projection at points (..., n), shape (..., n, n)."""

    def faces(self, dimension: int, largest: int) -> Iterator[Face]:
        """Return the faces of at most `largest` dimensions, of a set in R^dimension."""


@dataclass(frozen=True)
class Everywhere:
    """All of R^n."""

    def project(self, points: FloatArray) -> FloatArray:
        """Return the points."""
        return points

    def slope(self, points: FloatArray) -> FloatArray:
        """Return identity matrices."""
        return np.broadcast_to(np.eye(points.shape[-1]), (*points.shape, points.shape[-1]))

    def faces(self, dimension: int, largest: int) -> Iterator[Face]:
        """Return the one face there is, if it is not too large."""
        if largest >= dimension:
            yield np.zeros(dimension), np.eye(dimension)


@dataclass(frozen=True)
class Box:
    """All strategies between two bounds, coordinate by coordinate.

    Attributes:
        lower: A number or one a coordinate, shape (n,); finite.
        upper: Likewise; at least `lower`.

    Raises:
        ValueError: A bound is not finite, or the lower one is above the upper one.
    """

    lower: ArrayLike = 0.0
    upper: ArrayLike = 1.0

    def __post_init__(self) -> None:
        """Check the bounds."""
        lower, upper = self._bounds
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower <= upper).all()):
            bounds = f"from {lower.tolist()} to {upper.tolist()}"
            raise ValueError(f"a box {bounds}: bounds must be finite, the lower one not above")

    def project(self, points: FloatArray) -> FloatArray:
        """Return the points with every coordinate clipped."""
        return np.clip(points, *self._bounds)

    def slope(self, points: FloatArray) -> FloatArray:
        """Return diagonal matrices, 1 where a coordinate is strictly between its bounds."""
        lower, upper = self._bounds
        inside = (points > lower) & (points < upper)
        return np.where(inside, 1.0, 0.0)[..., None] * np.eye(points.shape[-1])

    def faces(self, dimension: int, largest: int) -> Iterator[Face]:
        """Return the faces: every coordinate is at its lower bound, at its upper one, or free."""
        lower, upper = (np.broadcast_to(bound, dimension) for bound in self._bounds)
        for size in range(min(largest, dimension) + 1):
            for chosen in itertools.combinations(range(dimension), size):
                free = np.isin(np.arange(dimension), chosen)
                for ends in itertools.product((False, True), repeat=dimension - size):
                    point = lower.copy()
                    point[~free] = np.where(ends, upper[~free], lower[~free])
                    yield point, np.eye(dimension)[:, free]

    @property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        return np.asarray(self.lower, dtype=np.float64), np.asarray(self.upper, dtype=np.float64)


@dataclass(frozen=True)
class Simplex:
    """The probability simplex: coordinates >= 0 that sum to 1."""

    def project(self, points: FloatArray) -> FloatArray:
        """Return the projections (Held, Wolfe and Crowder 1974)."""
        return np.maximum(points - self._excess(points), 0.0)

    def slope(self, points: FloatArray) -> FloatArray:
        """Return I - 1 1^T/|S| on the support S of each projection, 0 elsewhere."""
        support = np.where(points > self._excess(points), 1.0, 0.0)
        outer = support[..., :, None] * support[..., None, :]
        size = support.sum(axis=-1)[..., None, None]
        return np.asarray(support[..., None] * np.eye(points.shape[-1]) - outer / size)

    def faces(self, dimension: int, largest: int) -> Iterator[Face]:
        """Return the faces: the simplices on all sets of vertices, not empty."""
        vertices = np.eye(dimension)
        for size in range(1, min(largest + 1, dimension) + 1):
            for first, *others in itertools.combinations(range(dimension), size):
                yield vertices[first], (vertices[others] - vertices[first]).T

    @staticmethod
    def _excess(points: FloatArray) -> FloatArray:
        """Return what to take off every coordinate, shape (..., 1)."""
        descending = -np.sort(-points, axis=-1)
        counts = np.arange(1, points.shape[-1] + 1)
        excess = (np.cumsum(descending, axis=-1) - 1) / counts
        last = (descending > excess).sum(axis=-1, keepdims=True) - 1
        return np.take_along_axis(excess, last, axis=-1)


KnownSet: TypeAlias = Everywhere | Box | Simplex
"""The sets over which quadratic games are solved exactly."""
