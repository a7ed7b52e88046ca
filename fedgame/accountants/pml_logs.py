"""Sums of probabilities that are kept as logarithms, and the array types of the PML modules."""

from __future__ import annotations

from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

SHORT = 16
"""Up to this length an axis is reduced slice by slice, several times as fast as by NumPy's own."""


def largest(values: FloatArray, axis: int) -> FloatArray:
    """Return the maximum along an axis, of types or components, as `values.max(axis)`."""
    if values.shape[axis] > SHORT:
        return np.asarray(values.max(axis=axis))
    return np.asarray(reduce(np.maximum, np.moveaxis(values, axis, 0)))


def log_sum(values: FloatArray, axis: int) -> FloatArray:
    """Return the logarithm of the sum of exponentials along an axis; -inf where all are -inf."""
    top = largest(values, axis)
    top = np.where(np.isneginf(top), 0.0, top)
    terms = np.exp(values - np.expand_dims(top, axis))
    short = terms.shape[axis] <= SHORT
    total = reduce(np.add, np.moveaxis(terms, axis, 0)) if short else terms.sum(axis=axis)
    return np.asarray(log_of(total) + top)


def log_of(probabilities: FloatArray) -> FloatArray:
    """Return logarithms, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probabilities))
