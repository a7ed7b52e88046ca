"""JSAM-CI, JSAM for a server that knows every cost (JSAM paper, section VI-B)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.procurement.base import Choice, Terms, check_costs, require_positive
from fedgame.games.procurement.jsam import JointSelection
from fedgame.games.procurement.ordered import OrderedCosts, cheapest_first

GRID = 65
"""Points of p_h in [0, 1/N] on which each h is scored."""

REFINEMENTS = 6
"""How often the grid is refined about its best point, by a factor of GRID/2 each."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class JsamCi(JointSelection):
    """JSAM with the costs in place of the virtual costs; a client is paid its cost c_k epsilon_k.

    It is what a server could do that knew the costs. Clients would gain by misreporting theirs.
    """

    name: ClassVar[str] = "jsam-ci"
    complete_information: ClassVar[bool] = True


def solve_fixed_cost(costs: ArrayLike, total_cost: float, q: float = 1.0) -> Choice:
    """Minimise |p - u|_1 + sqrt(|p - u|_1^2 + Q S^3/B^2) at a given total cost B, without a cap.

    For known costs and for plots only: if B were held at the clients' reports, a client could gain
    by reporting more than its cost, since its own budget may then rise. Unlike with eta, the
    probability p_h of the last client selected (JSAM paper, Theorem 3) may lie inside [0, 1/N], and
    the objective has several minima along it: every h is searched on a grid, and the best point
    refined.

    Args:
        costs: Costs, shape (clients,), each > 0.
        total_cost: B, the sum of c_k epsilon_k, > 0.
        q: Q, > 0.

    Raises:
        ValueError: A cost is 0, negative or not finite, or B or Q is not positive.

    >>> solve_fixed_cost([0.10, 0.6], total_cost=0.2).budgets.round(3).tolist()
    [2.0, 0.0]
    """
    require_positive("total_cost", total_cost)
    checked = check_costs(costs, Terms(1.0, q))
    order = cheapest_first(checked)
    ordered = OrderedCosts.of(checked[order])
    n = len(checked)
    last = np.arange(n)
    rest = np.linspace(0, 1, GRID)[:, None] / n
    scores = _fixed_cost_scores(ordered, last, rest, total_cost, q)
    place = np.unravel_index(np.argmin(scores), scores.shape)
    h, best, width = last[[place[1]]], float(rest[place[0], 0]), 1 / (n * (GRID - 1))
    for _ in range(REFINEMENTS):
        rest = np.clip(np.linspace(best - width, best + width, GRID), 0, 1 / n)[:, None]
        best = float(rest[np.argmin(_fixed_cost_scores(ordered, h, rest, total_cost, q)), 0])
        width *= 2 / (GRID - 1)
    sorted_p = np.zeros(n)
    sorted_p[: int(h[0])] = 1 / n
    sorted_p[int(h[0])] = best
    sorted_p[0] += 1 - sorted_p.sum()
    probabilities = np.empty(n)
    probabilities[order] = sorted_p
    shares = np.cbrt(probabilities * checked) ** 2
    return Choice(probabilities, total_cost * shares / (shares.sum() * checked))


def _fixed_cost_scores(
    costs: OrderedCosts, before: IntArray, rest: FloatArray, total_cost: float, q: float
) -> FloatArray:
    """Return the objective where `before` clients come before one with probability `rest`."""
    n = costs.num_clients
    spare = (n - before) / n - rest
    first = np.cbrt(costs.cheapest()) ** 2
    others = np.where(before > 0, costs.power_sum(before) - first, 0.0)
    top = np.where(before > 0, 1 / n + spare, 1.0)
    last = np.where(before > 0, np.cbrt(rest * costs.cost(before)) ** 2, 0.0)
    power_sum = np.cbrt(top) ** 2 * first + np.cbrt(1 / n) ** 2 * others + last
    distance = np.where(before > 0, 2 * spare, 2 * (1 - 1 / n))
    return np.asarray(distance + np.sqrt(distance**2 + q * power_sum**3 / total_cost**2))
