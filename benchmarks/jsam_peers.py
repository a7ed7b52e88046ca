"""Other ways to solve JSAM's problem: the paper's Algorithm 1, and a solver in 2N dimensions."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Choice, Terms

LARGEST_LOG_COST = 20.0


def algorithm_1(costs: FloatArray, terms: Terms, points: int = 11) -> Choice:
    """Search h, p_h on a grid, and the total cost by a convex solver (JSAM paper, Algorithm 1).

    Args:
        costs: Virtual costs, shape (clients,).
        terms: The server's terms, without a cap.
        points: Values of p_h that are tried, evenly from 0 to 1/N.
    """
    n = len(costs)
    order = np.argsort(costs, kind="stable")
    ordered = costs[order]
    best, best_p, best_cost = np.inf, np.ones(n), 0.0
    for h in range(1, n + 1):
        for last in np.linspace(0, 1 / n, points):
            p = np.zeros(n)
            p[: h - 1] = 1 / n
            p[h - 1] = last
            p[0] += 1 - p.sum()
            distance = np.abs(p - 1 / n).sum()
            cubed = terms.q * (np.cbrt(ordered * p) ** 2).sum() ** 3

            def value(log_cost: float, distance: float = distance, cubed: float = cubed) -> float:
                cost = np.exp(log_cost)
                root = np.sqrt(distance**2 + cubed / cost**2)
                return float(terms.eta * (distance + root) + cost)

            bounds = (-LARGEST_LOG_COST, LARGEST_LOG_COST)
            found = minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-8})
            if found.fun < best:
                best, best_p, best_cost = float(found.fun), p, float(np.exp(found.x))
    shares = np.cbrt(ordered * best_p) ** 2
    budgets = np.zeros(n)
    budgets[order] = best_cost * shares / (shares.sum() * ordered)
    probabilities = np.zeros(n)
    probabilities[order] = best_p
    return Choice(probabilities, budgets)


def slsqp(costs: FloatArray, terms: Terms, seed: int = 0, steps: int = 200) -> Choice:
    """Minimise over probabilities and log budgets at once, from a random start.

    Args:
        costs: Virtual costs, shape (clients,).
        terms: The server's terms, without a cap.
        seed: Seed of the start.
        steps: Most iterations.
    """
    n, rng = len(costs), np.random.default_rng(seed)

    def value_and_slope(x: FloatArray) -> tuple[float, FloatArray]:
        p, budgets = x[:n], np.exp(x[n:])
        move = p - 1 / n
        distance = np.abs(move).sum()
        noise = terms.q * (p / budgets) ** 2
        total = np.sqrt(distance**2 + noise.sum())
        value = terms.eta * (distance + total) + costs @ budgets
        by_p = terms.eta * (
            np.sign(move) * (1 + distance / total) + terms.q * p / (budgets**2 * total)
        )
        by_log = costs * budgets - terms.eta * noise / total
        return float(value), np.concatenate([by_p, by_log])

    start = np.concatenate([rng.dirichlet(np.ones(n)), np.zeros(n)])
    found = minimize(
        value_and_slope,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * n + [(-15, 15)] * n,
        constraints={
            "type": "eq",
            "fun": lambda x: x[:n].sum() - 1,
            "jac": lambda _: np.concatenate([np.ones(n), np.zeros(n)]),
        },
        options={"maxiter": steps},
    )
    p = np.maximum(found.x[:n], 0.0)
    return Choice(p / p.sum(), np.where(p > 0, np.exp(found.x[n:]), 0.0))
