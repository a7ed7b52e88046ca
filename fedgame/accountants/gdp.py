"""Gaussian differential privacy: one number mu, and what it means as (epsilon, delta).

A release is mu-GDP if telling two neighbours apart by it is never easier than telling N(0, 1) from
N(mu, 1) (Dong, Roth, Su, "Gaussian Differential Privacy", 2022). A full-batch Gaussian release has
mu = 1/noise multiplier, exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from fedgame.errors import AccountingError

FloatArray = NDArray[np.float64]

HALVINGS = 70
"""Steps of a bisection: to the last digits of its first interval."""


def gdp_delta(mu: ArrayLike, epsilon: ArrayLike) -> FloatArray:
    """Return the smallest delta at `epsilon`.

    Phi(a) - e^epsilon Phi(a - mu) with a = mu/2 - epsilon/mu.

    Args:
        mu: Finite and >= 0, any shape.
        epsilon: Finite and >= 0, of a shape that broadcasts with the first.

    Returns:
        Delta in [0, 1), of the broadcast shape; 0 where mu is 0.

    Raises:
        AccountingError: A number is out of range.

    >>> round(float(gdp_delta(1.0, 1.0)), 6)
    0.126937
    """
    m, e = np.broadcast_arrays(checked_array("mu", mu), checked_array("epsilon", epsilon))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a = m / 2 - e / m
        delta = ndtr(a) - np.exp(e + log_ndtr(a - m))
    return np.where(m > 0, np.clip(delta, 0.0, 1.0), 0.0)


def gdp_epsilon(mu: ArrayLike, delta: ArrayLike) -> FloatArray:
    """Return the smallest epsilon at `delta`, rounded up: gdp_delta(mu, result) <= delta.

    Infinite where it is too large to be written.

    Args:
        mu: Finite and >= 0, any shape.
        delta: In (0, 1), of a shape that broadcasts with the first.

    Raises:
        AccountingError: A number is out of range.

    >>> round(float(gdp_epsilon(1.0, 1e-5)), 4)
    4.3772
    """
    m, d = np.broadcast_arrays(checked_array("mu", mu), _checked_delta(delta))
    low = np.zeros(m.shape)
    with np.errstate(over="ignore"):
        # Phi(a) alone is below delta here.
        high = m**2 / 2 + m * np.sqrt(-2 * np.log(d))
    overflow = np.isinf(high)
    m, high = np.where(overflow, 0.0, m), np.where(overflow, 0.0, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = gdp_delta(m, middle) <= d
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return np.where(overflow, np.inf, np.where(gdp_delta(m, 0.0) <= d, 0.0, high))


def gdp_mu(epsilon: ArrayLike, delta: ArrayLike) -> FloatArray:
    """Return the largest mu within (epsilon, delta), rounded down: gdp_delta(mu, epsilon) <= delta.

    Args:
        epsilon: Finite and >= 0, any shape.
        delta: In (0, 1), of a shape that broadcasts with the first.

    Raises:
        AccountingError: A number is out of range.

    >>> round(float(gdp_mu(1.0, 1e-5)), 4)
    0.2681
    """
    e, d = np.broadcast_arrays(checked_array("epsilon", epsilon), _checked_delta(delta))
    low = np.zeros(e.shape)
    # a >= 10 here, so that delta is 1 up to rounding.
    high = np.sqrt(2 * e) + 20.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = gdp_delta(middle, e) <= d
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return low


def compose_gdp(mu: ArrayLike) -> FloatArray:
    """Return the mu of releases together, sqrt(sum mu^2), chosen adaptively or not.

    Args:
        mu: The releases' values, >= 0, as last axis; each must be known before the first release.

    Raises:
        AccountingError: A number is out of range.

    >>> float(compose_gdp([3.0, 4.0]))
    5.0
    """
    return np.asarray(np.linalg.norm(np.atleast_1d(checked_array("mu", mu)), axis=-1))


def checked_array(name: str, value: ArrayLike, least: float = 0.0) -> FloatArray:
    """Return the value as an array, after refusing what is not finite or below `least`."""
    array = np.asarray(value, dtype=np.float64)
    if not np.all((array >= least) & np.isfinite(array)):
        raise AccountingError(f"{name}: every value must be finite and >= {least:g}")
    return array


def positive_array(name: str, value: ArrayLike) -> FloatArray:
    """Return the value as an array, after refusing what is not finite or not positive."""
    array = np.asarray(value, dtype=np.float64)
    if not np.all((array > 0) & np.isfinite(array)):
        raise AccountingError(f"{name}: every value must be finite and > 0")
    return array


def _checked_delta(value: ArrayLike) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if not np.all((array > 0) & (array < 1)):
        raise AccountingError("delta: every value must be in (0, 1)")
    return array
