"""Sums over the cheapest clients, also while one client's virtual cost varies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.procurement.base import without_negligible


def cheapest_first(costs: FloatArray) -> IntArray:
    """Return the clients in ascending order of cost; of equals, the lower index first."""
    return np.argsort(costs, kind="stable").astype(np.int64)


@dataclass(frozen=True)
class OrderedCosts:
    """Virtual costs in ascending order, and sums over the cheapest ones.

    One client's cost may take several values, one a row; all answers then have one row for each.
    Positions and counts are broadcast against the rows.

    Attributes:
        num_clients: N.
        fixed: The costs that do not vary, in ascending order.
        powers: Sums of their v^(2/3) over the first 0, 1, ... of them.
        sums: The same of v.
        moving: The cost that varies, shape (rows, 1); infinite, one row, if there is none.
        moving_power: Its v^(2/3).
        rank: Number of clients before the one whose cost varies, shape (rows, 1); N if there is
            none.
    """

    num_clients: int
    fixed: FloatArray
    powers: FloatArray
    sums: FloatArray
    moving: FloatArray
    moving_power: FloatArray
    rank: IntArray

    @classmethod
    def of(cls, costs: FloatArray) -> OrderedCosts:
        """Sum up costs in ascending order, shape (clients,), none of which varies."""
        powers = np.concatenate([[0.0], np.cumsum(np.cbrt(costs) ** 2)])
        sums = np.concatenate([[0.0], np.cumsum(costs)])
        none, rank = np.full((1, 1), np.inf), np.full((1, 1), len(costs), dtype=np.int64)
        return cls(len(costs), costs, powers, sums, none, none, rank)

    def power_sum(self, count: IntArray) -> FloatArray:
        """Return the sum of v^(2/3) over the `count` cheapest."""
        included = count > self.rank
        return np.asarray(
            self.powers[count - included] + np.where(included, self.moving_power, 0.0)
        )

    def cost_sum(self, count: IntArray) -> FloatArray:
        """Return the sum of v over the `count` cheapest."""
        included = count > self.rank
        return np.asarray(self.sums[count - included] + np.where(included, self.moving, 0.0))

    def cost(self, position: IntArray) -> FloatArray:
        """Return the cost of the client at a position from 0 to N - 1."""
        index = np.minimum(position - (position > self.rank), len(self.fixed) - 1)
        others = self.fixed[index] if len(self.fixed) else 0.0
        return np.where(position == self.rank, self.moving, others)

    def cheapest(self) -> FloatArray:
        """Return the least cost, shape (rows, 1)."""
        return self.cost(np.zeros(1, dtype=np.int64))

    def count_up_to(self, limit: FloatArray) -> IntArray:
        """Return how many clients cost at most `limit`, of shape (rows, anything)."""
        # for small arrays the method is a good deal faster than the function
        count = self.fixed.searchsorted(limit, side="right")
        return np.asarray(count + (self.moving <= limit))


class Others:
    """All clients but one, whose virtual cost may vary; negligible costs count as 0.

    Attributes:
        costs: The others' costs in ascending order, shape (others,).
    """

    def __init__(self, costs: FloatArray, client: int) -> None:
        """Leave one client out.

        Args:
            costs: Virtual costs, shape (clients,); the client's own entry is not used.
            client: Its index.
        """
        rest = without_negligible(np.delete(costs, client))
        order = cheapest_first(rest)
        self.costs = rest[order]
        self._sums = OrderedCosts.of(self.costs)
        self._lower_index = np.concatenate([[0], np.cumsum(order < client)])

    def rank(self, values: FloatArray) -> IntArray:
        """Return how many of the others come before the client at its possible costs.

        Of equals, the lower index comes first.
        """
        left = np.searchsorted(self.costs, values, side="left")
        right = np.searchsorted(self.costs, values, side="right")
        return np.asarray(left + self._lower_index[right] - self._lower_index[left])

    def joined_by(self, values: FloatArray) -> OrderedCosts:
        """Return everybody's costs, the client's being `values`, shape (rows,)."""
        moving = without_negligible(values)[:, None]
        return replace(
            self._sums,
            num_clients=len(self.costs) + 1,
            moving=moving,
            moving_power=np.cbrt(moving) ** 2,
            rank=self.rank(moving),
        )
