"""Integrals of piecewise analytic functions whose pieces are known by labels, not by their ends.

The functions here grow like z^(-1/3) or z^(-1/2) towards z = 0 and jump where their label changes.
With z = s^6 the growth goes away; jumps are located to the last bit, and integrals end there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, IntArray


class Labelled(Protocol):
    """A function of z that is continuous where its label does not change."""

    def __call__(self, z: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return values, shape (nodes,), and labels, shape (nodes, fields)."""

    def narrowed(self, low: float, high: float) -> Labelled:
        """Return the same function for z from `low` to `high` only, faster to evaluate."""


EXPONENT = 6
SECTIONS = 128
"""Parts into which a bracket around a jump is divided in each step of the search."""

SMALLEST = 1e-14
"""Width of an interval, relative to its end, that is not divided further."""


def _rule(order: int) -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2


ROUGH_NODES, ROUGH_WEIGHTS = _rule(8)
FINE_NODES, FINE_WEIGHTS = _rule(15)
NODES = np.concatenate([[0.0, 1.0], ROUGH_NODES, FINE_NODES])
"""The ends, where only the label matters, and the nodes of both rules, in units of an interval."""


@dataclass(frozen=True)
class _Intervals:
    """Intervals of s, each a part of one of the intervals asked for."""

    left: FloatArray
    right: FloatArray
    owner: IntArray

    def take(self, which: BoolArray) -> _Intervals:
        return _Intervals(self.left[which], self.right[which], self.owner[which])

    def halves(self) -> _Intervals:
        middle = (self.left + self.right) / 2
        return _Intervals(
            np.concatenate([self.left, middle]),
            np.concatenate([middle, self.right]),
            np.concatenate([self.owner, self.owner]),
        )


def integrals(function: Labelled, edges: FloatArray, tolerance: float = 1e-11) -> FloatArray:
    """Return the integral of a non-increasing function >= 0 between each two consecutive edges.

    Args:
        function: The integrand.
        edges: Ascending and at least 0, shape (edges,).
        tolerance: Error accepted in a piece, relative to the sum of all integrals, as estimated by
            a rule of half the order, which is far less accurate.

    Returns:
        Shape (edges - 1,).
    """
    roots = edges ** (1 / EXPONENT)
    every = _Intervals(roots[:-1], roots[1:], np.arange(len(edges) - 1))
    batches: list[tuple[Labelled, _Intervals]] = [(function, every)]
    found, scale = np.zeros(len(edges) - 1), 0.0
    while batches:
        narrow, todo = batches.pop()
        width = todo.right - todo.left
        nodes = todo.left[:, None] + width[:, None] * NODES
        values, labels = narrow(np.clip(nodes.ravel() ** EXPONENT, edges[0], edges[-1]))
        values, labels = values.reshape(nodes.shape), labels.reshape((*nodes.shape, -1))
        parts = values * EXPONENT * nodes ** (EXPONENT - 1)
        rough = width * (parts[:, 2 : 2 + len(ROUGH_NODES)] @ ROUGH_WEIGHTS)
        fine = width * (parts[:, 2 + len(ROUGH_NODES) :] @ FINE_WEIGHTS)
        scale = max(scale, float(found.sum() + fine.sum()))
        smooth = (labels == labels[:, :1]).all(axis=(1, 2))
        done = smooth & (np.abs(fine - rough) <= tolerance * scale)
        # a function that does not increase is constant between two equal values, such as 0
        done |= (values[:, 0] == values[:, 1]) | (width <= SMALLEST * todo.right)
        np.add.at(found, todo.owner[done], fine[done])
        if (smooth & ~done).any():
            batches.append((narrow, todo.take(smooth & ~done).halves()))
        for row in np.flatnonzero(~smooth & ~done):
            for left, right in _between_jumps(narrow, nodes[row], labels[row]):
                if values[row, 1] == 0 and narrow(np.array([left**EXPONENT]))[0].item() == 0:
                    break
                part = _Intervals(np.array([left]), np.array([right]), todo.owner[[row]])
                batches.append((narrow.narrowed(left**EXPONENT, right**EXPONENT), part))
    return found


def _between_jumps(
    function: Labelled, nodes: FloatArray, labels: IntArray
) -> list[tuple[float, float]]:
    """Return the parts of an interval between the jumps that lie between its nodes."""
    order = np.argsort(nodes, kind="stable")
    nodes, labels = nodes[order], labels[order]
    ends = [float(nodes[0])]
    for place in np.flatnonzero((labels[1:] != labels[:-1]).any(axis=1)):
        ends += _locate(function, float(nodes[place]), float(nodes[place + 1]), labels[place])
    ends.append(float(nodes[-1]))
    return list(zip(ends[::2], ends[1::2], strict=True))


def _locate(function: Labelled, left: float, right: float, label: IntArray) -> tuple[float, float]:
    """Return the last s with the label of the left end, and the next number, which has another.

    Args:
        function: The function of z = s^6.
        left: Left end of a bracket.
        right: Its right end, with another label.
        label: The label at the left end, shape (fields,).
    """
    steps = np.linspace(0, 1, SECTIONS + 1)
    while right > np.nextafter(left, np.inf):
        function = function.narrowed(left**EXPONENT, right**EXPONENT)
        inner = np.unique(np.append(left + (right - left) * steps, right))
        other = (function(inner**EXPONENT)[1] != label).any(axis=1)
        other[0], other[-1] = False, True
        first = int(np.argmax(other))
        left, right = float(inner[first - 1]), float(inner[first])
    return left, right
