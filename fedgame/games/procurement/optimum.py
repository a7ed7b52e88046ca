"""The optimal profile at given virtual costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.capped import (
    ROUNDING,
    Bounds,
    Sizes,
    all_sizes,
    best_at_cap,
    best_groups,
    or_nobody,
    size_range,
)
from fedgame.games.procurement.levels import LevelGrid, levels, settle_levels
from fedgame.games.procurement.ordered import OrderedCosts
from fedgame.games.procurement.profiles import Profiles, join
from fedgame.games.procurement.thresholds import (
    all_thresholds,
    largest_probability,
    threshold_budget,
    threshold_scores,
)

SAMPLE = 64
"""On so many thresholds the group is sized first; the best one bounds the others."""


def best_profile(costs: OrderedCosts, terms: Terms) -> Profiles:
    """Return the profile, one element, that minimises the server's objective.

    The best of the N thresholds without a cap is the answer if it respects the cap.

    Args:
        costs: The virtual costs, one row.
        terms: The server's terms.
    """
    best, objective, capped = likely_optimum(costs, terms)
    if not capped:
        return best
    left = Bounds(costs, objective, all_thresholds(costs), terms).selected
    if len(left) > SAMPLE:
        sample = left[np.linspace(0, len(left) - 1, SAMPLE).astype(np.int64)]
        objective = min(objective, float(best_groups(costs, sample, terms)[1].min()))
    search = CappedSearch.at(costs, costs, Bounds(costs, objective, left, terms), terms)
    found, objectives = search.profiles(costs)
    return found.take(np.array([np.argmin(objectives[0])]))


def likely_optimum(costs: OrderedCosts, terms: Terms) -> tuple[Profiles, float, bool]:
    """Return the best profile with the threshold that is best without a cap.

    Args:
        costs: The virtual costs, one row.
        terms: The server's terms.

    Returns:
        The profile, one element, its objective, and whether the cap binds; if not, the profile is
        optimal.
    """
    n = costs.num_clients
    thresholds = all_thresholds(costs)
    relaxed, unit = threshold_scores(costs, thresholds, terms)
    best = [int(np.argmin(relaxed[0]))]
    top = largest_probability(thresholds[best], n)
    budget = threshold_budget(top, costs.cheapest()[0], unit[0, best])
    if budget.item() <= terms.epsilon_max:
        profile = Profiles.plain(n, thresholds[best], np.ones(1, dtype=np.int64))
        return profile, float(relaxed[0, best].item()), False
    found, objectives = best_groups(costs, thresholds[best], terms)
    return found, float(objectives.item()), True


@dataclass(frozen=True)
class CappedSearch:
    """The profiles to look at where the cap binds, for one client's cost in a range.

    The objective of a profile rises with every cost: one that at the smallest cost is above the
    optimum at the largest is never optimal in the range.

    Attributes:
        terms: The server's terms.
        selected: The thresholds m.
        sizes: For each the least and the largest size of the group.
        undecided: Profiles whose client j + 1 may have a level of its own.
    """

    terms: Terms
    selected: IntArray
    sizes: Sizes
    undecided: Profiles

    @classmethod
    def at(
        cls, low: OrderedCosts, high: OrderedCosts, bounds: Bounds, terms: Terms
    ) -> CappedSearch:
        """Return the search for a range.

        Args:
            low: The virtual costs with the smallest value of the one that varies, one row.
            high: The same with its largest value.
            bounds: Bounds at `low`, from an objective that can be had in the whole range.
            terms: The server's terms.
        """
        sizes = all_sizes(bounds.selected, low.num_clients)
        return cls(terms, bounds.selected, sizes, levels(low, high, bounds))

    def narrowed(self, low: OrderedCosts, objective: float) -> CappedSearch:
        """Return the search for a smaller range, given its lower end and an objective."""
        terms, limit = self.terms, objective * (1 + ROUNDING)
        size, at_cap = best_at_cap(low, self.selected, terms, self.sizes)
        _, objectives = or_nobody(low, self.selected, size, at_cap, terms)
        keep = objectives[0] <= limit
        best = Profiles.plain(low.num_clients, self.selected[keep], size[0][keep])
        least, most = self.sizes
        sizes = size_range(low, best, objective, terms, (least[keep], most[keep]))
        undecided = self.undecided
        if len(undecided.selected):
            undecided = undecided.take(LevelGrid(low, undecided, terms).bound[0] <= limit)
        return CappedSearch(terms, best.selected, sizes, undecided)

    def is_decided(self) -> bool:
        """Return whether one profile is left, but for the choice between two."""
        least, most = self.sizes
        return len(self.undecided.selected) == 0 and int((most - least + 1).sum()) <= 2

    def profiles(self, costs: OrderedCosts) -> tuple[Profiles, FloatArray]:
        """Return profiles, the optimal one of each row among them, and their objectives.

        Args:
            costs: The virtual costs.

        Returns:
            The profiles, sizes and levels of shape (rows, profiles), and objectives of that shape.
        """
        found, objectives = best_groups(costs, self.selected, self.terms, self.sizes)
        if len(self.undecided.selected) == 0:
            return found, objectives
        least = objectives.min(axis=1, keepdims=True, initial=np.inf)
        settled, values = settle_levels(costs, self.undecided, self.terms, least)
        return join([found, settled]), np.concatenate([objectives, values], axis=-1)
