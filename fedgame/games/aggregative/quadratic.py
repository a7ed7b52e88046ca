"""Games whose costs are quadratic, so that their gradients are affine.

fbar(x, delta) = constant + a^T x + x^T Q x/2 + x^T S delta + c^T delta + delta^T R delta/2
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.aggregative.sets import Everywhere, FeasibleSet
from fedgame.games.best_response import FloatArray, IntArray


@dataclass(frozen=True)
class QuadraticCosts:
    """Quadratic cost functions, one a row; `rows` below can be any shape.

    Attributes:
        constant: Shape (rows,).
        linear: a, shape (rows, n).
        curvature: Q, symmetric, shape (rows, n, n).
        coupling: S, shape (rows, n, n).
        aggregate_linear: c, shape (rows, n).
        aggregate_curvature: R, symmetric, shape (rows, n, n).
    """

    constant: FloatArray
    linear: FloatArray
    curvature: FloatArray
    coupling: FloatArray
    aggregate_linear: FloatArray
    aggregate_curvature: FloatArray

    def value(self, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return fbar(x, delta), shape (..., rows), for two arrays of shape (..., rows, n)."""
        of_x = self.linear + times(self.curvature, x) / 2 + times(self.coupling, aggregate)
        of_mean = self.aggregate_linear + times(self.aggregate_curvature, aggregate) / 2
        return np.asarray(self.constant + (x * of_x + aggregate * of_mean).sum(axis=-1))

    def own_gradient(self, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return a + Q x + S delta, shape (..., rows, n)."""
        return self.linear + times(self.curvature, x) + times(self.coupling, aggregate)

    def aggregate_gradient(self, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return c + S^T x + R delta, shape (..., rows, n)."""
        back = np.swapaxes(self.coupling, -1, -2)
        of_x = self.aggregate_linear + times(back, x)
        return of_x + times(self.aggregate_curvature, aggregate)

    def __getitem__(self, rows: tuple[IntArray, IntArray]) -> QuadraticCosts:
        """Return some rows, in the order of the indices."""
        return QuadraticCosts(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True)
class QuadraticGame:
    """A game with quadratic costs (an `AggregativeGame`).

    Attributes:
        table: The cost functions of every type of every player, rows of shape (N, m).
        feasible: Where every strategy must lie.
    """

    table: QuadraticCosts
    feasible: FeasibleSet

    @classmethod
    def of(
        cls,
        linear: ArrayLike,
        *,
        constant: ArrayLike = 0.0,
        curvature: ArrayLike = 0.0,
        coupling: ArrayLike = 0.0,
        aggregate_linear: ArrayLike = 0.0,
        aggregate_curvature: ArrayLike = 0.0,
        feasible: FeasibleSet | None = None,
    ) -> QuadraticGame:
        """Return a game from parameters that broadcast to their shapes; what is left out is 0.

        Args:
            linear: a, shape (N, m, n); with the others' shapes it says what N, m and n are.
            constant: Shape (N, m).
            curvature: Q, shape (N, m, n, n); its symmetric part counts.
            coupling: S, shape (N, m, n, n).
            aggregate_linear: c, shape (N, m, n).
            aggregate_curvature: R, shape (N, m, n, n); its symmetric part counts.
            feasible: Where strategies must lie; by default anywhere.

        Raises:
            ValueError: `linear` has no three axes, there are fewer than two players, or a
                parameter is not finite or does not broadcast.
        """
        shape = np.shape(linear)
        if len(shape) != 3 or 0 in shape or shape[0] < 2:
            allowed = "must be (players, types, n), with at least 2 players"
            raise ValueError(f"linear costs of shape {shape}: {allowed}")
        square = (*shape, shape[-1])
        table = QuadraticCosts(
            _parameter("constant", constant, shape[:2]),
            _parameter("linear", linear, shape),
            _symmetric(_parameter("curvature", curvature, square)),
            _parameter("coupling", coupling, square),
            _parameter("aggregate_linear", aggregate_linear, shape),
            _symmetric(_parameter("aggregate_curvature", aggregate_curvature, square)),
        )
        return cls(table, Everywhere() if feasible is None else feasible)

    @property
    def num_players(self) -> int:
        """N."""
        return len(self.table.linear)

    @property
    def num_types(self) -> int:
        """The number of types, m."""
        return int(self.table.linear.shape[1])

    @property
    def dimension(self) -> int:
        """The dimension of a strategy, n."""
        return int(self.table.linear.shape[2])

    def costs(self, players: IntArray, types: IntArray) -> QuadraticCosts:
        """Return the cost functions of players, each of one type; both of shape (rows,)."""
        return self.table[players, types]


def times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return the products of matrices (rows, n, n) and vectors (..., rows, n).

    Column by column and not by BLAS, whose last bits depend on how many rows there are.
    """
    product = matrices[..., 0] * vectors[..., :1]
    for column in range(1, matrices.shape[-1]):
        product += matrices[..., column] * vectors[..., column : column + 1]
    return np.asarray(product)


def _parameter(name: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return a checked parameter in its full shape."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: must be finite numbers")
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{name} of shape {array.shape}: must broadcast to {shape}") from None


def _symmetric(matrices: FloatArray) -> FloatArray:
    return (matrices + np.swapaxes(matrices, -1, -2)) / 2
