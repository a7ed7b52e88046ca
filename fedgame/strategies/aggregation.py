"""Exact weighted sums: fixed-point integers, so that grouping clients changes no bit.

Floating-point sums depend on their order; integer sums do not. The scale is fixed before the run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FRACTION_BITS = 44
VALUE_LIMIT = float(2**18)
"""An update with an entry of this size or more is refused. Weights are at most 1 and sum to 1, so
no sum of accepted updates reaches 2^62, and int64 cannot overflow."""

SUM_LIMIT = 2**62


def acceptable(updates: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each row of (clients, parameters) whether all its entries are finite and small.

    The cast to integers would silently turn NaN, infinity and 1e30 into the smallest integer.
    """
    return np.asarray((np.abs(updates) < VALUE_LIMIT).all(axis=1))


def weighted_sum(updates: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return sum_k weights_k updates_k in units of 2^-44, each term rounded once.

    Args:
        updates: Accepted updates, shape (clients, parameters).
        weights: Public weights in [0, 1] with a sum of at most 1 over the whole population.

    Raises:
        OverflowError: An update was not acceptable.
    """
    if not acceptable(updates).all():
        raise OverflowError(f"an update has an entry that is not below {VALUE_LIMIT:g}")
    terms = np.rint(np.ldexp(updates * weights[:, None], FRACTION_BITS))
    total: NDArray[np.int64] = terms.astype(np.int64).sum(axis=0)
    return total


def to_float(total: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum as float64."""
    return np.ldexp(total.astype(np.float64), -FRACTION_BITS)
