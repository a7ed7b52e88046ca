"""What one client sells under JSAM as its own virtual cost varies.

Every form of a selection has a least objective that rises with any cost, and its derivative by
client k's virtual cost is epsilon_k. The server takes the least of them, whose derivative falls:
budgets do not increase in a client's own report, and drop where another form takes over. Forms
whose objective at the lowest cost exceeds the optimum at the highest cost are never taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, IntArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.capped import ROUNDING, Bounds
from fedgame.games.procurement.fixed_probabilities import budgets_at
from fedgame.games.procurement.optimum import CappedSearch, likely_optimum
from fedgame.games.procurement.ordered import Others
from fedgame.games.procurement.profiles import Profiles, score
from fedgame.games.procurement.thresholds import (
    all_thresholds,
    largest_probability,
    threshold_budget,
    threshold_scores,
)

LABEL_FIELDS = 5


@dataclass
class _Points:
    """What is known of a curve at its nodes: budgets, labels and the least objective."""

    budgets: FloatArray
    labels: IntArray
    objectives: FloatArray


class JsamCurve:
    """A `BudgetCurve` of JSAM on a range of virtual costs."""

    def __init__(
        self,
        others: Others,
        ends: tuple[float, float],
        objective: float,
        thresholds: IntArray,
        terms: Terms,
        wider: CappedSearch | None = None,
    ) -> None:
        """Keep the thresholds that can be best in the range; `of` knows what to start from.

        Args:
            others: All clients but the one whose virtual cost varies.
            ends: The smallest and the largest virtual cost.
            objective: An upper bound on the least objective in the range.
            thresholds: The thresholds m that can be best without a cap in a wider range.
            terms: The server's terms.
            wider: The search of a wider range where the cap binds, if there is one.
        """
        self._others, self._terms, self._objective = others, terms, objective
        self._lowest, self._highest = (others.joined_by(np.array([end])) for end in ends)
        at_low, at_high = (
            threshold_scores(costs, thresholds, terms)[0][0]
            for costs in (self._lowest, self._highest)
        )
        self._thresholds = thresholds[at_low <= at_high.min() * (1 + ROUNDING)]
        self._wider_search = wider

    @classmethod
    def of(cls, costs: FloatArray, client: int, low: float, high: float, terms: Terms) -> JsamCurve:
        """Return the curve of a client.

        Args:
            costs: Virtual costs, shape (clients,); the client's own entry is not used.
            client: Its index.
            low: Smallest virtual cost that will be asked for.
            high: Largest one.
            terms: The server's terms.
        """
        others = Others(costs, client)
        highest = others.joined_by(np.array([high]))
        objective = likely_optimum(highest, terms)[1]
        return cls(others, (low, high), objective, all_thresholds(highest), terms)

    @cached_property
    def _search(self) -> CappedSearch:
        """What to look at where the cap binds; few curves need it."""
        if self._wider_search is not None:
            return self._wider_search.narrowed(self._lowest, self._objective)
        every = all_thresholds(self._lowest)
        bounds = Bounds(self._lowest, self._objective, every, self._terms)
        search = CappedSearch.at(self._lowest, self._highest, bounds, self._terms)
        return search.narrowed(self._lowest, self._objective)

    def narrowed(self, low: float, high: float) -> JsamCurve:
        """Return the same curve for virtual costs from `low` to `high` only."""
        search = self.__dict__.get("_search")
        if len(self._thresholds) <= 2 and (search is None or search.is_decided()):
            return self
        objective = float(self._at(np.array([high])).objectives[0])
        search = self.__dict__.get("_search")
        return JsamCurve(
            self._others, (low, high), objective, self._thresholds, self._terms, search
        )

    def __call__(self, values: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return budgets, shape (nodes,), and labels, shape (nodes, fields)."""
        points = self._at(values)
        return points.budgets, points.labels

    def _at(self, values: FloatArray) -> _Points:
        costs = self._others.joined_by(values)
        n, rank, own = costs.num_clients, costs.rank[:, 0], costs.moving[:, 0]
        relaxed, unit = threshold_scores(costs, self._thresholds, self._terms)
        best = np.argmin(relaxed, axis=1)
        rows = np.arange(len(own))
        selected, unit = self._thresholds[best], unit[rows, best]
        top = largest_probability(selected, n)
        first, inside = rank == 0, rank < selected
        probability = np.where(first, top, np.where(inside, 1 / n, 0.0))
        labels = np.zeros((len(own), LABEL_FIELDS), dtype=np.int64)
        labels[inside, 0] = selected[inside]
        labels[:, 1] = first
        points = _Points(threshold_budget(probability, own, unit), labels, relaxed[rows, best])

        cheapest = costs.cheapest()[:, 0]
        capped = threshold_budget(top, cheapest, unit) > self._terms.epsilon_max
        if capped.any():
            self._where_capped(points, own, capped)
        return points

    def _where_capped(self, points: _Points, own: FloatArray, capped: BoolArray) -> None:
        """Replace what is known at nodes at which the cap binds."""
        costs = self._others.joined_by(own[capped])
        found, objectives = self._search.profiles(costs)
        best = np.argmin(objectives, axis=1)[:, None]
        profile = Profiles(
            found.num_clients,
            found.selected[best],
            np.take_along_axis(found.group, best, axis=1),
            np.take_along_axis(found.level, best, axis=1),
        )
        multiplier = score(costs, profile, self._terms).multiplier
        role, probability = profile.of_client(costs.rank)
        budgets = budgets_at(multiplier, probability, own[capped, None], self._terms)
        labels = np.hstack([profile.selected, 1 + role, profile.group,
                            budgets >= self._terms.epsilon_max,
                            profile.level > 1 / profile.num_clients])  # fmt: skip
        points.budgets[capped] = budgets[:, 0]
        points.labels[capped] = np.where(role > 0, labels, 0)
        points.objectives[capped] = np.take_along_axis(objectives, best, axis=1)[:, 0]
