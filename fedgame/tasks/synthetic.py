"""Draws that the synthetic tasks share: features of unit scale and a planted parameter vector."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

TEST_EXAMPLES = 1000
"""Size of a synthetic task's public test set."""

BLOCK_ROWS = 2**17
"""Rows that are drawn at once."""


def planted_features(
    rng: np.random.Generator, count: int, planted: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return `count` rows x drawn from N(0, I/dim), and x.w* of each.

    A row has squared norm 1 on average whatever the dimension is, so that a clipping norm of 1
    means the same in every dimension. Rows are drawn block by block: with their double precision,
    in which the products are taken, they would be most of the memory of a large federation.

    Args:
        rng: The public generator of the rows.
        count: How many.
        planted: w*, shape (dim,).

    Returns:
        Shapes (count, dim) and (count,).
    """
    features = np.empty((count, len(planted)), dtype=np.float32)
    products = np.empty(count)
    for start in range(0, count, BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, count))
        rows = rng.standard_normal((block.stop - start, len(planted))) / sqrt(len(planted))
        features[block], products[block] = rows, rows @ planted
    return features, products


def planted_vector(rng: np.random.Generator, dim: int) -> NDArray[np.float64]:
    """Return a vector of norm sqrt(dim) in a uniformly random direction, shape (dim,).

    Its inner product with a row of `planted_features` is standard normal.
    """
    direction = rng.standard_normal(dim)
    return direction * (sqrt(dim) / np.linalg.norm(direction))
