"""Sums over the cheapest clients, also while one client's virtual cost varies."""

from __future__ import annotations

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray


def cheapest_first(costs: FloatArray) -> IntArray:
    """Return the clients in ascending order of cost; of equals, the lower index first."""
    return np.argsort(costs, kind="stable").astype(np.int64)


def rank_among(others: FloatArray, before: IntArray, values: FloatArray) -> IntArray:
    """Return how many of the others come before a client with these costs.

    Args:
        others: The others' costs in ascending order, shape (others,).
        before: Number of clients with a lower index than the client's among the first i of the
            others, for i = 0, ..., others.
        values: The client's possible costs, any shape.
    """
    left = np.searchsorted(others, values, side="left")
    right = np.searchsorted(others, values, side="right")
    return np.asarray(left + before[right] - before[left])


class OrderedCosts:
    """Virtual costs in ascending order, and prefix sums over them.

    With `moving`, one client's cost takes several values, one a row, and all answers have one row
    for each; without, there is one row.

    Attributes:
        num_clients: N.
        rank: Number of clients before the moving one, shape (rows, 1); N without one.
    """

    def __init__(
        self,
        fixed: FloatArray,
        moving: FloatArray | None = None,
        before: IntArray | None = None,
    ) -> None:
        """Sum up.

        Args:
            fixed: Costs that stay, in ascending order.
            moving: Costs of one more client, shape (rows,).
            before: As for `rank_among`; needed with `moving`.
        """
        self._fixed = fixed
        self._powers = np.concatenate([[0.0], np.cumsum(np.cbrt(fixed) ** 2)])
        self._sums = np.concatenate([[0.0], np.cumsum(fixed)])
        if moving is None or before is None:
            self.num_clients = len(fixed)
            self._moving = np.zeros((1, 1))
            self.rank = np.full((1, 1), len(fixed))
        else:
            self.num_clients = len(fixed) + 1
            self._moving = moving[:, None]
            self.rank = rank_among(fixed, before, self._moving)

    def power_sum(self, count: IntArray) -> FloatArray:
        """Return the sum of v^(2/3) over the `count` cheapest, broadcast to the rows."""
        return self._prefix(self._powers, np.cbrt(self._moving) ** 2, count)

    def cost_sum(self, count: IntArray) -> FloatArray:
        """Return the sum of v over the `count` cheapest, broadcast to the rows."""
        return self._prefix(self._sums, self._moving, count)

    def cost(self, position: IntArray) -> FloatArray:
        """Return the cost of the client at a position from 0 on, broadcast to the rows."""
        after = position > self.rank
        fixed = self._fixed[np.clip(position - after, 0, len(self._fixed) - 1)] if len(
            self._fixed
        ) else np.zeros(position.shape)
        return np.where(position == self.rank, self._moving, fixed)

    def count_up_to(self, limit: FloatArray) -> IntArray:
        """Return how many clients cost at most `limit`, shape (rows, ...)."""
        count = np.searchsorted(self._fixed, limit, side="right")
        if self.num_clients == len(self._fixed):
            return count
        return count + (self._moving <= limit)

    def _prefix(self, sums: FloatArray, moving: FloatArray, count: IntArray) -> FloatArray:
        included = count > self.rank
        return sums[count - included] + np.where(included, moving, 0.0)
