"""Draws that the synthetic tasks share: features of unit scale and a planted parameter vector."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

TEST_EXAMPLES = 1000
"""Size of a synthetic task's public test set."""


def gaussian_features(rng: np.random.Generator, count: int, dim: int) -> NDArray[np.float64]:
    """Return `count` rows drawn from N(0, I/dim), shape (count, dim).

    A row has squared norm 1 on average whatever `dim` is, so that a clipping norm of 1 means the
    same in every dimension.
    """
    return rng.standard_normal((count, dim)) / sqrt(dim)


def planted_vector(rng: np.random.Generator, dim: int) -> NDArray[np.float64]:
    """Return a vector of norm sqrt(dim) in a uniformly random direction, shape (dim,).

    Its inner product with a row of `gaussian_features` is standard normal.
    """
    direction = rng.standard_normal(dim)
    return direction * (sqrt(dim) / np.linalg.norm(direction))
