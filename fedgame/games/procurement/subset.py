"""Mechanisms that select a given number of clients uniformly and choose only the budgets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, IntArray
from fedgame.games.procurement.base import BudgetCurve, Choice, Terms, check_costs
from fedgame.games.procurement.fixed_probabilities import best_budgets, budgets_at
from fedgame.games.procurement.ordered import Others, cheapest_first
from fedgame.games.procurement.profiles import Profiles, score


def cheapest_members(costs: FloatArray, size: int) -> BoolArray:
    """Mark the `size` cheapest clients; of equals, those with the lower index."""
    members = np.zeros(len(costs), dtype=np.bool_)
    members[cheapest_first(costs)[:size]] = True
    return members


def choose_uniformly(costs: FloatArray, members: BoolArray, terms: Terms) -> Choice:
    """Select the members with equal probabilities, with the best budgets for these.

    Args:
        costs: Virtual costs, shape (clients,).
        members: Who can be selected, shape (clients,); at least one.
        terms: The server's terms.

    Raises:
        ValueError: A cost is negative or not finite, or is 0 without a finite cap.
    """
    checked = check_costs(costs, terms)
    probabilities = members / members.sum()
    return Choice(probabilities, best_budgets(probabilities, checked, terms))


class UniformSelection(ABC):
    """A mechanism that fixes beforehand who is selected, all alike."""

    complete_information: ClassVar[bool] = False
    optimises_selection: ClassVar[bool] = False

    @abstractmethod
    def eligible(self, num_clients: int) -> BoolArray:
        """Mark the clients that are selected."""

    def choose(self, costs: FloatArray, terms: Terms) -> Choice:
        """Return the choice at virtual costs of shape (clients,)."""
        return choose_uniformly(costs, self.eligible(len(costs)), terms)

    def curve(
        self,
        costs: FloatArray,
        client: int,
        low: float,  # noqa: ARG002
        high: float,  # noqa: ARG002
        terms: Terms,
    ) -> BudgetCurve:
        """Return a selected client's budget as a function of its own virtual cost."""
        return UniformCurve(costs, client, self.eligible(len(costs)), terms, leaves=False)


class UniformCurve:
    """A `BudgetCurve` of a client that is selected with probability 1/M, as are M - 1 others."""

    def __init__(
        self, costs: FloatArray, client: int, members: BoolArray, terms: Terms, *, leaves: bool
    ) -> None:
        """Sum up.

        Args:
            costs: Virtual costs, shape (clients,); the client's own entry is not used.
            client: Its index.
            members: Who can be selected, shape (clients,), the client among them.
            terms: The server's terms.
            leaves: Whether the client sells nothing where so many others come before it that
                they fill the places.
        """
        self._terms = terms
        inside = np.flatnonzero(members)
        self._size = len(inside)
        self._others = Others(costs[members], int(np.searchsorted(inside, client)))
        size = np.array([self._size])
        self._profile = Profiles.plain(len(costs), size, size)
        self._rivals = Others(costs, client) if leaves else None

    def __call__(self, values: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return budgets, shape (nodes,), and labels, shape (nodes, fields)."""
        costs = self._others.joined_by(values)
        own = costs.moving[:, 0]
        scores = score(costs, self._profile, self._terms)
        share = np.full(len(own), 1 / self._size)
        budgets = budgets_at(scores.multiplier[:, 0], share, own, self._terms)
        at_cap = budgets >= self._terms.epsilon_max
        labels = np.stack([np.ones(len(own)), at_cap], axis=1)
        if self._rivals is not None:
            outside = self._rivals.rank(own) >= self._size
            budgets, labels = np.where(outside, 0.0, budgets), labels * ~outside[:, None]
        return budgets, labels.astype(np.int64)

    def narrowed(self, low: float, high: float) -> UniformCurve:  # noqa: ARG002
        """Return the same curve, which is as fast everywhere."""
        return self
