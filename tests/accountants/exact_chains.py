"""What the last state of a 1-D chain x <- phi(x) + N(0, sigma^2) reveals, by quadrature."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.stats import beta as beta_distribution
from scipy.stats import norm

Map = Callable[[np.ndarray], np.ndarray]


def last_density(phi: Map, start: float, steps: int, sigma: float, grid: np.ndarray) -> np.ndarray:
    """Density on the grid after so many steps from a known start."""
    width = grid[1] - grid[0]
    density = norm.pdf(grid, phi(np.array([start]))[0], sigma)
    kernel = norm.pdf(grid[:, None], phi(grid)[None, :], sigma) * width
    for _ in range(steps - 1):
        density = kernel @ density
    return np.asarray(density)


def exact_delta(first: np.ndarray, second: np.ndarray, epsilon: float, grid: np.ndarray) -> float:
    """The smallest delta of two densities at epsilon, the worse of both directions."""
    return max(_excess(first, second, epsilon, grid), _excess(second, first, epsilon, grid))


def _excess(first: np.ndarray, second: np.ndarray, epsilon: float, grid: np.ndarray) -> float:
    """The integral of max(0, first - e^epsilon second), cut where the sign changes."""
    difference = CubicSpline(grid, first - np.exp(epsilon) * second)
    inner = difference.roots(discontinuity=False, extrapolate=False)
    cuts = np.concatenate([grid[:1], inner[np.isfinite(inner)], grid[-1:]])
    pieces = [float(difference.integrate(*cut)) for cut in pairwise(cuts)]
    return sum(max(piece, 0.0) for piece in pieces)


def gaussian_mu(shift: np.ndarray, covariance: np.ndarray) -> float:
    """The mu of telling N(0, covariance) from N(shift, covariance): the Mahalanobis distance."""
    return float(np.sqrt(shift @ np.linalg.solve(covariance, shift)))


def attacked_delta(
    scores: tuple[np.ndarray, np.ndarray], threshold: float, epsilon: float, confidence: float
) -> float:
    """A lower bound on delta from a test that says "second" above a threshold fixed beforehand.

    Clopper-Pearson on both error rates, each at half of the risk.
    """
    risk = (1 - confidence) / 2
    false, true = (int(np.sum(score > threshold)) for score in scores)
    runs = len(scores[0])
    largest_false = beta_distribution.ppf(1 - risk, false + 1, runs - false)
    least_true = beta_distribution.ppf(risk, true, runs - true + 1) if true else 0.0
    return float(least_true - np.exp(epsilon) * largest_false)
