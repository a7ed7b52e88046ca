"""The pseudo-gradient of a quadratic game, as a map: F(x)_i = X_i x_i + V_i mean(x) + q_i."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fedgame.games.aggregative.base import check_types
from fedgame.games.aggregative.quadratic import QuadraticGame, times
from fedgame.games.best_response import FloatArray

BISECTIONS = 60


@dataclass(frozen=True)
class AffineMap:
    """An affine map of N strategies that sees the others through their mean.

    Attributes:
        own: X, shape (N, n, n).
        mean: V, shape (N, n, n).
        offset: q, shape (N, n).
    """

    own: FloatArray
    mean: FloatArray
    offset: FloatArray

    @classmethod
    def of(cls, game: QuadraticGame, types: ArrayLike) -> AffineMap:
        """Return the gradients of all players' costs by their own strategies.

        Args:
            game: The game.
            types: Index of each player's type, shape (N,).

        Raises:
            ValueError: A type is not one of the game's.
        """
        costs = game.costs(np.arange(game.num_players), check_types(game, types))
        back = np.swapaxes(costs.coupling, -1, -2)
        share = 1 / game.num_players
        return cls(
            costs.curvature + share * back,
            costs.coupling + share * costs.aggregate_curvature,
            costs.linear + share * costs.aggregate_linear,
        )

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return F(x), shape (N, n), at strategies x of that shape."""
        return times(self.own, x) + times(self.mean, x.mean(axis=0)) + self.offset

    @property
    def hessians(self) -> FloatArray:
        """Second derivatives of all players' costs by their own strategies, shape (N, n, n)."""
        return self.own + self.mean / len(self.own)

    @property
    def bound(self) -> float:
        """A Lipschitz constant in the Euclidean norm; 1 for a constant map."""
        norms = (np.linalg.norm(part, ord=2, axis=(1, 2)).max() for part in (self.own, self.mean))
        return float(sum(norms)) or 1.0

    def smallest_eigenvalue(self) -> float:
        """Return the least eigenvalue of the symmetric part of the map's matrix.

        The game is monotone if it is >= 0, and strongly monotone, with one equilibrium only, if it
        is > 0. The symmetric part is block diagonal but for rank 2n, so that eigenvalues below a
        number are counted by Sylvester's law of inertia, at a cost linear in N.
        """
        players, n = self.offset.shape
        blocks = (self.own + np.swapaxes(self.own, -1, -2)) / 2
        values, vectors = np.linalg.eigh(blocks)
        identity = np.broadcast_to(np.eye(n), self.mean.shape)
        factors = np.concatenate([self.mean, identity], axis=-1) / np.sqrt(players)
        rotated = (np.swapaxes(vectors, -1, -2) @ factors).reshape(players * n, 2 * n)
        levels = values.ravel()
        smallest_gap = np.finfo(float).eps * self.bound
        swap = 2 * np.kron([[0.0, 1.0], [1.0, 0.0]], np.eye(n))
        low, high = float(levels.min()) - self.bound, float(levels.min()) + self.bound
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            gaps = levels - middle
            gaps = np.where(np.abs(gaps) < smallest_gap, smallest_gap, gaps)
            inner = swap + rotated.T @ (rotated / gaps[:, None])
            below = int((gaps < 0).sum() + (np.linalg.eigvalsh(inner) > 0).sum()) - n
            low, high = (low, middle) if below > 0 else (middle, high)
        return (low + high) / 2


def solve_coupled(blocks: FloatArray, couplings: FloatArray, right: FloatArray) -> FloatArray:
    """Solve blocks_i d_i + couplings_i mean(d) = right_i for all i at once.

    Args:
        blocks: Shape (N, n, n).
        couplings: Shape (N, n, n).
        right: Shape (N, n).

    Returns:
        d, shape (N, n); NaN if the system is singular.
    """
    players, n = right.shape
    ahead = np.arange(players)
    last = np.full(players, players)
    identity = np.broadcast_to(np.eye(n), blocks.shape)
    data = np.concatenate([blocks, couplings, -identity / players, identity[:1]])
    rows = np.concatenate([ahead, ahead, last, [players]])
    columns = np.concatenate([ahead, last, ahead, [players]])
    within = np.arange(n)
    shape = data.shape
    i = np.broadcast_to(rows[:, None, None] * n + within[:, None], shape)
    j = np.broadcast_to(columns[:, None, None] * n + within, shape)
    size = (players + 1) * n
    matrix = scipy.sparse.csc_array((data.ravel(), (i.ravel(), j.ravel())), shape=(size, size))
    try:
        solution = scipy.sparse.linalg.splu(matrix).solve(np.append(right.ravel(), np.zeros(n)))
    except RuntimeError:  # exactly singular
        return np.full_like(right, np.nan)
    return np.asarray(solution[: players * n].reshape(right.shape))
