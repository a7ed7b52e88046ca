"""The barycentric projection of 1-D particles by entropic optimal transport onto themselves.

The plan of a self-transport is symmetric, P = diag(u) K diag(u) with K = exp(-|x_i - x_j|^2 / reg),
so one potential, known up to a factor, is enough (MFPG paper, Alg. 3). K is a Gaussian kernel,
hence P, scaled to rows that sum to 1, has its eigenvalues in [0, 1], and the averaged update
u <- sqrt(u / (K u)) at least halves the error with each iteration, whatever the particles and
`reg`. A fixed number of iterations is therefore enough, and a client's bits do not depend on who is
projected with it. K has ones on its diagonal, so that nothing is divided by zero.

Small sets are projected together with K in memory, large ones each on its own without it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedgame.mechanisms.sinkhorn_1d import line_projection

FloatArray = NDArray[np.float64]

ITERATIONS = 18
"""Halvings of the error, to below 1e-6 of the particles' standard deviation."""

KERNEL_ENTRIES = 2**20
"""Kernel entries in memory at once."""

MATRIX_ENTRIES = 512
"""Particles of a set up to which K is kept in memory."""

POT_ENTRIES = 4096
"""Particles of a set that POT is asked for: its matrices then take 128 MiB each."""

POT_TOLERANCE = 1e-9
POT_ITERATIONS = 10_000


def barycentric_projection(particles: FloatArray, relative_reg: float) -> FloatArray:
    """Move each particle to the mean of its targets under the entropic self-transport plan.

    For Gaussian particles the result is mean + rho (x - mean) with rho/(1 - rho^2) = 2 v/reg, v
    their variance.

    Args:
        particles: x, shape (n,), or one set a row, shape (sets, n).
        relative_reg: The regulariser over the variance of the set's particles, > 0.

    Returns:
        P x with the rows of P divided by their sums, of the same shape. A set with one particle, of
        equal particles or with a value that is not finite is returned as it is.
    """
    return _standardised(particles, lambda x: _symmetric(x, relative_reg))


def large_projection(particles: FloatArray, relative_reg: float) -> FloatArray:
    """Compute `barycentric_projection` in memory proportional to the number of particles.

    The two agree to 1e-6 of the particles' standard deviation.

    Args:
        particles: As in `barycentric_projection`; sets are projected one after the other.
        relative_reg: Likewise.

    Returns:
        As `barycentric_projection`, with the same sets returned as they are.

    Raises:
        ValueError: A set's plan is less exact than its solver was asked for.
    """
    return _standardised(particles, lambda x: np.stack([_on_line(row, relative_reg) for row in x]))


def pot_projection(particles: FloatArray, relative_reg: float) -> FloatArray:
    """Compute `barycentric_projection` with POT's solver: the reference, many times slower.

    POT alternates two potentials, which for a self-transport can take thousands of iterations.
    """
    return _standardised(particles, lambda x: np.stack([_pot(row, relative_reg) for row in x]))


def _standardised(particles: FloatArray, project: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Project sets that were brought to mean 0 and variance 1, and bring them back."""
    rows = np.array(np.atleast_2d(particles), dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        means = rows.mean(axis=1, keepdims=True)
        deviations = rows.std(axis=1, keepdims=True)
    movable = np.flatnonzero((deviations > 0)[:, 0] & np.isfinite(deviations)[:, 0])
    step = max(KERNEL_ENTRIES // rows.shape[1] ** 2, 1)
    for start in range(0, len(movable), step):
        chunk = movable[start : start + step]
        x = (rows[chunk] - means[chunk]) / deviations[chunk]
        rows[chunk] = means[chunk] + deviations[chunk] * project(x)
    return rows.reshape(np.shape(particles))


def _symmetric(x: FloatArray, reg: float) -> FloatArray:
    """Project standardised sets (sets, n) with one potential each."""
    kernels = x[:, :, None] - x[:, None, :]
    np.square(kernels, out=kernels)
    kernels /= -reg
    np.exp(kernels, out=kernels)
    # The potential's factor, which no update fixes, is divided out in the end.
    u = np.ones((*x.shape, 1))
    sums = np.empty_like(u)
    for _ in range(ITERATIONS):
        np.matmul(kernels, u, out=sums)
        np.divide(u, sums, out=u)
        np.sqrt(u, out=u)
    projected: FloatArray = (kernels @ (u * x[:, :, None]) / (kernels @ u))[:, :, 0]
    return projected


def _on_line(x: FloatArray, reg: float) -> FloatArray:
    """Project one standardised set (n,) without its matrix."""
    found = line_projection(x, reg)
    if not found.converged:
        raise ValueError(
            f"relative_reg = {reg:g}: the plan of {len(x)} particles has a marginal error of "
            f"{found.marginal_error:.1e} still; a larger value is needed"
        )
    return found.particles


def _pot(x: FloatArray, reg: float) -> FloatArray:
    """Project one standardised set (n,) with POT."""
    # Importing POT takes seconds, and only who asks for the reference needs it.
    from ot.bregman import sinkhorn_knopp

    weights = np.full(len(x), 1.0 / len(x))
    plan: FloatArray = sinkhorn_knopp(
        weights,
        weights,
        np.square(x[:, None] - x[None, :]),
        reg,
        numItermax=POT_ITERATIONS,
        stopThr=POT_TOLERANCE,
        warn=False,
    )
    projected: FloatArray = (plan @ x) / plan.sum(axis=1)
    return projected
