"""Integrals of piecewise analytic functions whose pieces are known by labels, not by their ends.

The functions here grow like z^(-1/3) or z^(-1/2) towards z = 0 and may jump where their label
changes. With z = s^6 the growth goes away; jumps are located, and integrals end there.

Since the functions do not increase, an integral lies between the values at both ends, times the
width. Where that leaves no doubt, a change of the label is no jump: labels may alternate where two
forms of a solution are equal but for rounding.
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


def _rules(*orders: int) -> tuple[FloatArray, FloatArray]:
    """Return the nodes of Gauss-Legendre rules on [0, 1] and its ends, and weights of each rule."""
    parts = [(np.array([0.0, 1.0]), np.zeros((len(orders), 2)))]
    for row, order in enumerate(orders):
        nodes, weights = np.polynomial.legendre.leggauss(order)
        every = np.zeros((len(orders), order))
        every[row] = weights / 2
        parts.append(((nodes + 1) / 2, every))
    nodes = np.concatenate([part for part, _ in parts])
    order_of_nodes = np.argsort(nodes)
    return nodes[order_of_nodes], np.hstack([part for _, part in parts])[:, order_of_nodes]


NODES, (ROUGH, FINE) = _rules(8, 15)


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


def integrals(function: Labelled, edges: FloatArray, tolerance: float = 1e-12) -> FloatArray:
    """Return the integral of a non-increasing function >= 0 between each two consecutive edges.

    Args:
        function: The integrand.
        edges: Ascending and at least 0, shape (edges,).
        tolerance: Error accepted in a piece, relative to the sum of all integrals. Two rules agree
            if they differ by ten times that, since the better one is far more accurate.

    Returns:
        Shape (edges - 1,).
    """
    roots = edges ** (1 / EXPONENT)
    every = _Intervals(roots[:-1], roots[1:], np.arange(len(edges) - 1))
    batches: list[tuple[Labelled, _Intervals]] = [(function, every)] if len(edges) > 1 else []
    found, scale = np.zeros(len(edges) - 1), 0.0
    while batches:
        narrow, todo = batches.pop()
        width = todo.right - todo.left
        nodes = todo.left[:, None] + width[:, None] * NODES
        z = np.clip(nodes**EXPONENT, edges[0], edges[-1])
        values, labels = narrow(z.ravel())
        values, labels = values.reshape(z.shape), labels.reshape((*z.shape, labels.shape[-1]))
        parts = values * EXPONENT * nodes ** (EXPONENT - 1)
        rough, fine = width * (parts @ ROUGH), width * (parts @ FINE)
        scale = max(scale, float(found.sum() + fine.sum()))
        jumps = _changes(labels) & (_doubt(z, values) > tolerance * scale)
        smooth = ~jumps.any(axis=1)
        done = smooth & (np.abs(fine - rough) <= 10 * tolerance * scale)
        done |= _doubt(z[:, [0, -1]], values[:, [0, -1]])[:, 0] <= tolerance * scale
        done |= width <= SMALLEST * todo.right
        np.add.at(found, todo.owner[done], fine[done])
        if (smooth & ~done).any():
            batches.append((narrow, todo.take(smooth & ~done).halves()))
        for row in np.flatnonzero(~smooth & ~done):
            split = _split(narrow, nodes[row], jumps[row], tolerance * scale)
            found[todo.owner[row]] += split.at_jumps
            for left, right in split.between:
                part = _Intervals(np.array([left]), np.array([right]), todo.owner[[row]])
                batches.append((narrow.narrowed(left**EXPONENT, right**EXPONENT), part))
    return found


def _doubt(z: FloatArray, values: FloatArray) -> FloatArray:
    """Return by how much the integral between consecutive points may differ from any estimate."""
    return np.asarray(np.diff(z) * -np.diff(values))


def _changes(labels: IntArray) -> BoolArray:
    """Mark between which consecutive points, of the last axis but one, the label changes."""
    return np.asarray((labels[..., 1:, :] != labels[..., :-1, :]).any(axis=-1))


@dataclass(frozen=True)
class _Split:
    """An interval of s without its jumps.

    Attributes:
        at_jumps: The integral over the brackets in which these are.
        between: (left, right) of each part between them on which the function is not 0.
    """

    at_jumps: float
    between: list[tuple[float, float]]


def _split(function: Labelled, nodes: FloatArray, jumps: BoolArray, allowed: float) -> _Split:
    """Split an interval at the jumps that may be between its nodes; see `_locate`."""
    at_jumps, between, left = 0.0, [], float(nodes[0])
    for place in np.flatnonzero(jumps):
        bracket, values = _locate(function, nodes[place : place + 2], allowed)
        at_jumps += float((bracket[1] ** EXPONENT - bracket[0] ** EXPONENT) * values.mean())
        between.append((left, float(bracket[0])))
        left = float(bracket[1])
        if values[1] == 0:
            break
    else:
        between.append((left, float(nodes[-1])))
    return _Split(at_jumps, [(left, right) for left, right in between if left < right])


def _locate(function: Labelled, ends: FloatArray, allowed: float) -> tuple[FloatArray, FloatArray]:
    """Return a bracket around a jump between two values of s, and the values at its ends.

    It is as small as it must be for the jump not to matter, or has no number inside. Of several
    jumps it is the one that matters most.
    """
    while True:
        function = function.narrowed(ends[0] ** EXPONENT, ends[1] ** EXPONENT)
        inner = np.unique(np.linspace(ends[0], ends[1], SECTIONS + 1))
        z = inner**EXPONENT
        values, labels = function(z)
        doubt = _doubt(z, values)
        changes = _changes(labels)
        place = int(np.argmax(np.where(changes, doubt, -1.0) if changes.any() else doubt))
        ends = inner[place : place + 2]
        if doubt[place] <= allowed or len(inner) == 2:
            return ends, values[place : place + 2]
