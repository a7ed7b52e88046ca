"""The best budgets for given selection probabilities (JSAM paper, Theorem 4), also under a cap.

With l = |p - u|_1 and the noise term G = Q sum_k p_k^2/epsilon_k^2, the first-order condition of
the objective eta (l + sqrt(l^2 + G)) + sum_k v_k epsilon_k is, below the cap,

    epsilon_k^3 = 2 eta lambda Q p_k^2/v_k,    lambda = 1/(2 sqrt(l^2 + G)).

So one number, the multiplier lambda, gives all budgets, and the cap is a minimum. The problem is
convex in the budgets: there is exactly one lambda.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Terms

ROOT_STEPS = 5
MULTIPLIER_STEPS = 100
MULTIPLIER_TOLERANCE = 2e-15

NoiseAt = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""From multipliers to G and to the part of G that is due to clients below the cap."""


def cubic_root(kappa: FloatArray) -> FloatArray:
    """Return the root y in (0, 1] of kappa y^3 + y^2 = 1, elementwise.

    The left side is convex and increasing and the start at or above the root, so that Newton's
    method descends to it; the start is at most 1.33 times the root, and 5 steps reach rounding.

    Args:
        kappa: Non-negative and finite.

    >>> float(cubic_root(np.array([0.0]))[0])
    1.0
    """
    y = 1 / np.cbrt(np.maximum(kappa, 1.0))
    for _ in range(ROOT_STEPS):
        y -= (y * y * (kappa * y + 1) - 1) / (y * (3 * kappa * y + 2))
    return y


def uncapped_cost(
    distance: FloatArray, power_sum: FloatArray, terms: Terms
) -> tuple[FloatArray, FloatArray]:
    """Return the best total cost B of given probabilities without a cap, and the objective.

    With A = Q S^3 the objective eta (l + sqrt(l^2 + A/B^2)) + B has its only stationary point where
    x = B^2 solves l^2 x^3 + A x^2 = eta^2 A^2. Written x = eta sqrt(A) y, the root y lies in (0, 1]
    however small or large A is.

    Args:
        distance: l, elementwise.
        power_sum: S, the sum of (v_k p_k)^(2/3), same shape; where it is 0, B is 0: nobody costs
            anything, and the objective is what it tends to.
        terms: The server's terms.
    """
    scale = terms.eta * np.sqrt(terms.q) * power_sum**1.5
    positive = np.where(scale > 0, scale, 1.0)
    y = cubic_root((terms.eta * distance) ** 2 / positive)
    cost = np.sqrt(scale * y)
    value = terms.eta * distance + np.where(scale > 0, cost + cost / y**2, terms.eta * distance)
    return cost, value


def start_multiplier(
    distance: FloatArray, power_sum: FloatArray, least_noise: FloatArray, terms: Terms
) -> FloatArray:
    """Return a multiplier that is not below the solution: all budgets free, or all at the cap.

    Args:
        distance: l, elementwise.
        power_sum: S, same shape.
        least_noise: G if every selected client were at the cap; 0 without a cap.
        terms: The server's terms.
    """
    cost, _ = uncapped_cost(distance, power_sum, terms)
    with np.errstate(divide="ignore"):
        capped = 0.5 / np.sqrt(distance**2 + least_noise)
        free = cost**3 / (2 * terms.eta * terms.q * power_sum**3) if power_sum.all() else np.inf
    return np.asarray(np.minimum(capped, free))


def find_multiplier(start: FloatArray, distance: FloatArray, noise_at: NoiseAt) -> FloatArray:
    """Solve lambda = 1/(2 sqrt(l^2 + G(lambda))) by Newton's method in log(lambda), elementwise.

    The logarithm of 2 lambda sqrt(l^2 + G) has a slope between 2/3 and 1 everywhere, so that every
    step at least halves the error; between the kinks, where a client meets the cap, convergence is
    quadratic.

    Args:
        start: Where to start.
        distance: l, same shape.
        noise_at: The noise term as a function of lambda.
    """
    multiplier = start
    for _ in range(MULTIPLIER_STEPS):
        noise, free = noise_at(multiplier)
        total = distance**2 + noise
        step = np.log(2 * multiplier * np.sqrt(total)) / (1 - free / (3 * total))
        multiplier = multiplier * np.exp(-step)
        if np.max(np.abs(step), initial=0.0) <= MULTIPLIER_TOLERANCE:
            break
    return multiplier


def budgets_at(
    multiplier: FloatArray, probabilities: FloatArray, costs: FloatArray, terms: Terms
) -> FloatArray:
    """Return min(epsilon_max, (2 eta lambda Q p^2/v)^(1/3)), and 0 where p is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        free = np.cbrt(2 * terms.eta * terms.q * multiplier * probabilities**2 / costs)
    return np.where(probabilities > 0, np.minimum(free, terms.epsilon_max), 0.0)


def best_budgets(probabilities: FloatArray, costs: FloatArray, terms: Terms) -> FloatArray:
    """Return the budgets that minimise the objective at given probabilities.

    Args:
        probabilities: p, shape (..., clients), each row summing to 1.
        costs: Virtual costs, same shape; 0 only under a finite cap.
        terms: The server's terms.

    Returns:
        Budgets, same shape.

    >>> terms = Terms(eta=5.0, q=2.0)
    >>> best_budgets(np.ones(1), np.array([0.6]), terms) * 0.6  # sqrt(eta v) Q^(1/4)
    array([2.05976714])
    """
    p = probabilities
    distance = np.abs(p - 1 / p.shape[-1]).sum(axis=-1)
    power_sum = (np.cbrt(p * costs) ** 2).sum(axis=-1)
    least_noise = terms.q * (p**2).sum(axis=-1) / terms.epsilon_max**2

    def noise_at(multiplier: FloatArray) -> tuple[FloatArray, FloatArray]:
        budgets = budgets_at(multiplier[..., None], p, costs, terms)
        shares = terms.q * (p / np.where(p > 0, budgets, 1.0)) ** 2
        free = np.where(budgets < terms.epsilon_max, shares, 0.0)
        return shares.sum(axis=-1), free.sum(axis=-1)

    start = start_multiplier(distance, power_sum, least_noise, terms)
    multiplier = find_multiplier(start, distance, noise_at)
    return budgets_at(multiplier[..., None], p, costs, terms)
