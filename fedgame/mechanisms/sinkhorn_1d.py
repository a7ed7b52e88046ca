"""Entropic self-transport of any number of 1-D particles, in memory proportional to their number.

Between particles on a line the kernel exp(-|x_i - x_j|^2 / reg) is a Gaussian, so the sums K u are
a Gauss transform and need no n x n matrix. The line is cut into equal boxes, of which only those
with particles are kept. On a box the potential u and its image K u are smooth, so that their values
at p Chebyshev nodes say all. The particles enter through their Chebyshev moments in the box, which
are summed once: an iteration costs the same for a thousand particles and for a million.

The plan P = diag(u) K diag(u) is symmetric, so one potential is enough, and its rows have their
eigenvalues in [0, 1] once they sum to 1. The averaged update u <- u (u K u)^(-2/3) therefore
divides the error by 3 each time, whatever the particles and `reg` (MFPG paper, Alg. 3, whose
alternating updates have no such rate).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BOXES_IN_KERNEL = 3
"""Boxes per sqrt(reg), the length on which the kernel changes."""

REACH = 7.0
"""Kernel values are dropped beyond this many sqrt(reg): exp(-49) = 5e-22."""

LEAST_REG = 1e-15
"""Below this relative regulariser no particle moves by 1e-6 of the standard deviation."""

AVERAGING = 2 / 3
"""Share of the new potential's logarithm: the error's factors 1 - 2/3 (1 + eigenvalue of P) then
lie in [-1/3, 1/3], the smallest such interval."""

MAX_ITERATIONS = 200
MORE_NODES = 4
MAX_NODES = 32


@dataclass(frozen=True)
class LineProjection:
    """Projected particles with the certificate of the plan that moved them.

    Attributes:
        particles: P x with the rows of P divided by their sums, shape (n,), in the order of x.
        iterations: Updates of the potential.
        marginal_error: How far a row of the plan is from its share: the largest |u K u - 1| over
            points between the nodes, where interpolation is at its worst, of each box.
        nodes: p, nodes a box.
        converged: Whether `marginal_error` is at most the accuracy that was asked for.
    """

    particles: FloatArray
    iterations: int
    marginal_error: float
    nodes: int
    converged: bool


def line_projection(
    particles: FloatArray, relative_reg: float, accuracy: float = 1e-9
) -> LineProjection:
    """Move each particle to the mean of its targets under the entropic self-transport plan.

    Squared cost, uniform weights. For Gaussian particles the result is mean + rho (x - mean) with
    rho/(1 - rho^2) = 2 v/reg, v their variance. The number of nodes follows from the accuracy:
    boxes are as wide as the kernel allows whatever `reg` is, and there one more node is worth about
    one more digit. What is reached is measured, and nodes are added until it is enough.

    Args:
        particles: x, shape (n,), n >= 1.
        relative_reg: The regulariser over the variance of the particles, > 0.
        accuracy: Largest marginal error, relative, in [1e-11, 1e-2].

    Returns:
        The projection. One particle, equal particles, and all if `relative_reg` is below 1e-15, are
        returned as they are, without an iteration.

    Raises:
        ValueError: The particles are not a non-empty vector of finite numbers, or another argument
            is out of range.

    >>> line_projection(np.array([-1.0, 1.0]), 4.0).particles.round(6).tolist()
    [-0.462117, 0.462117]
    """
    x = np.asarray(particles, dtype=np.float64)
    _check(x, relative_reg, accuracy)
    scale = float(np.abs(x).max())
    unit = x / scale if scale > 0 else x
    if relative_reg < LEAST_REG or np.ptp(unit) == 0:
        return LineProjection(x.copy(), 0, 0.0, 0, converged=True)
    # Dividing by the largest value first keeps squares and sums from overflow.
    mean, deviation = float(unit.mean()), float(unit.std())
    unit -= mean
    unit /= deviation
    found = _project(unit, relative_reg, accuracy)
    moved = found.particles
    moved *= deviation
    moved += mean
    moved *= scale
    return found


def _check(x: FloatArray, relative_reg: float, accuracy: float) -> None:
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"particles of shape {x.shape}: a vector of at least one is needed")
    if not np.isfinite(x).all():
        raise ValueError("particles: every value must be finite")
    if not 0 < relative_reg < np.inf:
        raise ValueError(f"relative_reg = {relative_reg}: must be finite and > 0")
    if not 1e-11 <= accuracy <= 1e-2:
        raise ValueError(f"accuracy = {accuracy}: must be in [1e-11, 1e-2]")


def _project(x: FloatArray, reg: float, accuracy: float) -> LineProjection:
    """Project standardised particles, with more nodes until the error is small enough."""
    boxes = _Boxes.around(x, reg)
    nodes = int(np.ceil(-np.log10(accuracy))) + 2
    while True:
        transform = _GaussTransform(boxes, nodes)
        u, sums, iterations = _potential(transform, accuracy)
        error = transform.largest_gap(u, sums)
        if error <= accuracy or nodes >= MAX_NODES:
            break
        nodes += MORE_NODES
    image = transform.sums(u * transform.positions) / sums
    return LineProjection(
        transform.at_particles(image), iterations, error, nodes, converged=error <= accuracy
    )


def _potential(transform: _GaussTransform, accuracy: float) -> tuple[FloatArray, FloatArray, int]:
    """Return the potential u at the nodes, K u there, and the number of updates."""
    # The root of 1/(K 1) is the answer already where the density changes slowly.
    u = transform.sums(np.ones_like(transform.positions)) ** -0.5
    sums = transform.sums(u)
    iterations = 0
    # Half of the accuracy is left to the interpolation.
    while np.abs(u * sums - 1).max() > accuracy / 2 and iterations < MAX_ITERATIONS:
        u *= (u * sums) ** -AVERAGING
        sums = transform.sums(u)
        iterations += 1
    return u, sums, iterations


@dataclass(frozen=True)
class _Boxes:
    """Particles on the line, each in one of the equal boxes.

    Attributes:
        reg: Squared length of the kernel.
        width: Width of a box.
        ids: Whole-numbered position of each box that holds a particle, increasing, (boxes,).
        middles: Middle of each of these boxes, (boxes,).
        owner: Each particle's box, as an index into `ids`, (n,).
        inside: Each particle's place in its box, in [-1, 1], (n,).
    """

    reg: float
    width: float
    ids: IntArray
    middles: FloatArray
    owner: IntArray
    inside: FloatArray

    @classmethod
    def around(cls, x: FloatArray, reg: float) -> _Boxes:
        """Lay boxes over standardised particles, one box if the kernel is wider than all."""
        low = float(x.min())
        width = min(np.sqrt(reg) / BOXES_IN_KERNEL, (float(x.max()) - low) * 1.001)
        inside = (x - low) / width
        number = np.floor(inside).astype(np.int64)
        inside -= number
        inside *= 2.0
        inside -= 1.0
        ids, owner = np.unique(number, return_inverse=True)
        return cls(reg, width, ids, low + (ids + 0.5) * width, owner, inside)


class _GaussTransform:
    """Sums K f over the particles, for functions f given at the nodes of each box."""

    def __init__(self, boxes: _Boxes, nodes: int) -> None:
        """Sum the particles of each box into Chebyshev moments.

        Args:
            boxes: Where the particles are.
            nodes: p, Chebyshev nodes a box.
        """
        k = np.arange(nodes)
        angles = np.pi * (2 * k + 1) / (2 * nodes)
        local = np.cos(angles) * boxes.width / 2
        self.boxes = boxes
        self.positions = boxes.middles[:, None] + local
        # Coefficients in the Chebyshev basis are values at the nodes times this.
        self._to_coefficients = np.cos(np.outer(angles, k)) * (2 - (k == 0)) / nodes
        self._moments = _mirrored_moments(boxes, nodes)
        self._near = _near_boxes(boxes, local)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return sum_j exp(-|node - x_j|^2 / reg) f(x_j), shape (boxes, nodes) like `values`."""
        coefficients = values @ self._to_coefficients
        p = coefficients.shape[1]
        # T_a T_b = (T_(a+b) + T_|a-b|)/2 turns a product of two series into moments.
        weights = np.zeros_like(coefficients)
        for a in range(p):
            high = self._moments[:, p - 1 + a : 2 * p - 1 + a]
            low = self._moments[:, p - 1 - a : 2 * p - 1 - a]
            weights += coefficients[:, a, None] * (high + low)
        weights = 0.5 * weights @ self._to_coefficients.T
        total = np.zeros_like(values)
        for left, right, kernel in self._near:
            total[left] += weights[right] @ kernel.T
            if left is not right:
                total[right] += weights[left] @ kernel
        return total

    def largest_gap(self, u: FloatArray, sums: FloatArray) -> float:
        """Return the largest |u K u - 1| over the points half-way between nodes, and the ends."""
        p = u.shape[1]
        between = np.cos(np.outer(np.arange(p + 1) * np.pi / p, np.arange(p)))
        interpolate = self._to_coefficients @ between.T
        return float(np.abs((u @ interpolate) * (sums @ interpolate) - 1).max())

    def at_particles(self, values: FloatArray) -> FloatArray:
        """Interpolate a function given at the nodes, by Clenshaw's recurrence, shape (n,)."""
        coefficients = (values @ self._to_coefficients).T.copy()
        owner, doubled = self.boxes.owner, 2 * self.boxes.inside
        one, two = np.zeros_like(doubled), np.zeros_like(doubled)
        for row in coefficients[:0:-1]:
            two *= -1.0
            two += row[owner]
            two += doubled * one
            one, two = two, one
        return np.asarray(coefficients[0][owner] + self.boxes.inside * one - two)


