"""The N thresholds of JSAM without a cap, each scored in closed form (JSAM paper, Theorem 3).

With clients in ascending order of virtual cost, the optimum selects the cheapest one with
probability (N - m + 1)/N, the next m - 1 with 1/N, and nobody else, for some m from 1 to N. Between
two thresholds the paper has one more client at a probability p_h in (0, 1/N). For fixed |p - u|_1
the objective rises with S, and S is concave in p, so that minima lie at vertices; along p_h the
objective is neither convex nor concave, but the optimum was at an end in every instance tried. So
prefix sums of v^(2/3) give all N objectives at once, and no search is left.
"""

from __future__ import annotations

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.fixed_probabilities import uncapped_cost
from fedgame.games.procurement.ordered import OrderedCosts


def all_thresholds(costs: OrderedCosts) -> IntArray:
    """Return the thresholds m = 1, ..., N."""
    return np.arange(1, costs.num_clients + 1)


def threshold_distance(thresholds: IntArray, num_clients: int) -> FloatArray:
    """Return |p - u|_1 = 2 (N - m)/N of each threshold m."""
    return 2.0 * (num_clients - thresholds) / num_clients


def threshold_scores(
    costs: OrderedCosts, thresholds: IntArray, terms: Terms
) -> tuple[FloatArray, FloatArray]:
    """Return the least objective of each threshold if there were no cap.

    Args:
        costs: The virtual costs.
        thresholds: m, numbers of clients selected, shape (thresholds,).
        terms: The server's terms; the cap is not looked at.

    Returns:
        The objective and the unit budget B/S, which `threshold_budget` turns into budgets, each of
        shape (rows, thresholds).
    """
    n = costs.num_clients
    first = np.cbrt(costs.cheapest()) ** 2
    rest = np.where(thresholds > 1, costs.power_sum(thresholds) - first, 0.0)
    top = np.cbrt(largest_probability(thresholds, n)) ** 2
    power_sum = top * first + np.cbrt(1 / n) ** 2 * rest
    total, objective = uncapped_cost(threshold_distance(thresholds, n), power_sum, terms)
    return objective, total / np.where(power_sum > 0, power_sum, 1.0)


def largest_probability(thresholds: IntArray, num_clients: int) -> FloatArray:
    """Return (N - m + 1)/N, the probability of the cheapest client."""
    return (num_clients - thresholds + 1) / num_clients


def threshold_budget(probability: FloatArray, cost: FloatArray, unit: FloatArray) -> FloatArray:
    """Return p^(2/3) B/(S v^(1/3)), elementwise; infinite for a selected client that costs nothing.

    Args:
        probability: p.
        cost: v.
        unit: B/S, as `threshold_scores` returns it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        budget = np.cbrt(probability**2 / np.where(probability > 0, cost, 1.0)) * unit
    return np.where((probability > 0) & (cost == 0), np.inf, budget)
