"""The two halves of a Picard iteration: values and strengths backward, densities forward.

The closed-form strength is MFPG paper eq. C.4, the backward equation 5.5 and 5.6. The forward one
is 5.4 as appendix C.5 derives it, d_t mu + d_x(mu b) = d_xx(s mu). Section 5.3 prints s outside of
the derivative, where mass is not conserved unless s is constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.hjb_fpk_grid import Grid
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk

POLICY_TOLERANCE: Final = 1e-13


def optimal_strength(settings: HjbFpk, curvature: FloatArray) -> FloatArray:
    """Return the strength that minimises price exp(-theta (s - s0)) + s M over [s_min, s_max].

    It is s0 + ln(theta price/M)/theta, clipped, where M > 0, and s_max where M <= 0.

    Args:
        settings: The settings.
        curvature: M = V_xx - x V_x/sigma0^2, shape (types, points).
    """
    price = settings.prices()[:, None]
    tiny = np.finfo(np.float64).tiny
    logarithm = np.log(settings.theta * price) - np.log(np.maximum(curvature, tiny))
    inner = settings.s0 + logarithm / settings.theta
    return np.where(curvature > 0, np.clip(inner, settings.s_min, settings.s_max), settings.s_max)


def privacy_rate(settings: HjbFpk, strength: FloatArray) -> FloatArray:
    """Return each type's privacy cost per unit of time at strengths of shape (types, ...)."""
    price = settings.prices().reshape(-1, *[1] * (strength.ndim - 1))
    return np.asarray(price * np.exp(-settings.theta * (strength - settings.s0)))


@dataclass(frozen=True)
class Policy:
    """Values and strengths against a given path of mean states.

    Attributes:
        value: V, shape (types, steps + 1, points).
        strength: s*, same shape; index n holds from t_n to t_(n+1), and the last is what V(T) = 0
            asks for, s_max.
        residual: What the worst state of the worst step could still gain by another strength, per
            unit of time, over 1 + its Hamiltonian's size.
    """

    value: FloatArray
    strength: FloatArray
    residual: float


def backward(
    settings: HjbFpk, grid: Grid, mean_state: FloatArray, guess: FloatArray | None = None
) -> Policy:
    """Solve the backward equation by implicit steps, each with policy (Howard) iterations.

    Args:
        settings: The settings.
        grid: Their grid.
        mean_state: xbar at the times of the grid, shape (steps + 1,).
        guess: Strengths to begin with, shape (types, steps + 1, points); by default the answer to
            the next time's values.
    """
    shape = (len(settings.betas), len(grid.t), len(grid.x))
    value, strength = np.zeros(shape), np.full(shape, settings.s_max)
    worst = 0.0
    for n in range(len(grid.t) - 2, -1, -1):
        later = value[:, n + 1]
        if guess is None:
            start = optimal_strength(settings, grid.per_strength.generator(later))
        else:
            start = guess[:, n]
        value[:, n], strength[:, n], gain = _policy_iterations(
            settings, grid, later, start, float(mean_state[n + 1])
        )
        worst = float(np.maximum(worst, gain))  # unlike max, it keeps a NaN
    return Policy(value, strength, worst)


def _policy_iterations(
    settings: HjbFpk, grid: Grid, later: FloatArray, strength: FloatArray, mean_state: float
) -> tuple[FloatArray, FloatArray, float]:
    """Return the values a step earlier, the strengths that attain them and their residual.

    Values only fall from one iteration to the next, since all rates are >= 0 and each new strength
    minimises the discrete Hamiltonian exactly.
    """
    fixed, _ = grid.fixed_rates(settings, mean_state)
    value, gain = later, np.inf
    for iteration in range(settings.policy_iterations):
        rates = grid.per_strength.times(strength, fixed)
        cost = grid.loss + privacy_rate(settings, strength)
        value = rates.implicit_step(later + grid.dt * cost, grid.dt, forward=False)
        curvature = grid.per_strength.generator(value)
        better = optimal_strength(settings, curvature)
        held = privacy_rate(settings, strength) + strength * curvature
        best = privacy_rate(settings, better) + better * curvature
        gain = float(np.max((held - best) / (1 + np.abs(held))))
        if gain <= POLICY_TOLERANCE or iteration + 1 == settings.policy_iterations:
            break
        strength = better
    return value, strength, gain


def forward(
    settings: HjbFpk, grid: Grid, strength: FloatArray, mean_state: FloatArray
) -> FloatArray:
    """Solve the forward equation: the transpose of the backward one, so mass stays and mu >= 0.

    Args:
        settings: The settings, with the density at time 0.
        grid: Their grid.
        strength: s*, shape (types, steps + 1, points).
        mean_state: xbar, shape (steps + 1,).

    Returns:
        mu, shape (types, steps + 1, points); its sum over points times the width of a cell is 1.

    Raises:
        ValueError: The density at time 0 is not allowed.
    """
    first = settings.density_at(grid.x)
    density = np.empty(strength.shape)
    density[:, 0] = first / (first.sum() * grid.width)
    for n in range(len(grid.t) - 1):
        fixed, _ = grid.fixed_rates(settings, float(mean_state[n + 1]))
        rates = grid.per_strength.times(strength[:, n], fixed)
        density[:, n + 1] = rates.implicit_step(density[:, n], grid.dt, forward=True)
    return density