def _mirrored_moments(boxes: _Boxes, nodes: int) -> FloatArray:
    """Return sum_j T_|m|(x_j) of each box for m from 1 - p to 2 p - 2, (boxes, 3 p - 2)."""
    count = len(boxes.ids)
    moments = np.empty((count, 2 * nodes - 1))
    moments[:, 0] = np.bincount(boxes.owner, minlength=count)
    doubled = 2 * boxes.inside
    last, current = np.ones_like(doubled), boxes.inside.copy()
    for m in range(1, 2 * nodes - 1):
        moments[:, m] = np.bincount(boxes.owner, weights=current, minlength=count)
        last *= -1.0
        last += doubled * current
        last, current = current, last
    return np.concatenate([moments[:, nodes - 1 : 0 : -1], moments], axis=1)


def _near_boxes(boxes: _Boxes, local: FloatArray) -> list[tuple[IntArray, IntArray, FloatArray]]:
    """Pair the boxes within the kernel's reach, by distance.

    Returns:
        For each distance that occurs: the left box of each pair, the right one (the same array at
        distance 0), both as indices, and the kernel from the right box's nodes to the left one's.
    """
    count = len(boxes.ids)
    near = []
    furthest = int(np.ceil(REACH * np.sqrt(boxes.reg) / boxes.width)) + 1
    for distance in range(min(furthest, int(boxes.ids[-1])) + 1):
        right = np.searchsorted(boxes.ids, boxes.ids + distance)
        right[right == count] = 0
        left = np.flatnonzero(boxes.ids[right] == boxes.ids + distance)
        if left.size:
            away = distance * boxes.width + local[None, :] - local[:, None]
            partner = left if distance == 0 else right[left]
            near.append((left, partner, np.exp(-(away**2) / boxes.reg)))
    return near
