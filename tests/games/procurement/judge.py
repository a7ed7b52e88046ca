"""An independent judge of solutions: another algorithm for the budgets, global searches for p."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Choice, Terms

BISECTIONS = 30
"""The objective is stationary in the multiplier: an error of 1e-7 in it leaves none."""


def objective(choice: Choice, costs: FloatArray, terms: Terms) -> float:
    """Return the server's objective as the paper prints it, with Q."""
    p, budgets = choice.probabilities, choice.budgets
    distance = float(np.abs(p - 1 / len(p)).sum())
    selected = p > 0
    noise = terms.q * float(((p[selected] / budgets[selected]) ** 2).sum())
    spent = float(costs @ budgets)
    return terms.eta * (distance + float(np.sqrt(distance**2 + noise))) + spent


def judged(probabilities: FloatArray, costs: FloatArray, terms: Terms) -> FloatArray:
    """Return the least objective of each row of probabilities, by bisection on the multiplier."""
    p = np.atleast_2d(probabilities)
    distance = np.abs(p - 1 / p.shape[1]).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(p > 0, 2 * terms.eta * terms.q * p**2 / costs, 0.0)
    low, high = np.full(len(p), -30.0), np.full(len(p), 30.0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        budgets = np.minimum(terms.epsilon_max, np.cbrt(np.exp(middle)[:, None] * weights))
        noise = terms.q * ((p / np.where(p > 0, budgets, 1.0)) ** 2).sum(axis=1)
        total = np.sqrt(distance**2 + noise)
        small = 2 * np.exp(middle) * total < 1
        low, high = np.where(small, middle, low), np.where(small, high, middle)
    return np.asarray(terms.eta * (distance + total) + (budgets * costs).sum(axis=1))


@cache
def descending_grid(num_clients: int, units: int) -> FloatArray:
    """Return all p with p_1 >= p_2 >= ... in multiples of 1/units."""
    rows: list[list[int]] = [[first] for first in range(units + 1)]
    for _ in range(num_clients - 2):
        rows = [[*row, n] for row in rows for n in range(min(row[-1], units - sum(row)) + 1)]
    full = [[*row, units - sum(row)] for row in rows] if num_clients > 1 else [[units]]
    return np.array([row for row in full if all(a >= b for a, b in pairwise(row))]) / units


def best_of_global_search(costs: FloatArray, terms: Terms, rng: np.random.Generator) -> float:
    """Return the least objective found by a grid, by random points and by descents from these."""
    n = len(costs)
    ordered = np.sort(costs)
    points = [descending_grid(n, {1: 1, 2: 400, 3: 60, 4: 32, 5: 30, 6: 24}[n])]
    points.append(rng.dirichlet(np.full(n, 0.5), size=200))
    points.append(np.eye(n))
    candidates = np.concatenate(points)
    values = judged(candidates, ordered, terms)
    best = float(values.min())
    starts = [np.argmin(values), rng.integers(len(candidates))]
    for start in starts if n > 1 else []:
        best = min(best, _descend(candidates[start], ordered, terms))
    return best


def _descend(start: FloatArray, costs: FloatArray, terms: Terms) -> float:
    """Minimise over p = u + a - b with a, b >= 0, in which the distance is smooth."""
    n = len(costs)
    step = 1e-7

    def values(rows: FloatArray) -> FloatArray:
        p = np.maximum(1 / n + rows[:, :n] - rows[:, n:], 0.0)
        return judged(p / p.sum(axis=1, keepdims=True), costs, terms)

    def value_and_slope(x: FloatArray) -> tuple[float, FloatArray]:
        around = values(np.vstack([x, x + step * np.eye(2 * n)]))
        return float(around[0]), (around[1:] - around[0]) / step

    move = start - 1 / n
    found = minimize(
        value_and_slope,
        np.concatenate([np.maximum(move, 0), np.maximum(-move, 0)]),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * n + [(0, 1 / n)] * n,
        constraints={"type": "eq", "fun": lambda x: x[:n].sum() - x[n:].sum()},
        options={"maxiter": 12},
    )
    return float(values(found.x[None])[0])
