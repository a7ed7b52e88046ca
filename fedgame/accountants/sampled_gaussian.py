"""Rényi divergence of the Poisson-subsampled Gaussian, vectorised over clients and orders.

Mironov, Talwar, Zhang, "Rényi Differential Privacy of the Sampled Gaussian Mechanism", 2019.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from fedgame.errors import AccountingError

FloatArray = NDArray[np.float64]

DEFAULT_ORDERS: tuple[float, ...] = (
    *(1 + x / 10.0 for x in range(1, 100)),
    *(float(x) for x in range(11, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)
"""The orders at which dp-accounting computes, so that its numbers can be compared."""

TAIL = 8.5
"""Standard deviations of a Gaussian that quadrature covers: a share of 2e-17 lies outside."""

LEAST_AMPLIFIED = 0.03
"""Below this noise multiplier sampling is not counted: the bound of the unsampled release holds, no
budget is meaningful there, and quadrature would need memory that grows like 1/z^2."""

ROWS = 32
"""How many (noise multiplier, q) pairs are computed in one array."""


def rdp_sampled_gaussian(
    noise_multiplier: ArrayLike, sampling_rate: ArrayLike, orders: ArrayLike = DEFAULT_ORDERS
) -> FloatArray:
    """Return the RDP of one Poisson-subsampled Gaussian release under add/remove.

    Exact at every order (but for noise multipliers below 0.03, where sampling is not counted):
    integer orders by the binomial sum, fractional ones by the trapezoidal
    rule, which converges exponentially here. (dp-accounting 0.6 adds the absolute values of an
    alternating series at fractional orders: an upper bound, up to twice as large at low orders.)

    Args:
        noise_multiplier: Noise standard deviation over sensitivity, > 0, any shape.
        sampling_rate: q in (0, 1], of a shape that broadcasts with the first.
        orders: Rényi orders, each finite and > 1, shape (orders,).

    Returns:
        RDP in nats, of the broadcast shape with the orders as last axis.

    Raises:
        AccountingError: A number is not finite or out of range.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    z, q = np.broadcast_arrays(
        np.asarray(noise_multiplier, dtype=np.float64), np.asarray(sampling_rate, dtype=np.float64)
    )
    if not np.all((z > 0) & np.isfinite(z)):
        raise AccountingError("noise_multiplier: every value must be finite and > 0")
    if not np.all((q > 0) & (q <= 1)):
        raise AccountingError("sampling_rate: every value must be in (0, 1]")
    if not np.all((alpha > 1) & np.isfinite(alpha)):
        raise AccountingError("orders: every value must be finite and > 1")
    pairs, inverse = np.unique(
        np.stack([z.ravel(), q.ravel()], axis=1), axis=0, return_inverse=True
    )
    return _rdp_of_pairs(pairs, alpha)[inverse.ravel()].reshape(*z.shape, alpha.size)


def _rdp_of_pairs(pairs: FloatArray, alpha: FloatArray) -> FloatArray:
    """RDP of each row (noise multiplier, sampling rate) of `pairs`, which are sorted."""
    result = alpha / (2.0 * pairs[:, :1] ** 2)
    sampled = np.flatnonzero((pairs[:, 1] < 1) & (pairs[:, 0] >= LEAST_AMPLIFIED))
    whole = alpha == np.floor(alpha)
    for start in range(0, sampled.size, ROWS):
        block = sampled[start : start + ROWS]
        z, q = pairs[block, 0], pairs[block, 1]
        if whole.any():
            result[np.ix_(block, whole)] = _integer_orders(z, q, tuple(alpha[whole].tolist()))
        if not whole.all():
            result[np.ix_(block, ~whole)] = _fractional_orders(z, q, alpha[~whole])
    return result


@lru_cache(maxsize=16)
def _binomials(orders: tuple[float, ...]) -> tuple[NDArray[np.int64], ...]:
    """All pairs (order, k) with 2 <= k <= order in one flat list.

    Returns:
        Where each order's part starts, the index of the order, k, and log binomial(order, k).
    """
    sizes = np.asarray(orders, dtype=np.int64) - 1
    starts = np.cumsum(sizes) - sizes
    owner = np.repeat(np.arange(sizes.size), sizes)
    k = np.arange(sizes.sum()) - starts[owner] + 2
    n = sizes[owner] + 1
    return starts, owner, k, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _integer_orders(z: FloatArray, q: FloatArray, orders: tuple[float, ...]) -> FloatArray:
    """Section 3.3 of Mironov et al., with 1 taken out of the sum to keep small values exact.

    E[(1 - q + q L)^a] - 1 is the sum over k >= 2 of the positive terms
    binomial(a, k) q^k (1 - q)^(a - k) (exp(k (k - 1) / 2 z^2) - 1).
    """
    starts, owner, k, log_binomial = _binomials(orders)
    alpha = np.asarray(orders)
    z, q = z[:, None], q[:, None]
    powers = np.arange(2, int(alpha.max()) + 1)
    exponent = powers * (powers - 1) / (2.0 * z**2)
    log_moment = exponent + np.log(-np.expm1(-exponent))
    terms = (powers * (np.log(q) - np.log1p(-q)) + log_moment)[:, k - 2] + log_binomial
    top = np.maximum.reduceat(terms, starts, axis=1)
    total = np.add.reduceat(np.exp(terms - top[:, owner]), starts, axis=1)
    log_excess = top + np.log(total) + alpha * np.log1p(-q)
    return np.asarray(np.logaddexp(0.0, log_excess) / (alpha - 1))


def _fractional_orders(z: FloatArray, q: FloatArray, alpha: FloatArray) -> FloatArray:
    """E[(1+y)^a - 1 - a y], y = q (L - 1), over a standard normal u by the trapezoidal rule.

    E[y] = 0, so that subtracting 1 + a y changes nothing but leaves only positive terms. The step
    is bounded by the normal density and by the nearest singularity, at distance pi z from the axis.
    """
    high = alpha.max() / z + TAIL
    nodes = int(np.ceil(np.max((high + TAIL) / np.minimum(0.7, z / 2)))) + 1
    u = np.linspace(-TAIL, high, nodes).T[:, None, :]
    z, q, a = z[:, None, None], q[:, None, None], alpha[:, None]
    log_ratio = u / z - 0.5 / z**2
    edge = np.log1p(1 / q)  # y = 1: below it 1 + y is exact, above it powers need logarithms
    small = log_ratio < edge
    y = q * np.expm1(np.minimum(log_ratio, edge))
    log1p_y = np.where(small, np.log1p(y), np.logaddexp(np.log1p(-q), np.log(q) + log_ratio))
    log_density = -0.5 * u**2
    density = np.exp(log_density)
    power = a * log1p_y
    top = np.maximum(np.max(power + log_density, axis=2, keepdims=True), 0.0)
    small = np.broadcast_to(small, power.shape)
    near = (np.expm1(power, where=small, out=np.zeros_like(power)) - a * y) * density
    far = np.exp(power + log_density - top, where=~small, out=np.zeros_like(power))
    line = a * np.exp(np.minimum(log1p_y + log_density, 700.0)) - (a - 1) * density
    scale = np.exp(-top)
    width = (high + TAIL)[:, None] / (nodes - 1) / np.sqrt(2 * np.pi)
    excess = np.sum(np.where(small, near * scale, far - line * scale), axis=2) * width
    excess, top = np.maximum(excess, 0.0), top[:, :, 0]
    log_a = np.where(top == 0, np.log1p(excess), top + np.log(excess + scale[:, :, 0]))
    return np.asarray(log_a / (alpha - 1))
