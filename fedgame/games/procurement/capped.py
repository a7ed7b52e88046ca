"""JSAM where the cap on budgets binds: the candidates among which the optimum lies, and their score.

A client whose budget is at the cap has a convex cost p^2 in its probability, where it is concave
below the cap. So Theorem 3 of the JSAM paper, which gives all spare probability to the cheapest
client, no longer holds: j clients at the cap share it equally. With clients in ascending order of
virtual cost, the optimum has the form

    j clients at a common P >= 1/N, at most one more at a t in (1/N, P), the others up to the m-th at
    1/N, and the rest at 0,

with all j at the cap if j > 1, and the one at t below it. At fixed lambda and fixed mass the second
derivative along t is proportional to 1/j - P/(3t), hence t exists for j = 1 and 2 only, and is at
least P j/3. For each (m, j) the budgets are again a convex problem with one multiplier, as in
`fixed_probabilities`. Clients of equal cost at the cap are treated alike, those that cost nothing
among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, IntArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.fixed_probabilities import find_multiplier, start_multiplier
from fedgame.games.procurement.ordered import OrderedCosts
from fedgame.games.procurement.thresholds import threshold_distance

PARTIAL_GRID = 17
PARTIAL_STEPS = 45
LARGEST_PARTIAL_GROUP = 2
ROUNDING = 1e-12
"""By how much, relatively, rounding may move an objective: candidates as close stay in."""


@dataclass(frozen=True)
class Profiles:
    """Forms of a solution, one an element.

    Attributes:
        selected: m, number of clients with positive probability.
        group: j, number of clients at the highest probability.
        partial: Whether client j + 1 has a probability t of its own.
        level: t, where there is one.
    """

    selected: IntArray
    group: IntArray
    partial: BoolArray
    level: FloatArray

    def take(self, which: IntArray | BoolArray) -> Profiles:
        """Return some of them, by index or mask along the last axis."""
        return Profiles(
            self.selected[..., which],
            self.group[..., which],
            self.partial[..., which],
            self.level[..., which],
        )

    def mass(self, num_clients: int) -> FloatArray:
        """Return the probability of the group and the partial client together."""
        return 1 - (self.selected - self.group - self.partial) / num_clients

    def top(self, num_clients: int) -> FloatArray:
        """Return P, the probability of each client of the group."""
        rest = np.where(self.partial, self.level, 0.0)
        return (self.mass(num_clients) - rest) / self.group


@dataclass(frozen=True)
class Scores:
    """What `score` returns, each of shape (rows, profiles).

    Attributes:
        objective: Least value of the server's objective.
        multiplier: lambda, which gives the budgets.
        group_capped: How many of the group are at the cap.
        partial_capped: Whether the partial client is.
        base_capped: How many of the clients at 1/N are.
    """

    objective: FloatArray
    multiplier: FloatArray
    group_capped: IntArray
    partial_capped: BoolArray
    base_capped: IntArray


class _Budgets:
    """The best budgets of profiles as a function of the multiplier."""

    def __init__(self, costs: OrderedCosts, profiles: Profiles, terms: Terms) -> None:
        self._costs, self._profiles, self._terms = costs, profiles, terms
        self._above = profiles.group + profiles.partial
        self._top = profiles.top(costs.num_clients)
        self._levels = np.where(profiles.partial, profiles.level, 0.0)
        self._base = 1 / costs.num_clients
        self._partial_cost = costs.cost(np.minimum(profiles.group, costs.num_clients - 1))
        self._group_powers = costs.power_sum(profiles.group)
        self._all_powers = costs.power_sum(profiles.selected)

    def capped(self, multiplier: FloatArray) -> tuple[IntArray, BoolArray, IntArray]:
        """Return how many clients of the group, the partial one, the rest are at the cap."""
        terms = self._terms
        limit = 2 * terms.eta * terms.q * multiplier / terms.epsilon_max**3
        group = np.minimum(self._costs.count_up_to(limit * self._top**2), self._profiles.group)
        partial = self._profiles.partial & (self._partial_cost <= limit * self._levels**2)
        base = self._costs.count_up_to(limit * self._base**2)
        base = np.clip(base, self._above, self._profiles.selected) - self._above
        return group, partial, base

    def free_power_sum(self, group: IntArray, partial: BoolArray, base: IntArray) -> FloatArray:
        """Return the sum of (v p)^(2/3) over the clients below the cap."""
        power = self._costs.power_sum
        in_group = np.cbrt(self._top) ** 2 * (self._group_powers - power(group))
        between = np.cbrt(self._levels * self._partial_cost) ** 2 * ~partial
        rest = np.where(
            self._above + base < self._profiles.selected,
            self._all_powers - power(self._above + base),
            0.0,
        )
        return in_group + between + np.cbrt(self._base) ** 2 * rest

    def noise_at(self, multiplier: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return G and its part below the cap."""
        terms = self._terms
        group, partial, base = self.capped(multiplier)
        squares = group * self._top**2 + partial * self._levels**2 + base * self._base**2
        factor = np.cbrt(terms.q / (2 * terms.eta * multiplier) ** 2)
        free = factor * self.free_power_sum(group, partial, base)
        return terms.q * squares / terms.epsilon_max**2 + free, free

    def start(self, distance: FloatArray) -> FloatArray:
        """Return a multiplier from which to search."""
        none = np.zeros_like(self._above)
        squares = self._profiles.group * self._top**2 + self._levels**2
        squares = squares + (self._profiles.selected - self._above) * self._base**2
        power_sum = self.free_power_sum(none, none.astype(bool), none)
        least_noise = self._terms.q * squares / self._terms.epsilon_max**2
        return start_multiplier(
            np.broadcast_to(distance, power_sum.shape),
            power_sum,
            np.broadcast_to(least_noise, power_sum.shape),
            self._terms,
        )

    def spent(
        self, multiplier: FloatArray, group: IntArray, partial: BoolArray, base: IntArray
    ) -> FloatArray:
        """Return the sum of v epsilon."""
        terms, total = self._terms, self._costs.cost_sum
        at_cap = total(group) + np.where(partial, self._partial_cost, 0.0)
        at_cap = at_cap + total(self._above + base) - total(self._above)
        factor = np.cbrt(2 * terms.eta * terms.q * multiplier)
        return terms.epsilon_max * at_cap + factor * self.free_power_sum(group, partial, base)

    def slope(self, multiplier: FloatArray) -> FloatArray:
        """Return the derivative of the least objective by t: partial client's minus group's."""
        powers = self._group_powers / self._profiles.group
        first = self._marginal(multiplier, np.cbrt(self._costs.cost(np.zeros(1, int))) ** 2)
        group = np.where(self._profiles.group > 1, 0.0, first)
        del powers
        return group


def score(costs: OrderedCosts, profiles: Profiles, terms: Terms) -> Scores:
    """Return the least objective of each profile, budgets being chosen best."""
    raise NotImplementedError
