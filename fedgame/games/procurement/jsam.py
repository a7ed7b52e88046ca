"""JSAM: selection and budgets chosen together, exactly (JSAM paper, Problem 3)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import BoolArray, FloatArray
from fedgame.games.procurement.base import BudgetCurve, Choice, Terms, check_costs
from fedgame.games.procurement.fixed_probabilities import best_budgets
from fedgame.games.procurement.jsam_curve import JsamCurve
from fedgame.games.procurement.optimum import best_profile
from fedgame.games.procurement.ordered import OrderedCosts, cheapest_first


def solve_jsam(costs: ArrayLike, terms: Terms) -> Choice:
    """Return the probabilities and budgets that minimise the server's objective.

    Without a cap that binds, the N thresholds are scored at once, O(N log N). Otherwise the forms
    that a solution can have under the cap are scored as well; see `capped`.

    Args:
        costs: Virtual costs, shape (clients,); of equals, the client with the lower index counts
            as the cheaper one.
        terms: The server's terms.

    Raises:
        ValueError: A cost is negative or not finite, or is 0 without a finite cap.

    >>> choice = solve_jsam([0.2, 0.4, 0.8, 1.2, 1.8], Terms(eta=1.0))
    >>> choice.probabilities.tolist()
    [0.4, 0.2, 0.2, 0.2, 0.0]
    >>> choice.budgets.round(4).tolist()
    [0.8873, 0.4436, 0.3521, 0.3076, 0.0]
    """
    checked = check_costs(costs, terms)
    order = cheapest_first(checked)
    probabilities = np.empty_like(checked)
    probabilities[order] = best_profile(OrderedCosts.of(checked[order]), terms).probabilities()
    return Choice(probabilities, best_budgets(probabilities, checked, terms))


class JointSelection:
    """What JSAM does, whatever the costs are that it is given."""

    optimises_selection: ClassVar[bool] = True

    def eligible(self, num_clients: int) -> BoolArray:
        """Mark the clients that can be selected at all: everybody, at some cost."""
        return np.ones(num_clients, dtype=np.bool_)

    def choose(self, costs: FloatArray, terms: Terms) -> Choice:
        """Return the choice at virtual costs of shape (clients,)."""
        return solve_jsam(costs, terms)

    def curve(
        self, costs: FloatArray, client: int, low: float, high: float, terms: Terms
    ) -> BudgetCurve:
        """Return one client's budget as a function of its own virtual cost in [low, high]."""
        return JsamCurve.of(costs, client, low, high, terms)


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Jsam(JointSelection):
    """JSAM, the joint client selection and privacy compensation mechanism."""

    name: ClassVar[str] = "jsam"
    complete_information: ClassVar[bool] = False
