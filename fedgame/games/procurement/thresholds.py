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


def threshold_distance(thresholds: IntArray, num_clients: int) -> FloatArray:
    """Return |p - u|_1 = 2 (N - m)/N of each threshold m."""
    return 2.0 * (num_clients - thresholds) / num_clients


def threshold_scores(
    costs: OrderedCosts, thresholds: IntArray, terms: Terms
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the least objective of each threshold if there were no cap.

    Args:
        costs: The virtual costs.
        thresholds: m, numbers of clients selected, shape (thresholds,).
        terms: The server's terms; the cap is not looked at.

    Returns:
        Objective, total cost B and the budget of the cheapest client, infinite if it costs
        nothing, each of shape (rows, thresholds).
    """
    n = costs.num_clients
    largest = (n - thresholds + 1) / n
    cheapest = costs.cost(np.zeros(1, dtype=np.int64))
    first = np.cbrt(cheapest) ** 2
    rest = np.where(thresholds > 1, costs.power_sum(thresholds) - first, 0.0)
    power_sum = np.cbrt(largest) ** 2 * first + np.cbrt(1 / n) ** 2 * rest
    total, objective = uncapped_cost(threshold_distance(thresholds, n), power_sum, terms)
    with np.errstate(divide="ignore", invalid="ignore"):
        budget = np.cbrt(largest) ** 2 * total / (power_sum * np.cbrt(cheapest))
    return objective, total, np.where(cheapest > 0, budget, np.inf)
