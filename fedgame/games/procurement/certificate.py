"""Certificates of a choice: first-order conditions, and a brute-force search for few clients."""

from __future__ import annotations

import numpy as np

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Certificate, Choice, Terms
from fedgame.games.procurement.fixed_probabilities import best_budgets

BRUTE_FORCE_CLIENTS = 6
"""Largest number of clients for which a brute-force search is made."""

UNITS_PER_CLIENT = 4
"""The search tries all probabilities that are multiples of 1/(this times N)."""

UNIFORM_TOLERANCE = 1e-9
"""How far, relatively, a probability may be from 1/N and count as equal to it."""


def objective(choice: Choice, costs: FloatArray, terms: Terms) -> FloatArray:
    """Return the server's objective of choices of shape (..., clients) at costs of that shape."""
    p, budgets = choice.probabilities, choice.budgets
    distance = np.abs(p - 1 / p.shape[-1]).sum(axis=-1)
    noise = noise_term(choice, terms)
    spent = (costs * budgets).sum(axis=-1)
    return np.asarray(terms.eta * (distance + np.sqrt(distance**2 + noise)) + spent)


def noise_term(choice: Choice, terms: Terms) -> FloatArray:
    """Return Q sum_k p_k^2/epsilon_k^2 over the clients that can be selected."""
    p = choice.probabilities
    shares = (p / np.where(p > 0, choice.budgets, 1.0)) ** 2
    return np.asarray(terms.q * shares.sum(axis=-1))


def certify(
    choice: Choice, costs: FloatArray, terms: Terms, *, optimises_selection: bool
) -> Certificate:
    """Return the certificate of a choice.

    Args:
        choice: The choice.
        costs: Virtual costs, shape (clients,).
        terms: The server's terms.
        optimises_selection: Whether the probabilities should be optimal, or only the budgets.
    """
    residual = budget_residual(choice, costs, terms)
    if not optimises_selection:
        return Certificate(residual, None)
    residual = max(residual, selection_residual(choice, terms))
    if len(costs) > BRUTE_FORCE_CLIENTS:
        return Certificate(residual, None)
    best = brute_force_objective(costs, terms)
    return Certificate(residual, float(objective(choice, costs, terms)) / best - 1)


def budget_residual(choice: Choice, costs: FloatArray, terms: Terms) -> float:
    """Return by how much, relatively, a budget violates v epsilon^3 = 2 eta lambda Q p^2.

    At the cap, the left side must not be larger than the right one.
    """
    selected = choice.probabilities > 0
    p, budgets, v = (values[selected] for values in (choice.probabilities, choice.budgets, costs))
    _, price = _multipliers(choice, terms)
    with np.errstate(divide="ignore"):
        ratio = price * p**2 / (v * budgets**3)
    violation = np.where(budgets < terms.epsilon_max, np.abs(ratio - 1), np.maximum(1 - ratio, 0))
    return float(violation.max())


def selection_residual(choice: Choice, terms: Terms) -> float:
    """Return by how much the first-order conditions of the probabilities are violated.

    With D_k the derivative of the noise term's part of the objective by p_k and tau that of the
    distance's part by |p_k - 1/N|, some number mu must equal D_k + tau where p_k > 1/N and
    D_k - tau where p_k < 1/N, and lie between the two where p_k = 1/N. (At p_k = 0 the objective,
    budgets chosen best, has an infinite slope.) The residual is the least violation, over mu.
    """
    n = len(choice.probabilities)
    slope, price = _multipliers(choice, terms)
    selected = choice.probabilities > 0
    p, budgets = choice.probabilities[selected], choice.budgets[selected]
    marginal = price * p / budgets**2
    at_least = marginal + np.where(p * n > 1 + UNIFORM_TOLERANCE, slope, -slope)
    at_most = marginal + np.where(p * n < 1 - UNIFORM_TOLERANCE, -slope, slope)
    gap = max(float(at_least.max() - at_most.min()), 0.0)
    return gap / (slope + float(marginal.max()))


def _multipliers(choice: Choice, terms: Terms) -> tuple[float, float]:
    """Return tau and 2 eta lambda Q."""
    p = choice.probabilities
    distance = float(np.abs(p - 1 / len(p)).sum())
    total = float(np.sqrt(distance**2 + noise_term(choice, terms)))
    return terms.eta * (1 + distance / total), terms.eta * terms.q / total


def brute_force_objective(costs: FloatArray, terms: Terms) -> float:
    """Return the least objective over a grid of probabilities, budgets being chosen best.

    Of all orders of the same probabilities the one that falls in the cost is the best: what a
    client adds to the objective has a derivative by its cost, its budget, that rises in p.
    """
    n = len(costs)
    grid = np.array(_descending(n, n * UNITS_PER_CLIENT, n * UNITS_PER_CLIENT))
    p = grid / (n * UNITS_PER_CLIENT)
    rows = np.broadcast_to(np.sort(costs), p.shape)
    return float(objective(Choice(p, best_budgets(p, rows, terms)), rows, terms).min())


def _descending(parts: int, total: int, largest: int) -> list[list[int]]:
    """Return all lists of so many numbers of the given sum, none above the one before it."""
    if parts == 1:
        return [[total]] if total <= largest else []
    return [
        [first, *rest]
        for first in range(min(largest, total), (total - 1) // parts, -1)
        for rest in _descending(parts - 1, total - first, first)
    ]
