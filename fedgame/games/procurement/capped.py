"""JSAM where the cap on budgets binds: which profiles the optimum can have.

`profiles` says what forms an optimum can have: m clients are selected, and j of them, at the cap,
share the spare probability. That is up to N^2/2 pairs (m, j). Few need a look:

- An objective that can be had, such as that of the threshold which is best without a cap, rules out
  every m that would be dearer even without a cap, and confines the multiplier lambda of the others
  (`Bounds`).
- For each m that is left the objective falls in j up to one point and rises from there, so that the
  best j is found by bisection, for all m at once (`best_groups`).
- Where one client's cost varies, the j that can be optimal in a range form an interval for each m
  (`size_range`), within which the bisection is then made.

The client that may have a probability of its own between the group's and 1/N is left to `levels`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, IntArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.ordered import OrderedCosts
from fedgame.games.procurement.profiles import Profiles, score
from fedgame.games.procurement.thresholds import (
    largest_probability,
    threshold_budget,
    threshold_distance,
    threshold_scores,
)

ROUNDING = 1e-10
"""By how much, relatively, rounding may move an objective: candidates that close stay in."""

BOUND_STEPS = 4
"""How often a bound on one side is used for the other."""

Sizes: TypeAlias = tuple[IntArray, IntArray]
"""The least and the largest j to look at, for each m."""


class Bounds:
    """What an objective that can be had says about the optimum.

    Attributes:
        selected: The thresholds m that may be optimal, shape (thresholds,).
        least: Lower bound on the multiplier of each.
        most: Upper bound.
    """

    def __init__(
        self, costs: OrderedCosts, objective: float, thresholds: IntArray, terms: Terms
    ) -> None:
        """Bound everything for the one row of `costs`.

        With s = 1/(2 lambda) the objective is eta (l + s) and what is spent. All m clients have at
        least the probability 1/N, so that at any lambda each buys at least what it would at 1/N,
        and adds at least as much to s^2 - l^2; a bound on lambda bounds both.

        Args:
            costs: The virtual costs.
            objective: What can be had.
            thresholds: The thresholds to start from.
            terms: The server's terms.
        """
        n = costs.num_clients
        limit = objective * (1 + ROUNDING)
        relaxed = threshold_scores(costs, thresholds, terms)[0][0]
        selected = thresholds[relaxed <= limit]
        distance = threshold_distance(selected, n)
        for_rest = limit - terms.eta * distance
        self._cap_factor = 2 * terms.eta * terms.q / terms.epsilon_max**3
        # s is at most all of the rest, and at least what it is with all m at the cap, 1/m each
        least = terms.eta / (2 * for_rest)
        most = 0.5 / np.sqrt(distance**2 + terms.q / (selected * terms.epsilon_max**2))
        fits = np.ones(selected.shape, dtype=np.bool_)
        for _ in range(BOUND_STEPS):
            noise, _ = self._at_base(costs, selected, most, terms)
            most = np.minimum(most, 0.5 / np.sqrt(distance**2 + noise))
            _, spent = self._at_base(costs, selected, least, terms)
            fits &= terms.eta * 0.5 / most + spent <= for_rest
            least = np.maximum(least, terms.eta / (2 * np.where(fits, for_rest - spent, 1.0)))
        self.selected, self.least, self.most = selected[fits], least[fits], most[fits]

    def _at_base(
        self, costs: OrderedCosts, selected: IntArray, multiplier: FloatArray, terms: Terms
    ) -> tuple[FloatArray, FloatArray]:
        """Return the noise term and the spending of m clients at 1/N, for a multiplier of each."""
        n = costs.num_clients
        at_cap = costs.count_up_to((self._cap_factor * multiplier / n**2)[None])[0]
        at_cap = np.minimum(at_cap, selected)
        powers = costs.power_sum(selected)[0] - costs.power_sum(at_cap)[0]
        price = 2 * terms.eta * terms.q * multiplier
        noise = terms.q * at_cap / (n * terms.epsilon_max) ** 2
        noise = noise + terms.q * powers / np.cbrt(price * n) ** 2
        spent = terms.epsilon_max * costs.cost_sum(at_cap)[0] + np.cbrt(price / n**2) * powers
        return noise, spent

    def can_reach_cap(self, cost: FloatArray, probability: FloatArray) -> BoolArray:
        """Mark where a client of this cost can be at the cap if selected with this probability."""
        return np.asarray(cost <= self._cap_factor * self.most * probability**2)

    def can_stay_below(self, cost: FloatArray, probability: FloatArray) -> BoolArray:
        """Mark where a client of this cost can be below the cap at this probability."""
        return np.asarray(cost >= self._cap_factor * self.least * probability**2)


def best_groups(
    costs: OrderedCosts, selected: IntArray, terms: Terms, sizes: Sizes | None = None
) -> tuple[Profiles, FloatArray]:
    """Return the best number j of clients at the cap that share the spare probability, for each m.

    Let j be real, client ceil(x) standing at x. With E = (N - m)/N to spare, r <= 1 the part of
    the cap that client j would buy at 1/N, and e = E N/j, the objective is stationary in j and the
    multiplier where e^2 = (1 - r)^2 (2 + r)/r^3, and there its Hessian is positive definite, since
    sqrt(8/3) (1 + e) e > e^2 + 1/r^2 - 1 for every r < 1. So the objective falls in j up to one
    point and rises from there, and the sign of its derivative tells on which side a j is.

    Args:
        costs: The virtual costs.
        selected: m, shape (profiles,).
        terms: The server's terms.
        sizes: Where to look for j, by default from 1 to m.

    Returns:
        Profiles, j of shape (rows, profiles), and their objectives. Where no client reaches the cap
        that is the best with j = 1.
    """
    n = costs.num_clients
    size, objective = best_at_cap(costs, selected, terms, sizes or all_sizes(selected, n))
    return or_nobody(costs, selected, size, objective, terms)


def or_nobody(
    costs: OrderedCosts, selected: IntArray, size: IntArray, objective: FloatArray, terms: Terms
) -> tuple[Profiles, FloatArray]:
    """Replace groups at the cap where it is better, and possible, that nobody is at the cap.

    Args:
        costs: The virtual costs.
        selected: m, shape (profiles,).
        size: j, shape (rows, profiles).
        objective: The least objective with j clients at the cap, same shape.
        terms: The server's terms.
    """
    n = costs.num_clients
    relaxed, unit = threshold_scores(costs, selected, terms)
    budget = threshold_budget(largest_probability(selected, n), costs.cheapest(), unit)
    free = (budget <= terms.epsilon_max) & (relaxed <= objective)
    return Profiles.plain(n, selected, np.where(free, 1, size)), np.where(free, relaxed, objective)


def best_at_cap(
    costs: OrderedCosts, selected: IntArray, terms: Terms, sizes: Sizes
) -> tuple[IntArray, FloatArray]:
    """Return the best j with all j at the cap, and the objective; see `best_groups`."""
    n = costs.num_clients
    shape = (len(costs.rank), len(selected))
    least, most = sizes
    low, high = np.broadcast_to(least, shape), np.broadcast_to(most, shape)
    while (low < high).any():
        middle = (low + high) // 2
        falls = _group_slope(costs, Profiles.plain(n, selected, middle), terms) < 0
        low = np.where(falls, np.minimum(middle + 1, high), low)
        high = np.where(falls, high, middle)
    objective = group_objective(costs, selected, low, terms)
    if (least == most).all():
        return low, objective
    smaller = np.maximum(low - 1, least)
    other = group_objective(costs, selected, smaller, terms)
    return np.where(other < objective, smaller, low), np.minimum(objective, other)


def all_sizes(selected: IntArray, num_clients: int) -> Sizes:
    """Return the sizes that a group can have: from 1 to m, and 1 where nothing is to spare."""
    return np.ones_like(selected), np.where(selected < num_clients, selected, 1)


def group_objective(
    costs: OrderedCosts, selected: IntArray, size: IntArray, terms: Terms
) -> FloatArray:
    """Return the least objective with a group of this size at the cap, shape (rows, profiles)."""
    profiles = Profiles.plain(costs.num_clients, selected, size)
    return score(costs, profiles, terms, group_at_cap=True).objective


def size_range(
    costs: OrderedCosts, best: Profiles, objective: float, terms: Terms, sizes: Sizes
) -> Sizes:
    """Return the least and the largest j with which the objective is at most a given one.

    Args:
        costs: The virtual costs, one row.
        best: Profiles with the best j, j of shape (profiles,).
        objective: The given one.
        terms: The server's terms.
        sizes: Where to look.

    Returns:
        Sizes of shape (profiles,); the best one alone where none is as good.
    """
    selected, start = best.selected, best.group
    limit = objective * (1 + ROUNDING)
    both = np.concatenate([selected, selected])
    # downwards in the first half and upwards in the second: from what fits to what may not
    inside, outside = np.concatenate([start, start]), np.concatenate(sizes)
    while (inside != outside).any():
        # rounded away from what fits, so that every step decides something
        middle = np.where(outside < inside, (inside + outside) // 2, (inside + outside + 1) // 2)
        fits = group_objective(costs, both, middle[None], terms)[0] <= limit
        nearer = np.where(middle < inside, middle + 1, np.maximum(middle - 1, inside))
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, nearer)
    return inside[: len(selected)], inside[len(selected) :]


def _group_slope(costs: OrderedCosts, profiles: Profiles, terms: Terms) -> FloatArray:
    """Return the derivative of the objective along j, from j on upwards, the group at the cap."""
    base = 1 / profiles.num_clients
    spare = (profiles.num_clients - profiles.selected) * base / profiles.group
    price = terms.eta * terms.q * score(costs, profiles, terms, group_at_cap=True).multiplier
    next_cost = costs.cost(np.minimum(profiles.group, profiles.num_clients - 1))
    with np.errstate(divide="ignore"):
        part = np.minimum(np.cbrt(2 * price * base**2 / next_cost) / terms.epsilon_max, 1.0)
    joins = terms.epsilon_max * next_cost * (1 - part) ** 2 * (1 + part / 2)
    return np.asarray(joins - price * (spare / terms.epsilon_max) ** 2)
