"""JSAM where the cap binds: one client with a probability between 1/N and the largest one.

Below the cap a client's part of the objective is concave in its probability, so that spare
probability is seldom divided; where a client is about to reach the cap it can be.
"""

from __future__ import annotations

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.capped import Bounds
from fedgame.games.procurement.ordered import OrderedCosts
from fedgame.games.procurement.profiles import Profiles, join, score

LEVEL_GRID = 9
"""Points at which the objective is evaluated to find a minimum between them."""

LEVEL_STEPS = 12
"""Steps of the search for it; about 10 reach rounding."""

SAME = 1e-9
"""A level that close, relatively, to the group's probability is that of one more in the group."""


def level_range(selected: IntArray, group: IntArray, num_clients: int) -> tuple[FloatArray, ...]:
    """Return the least and the largest probability t that client j + 1 can have of its own.

    With the multiplier and everybody else's probabilities kept, the second derivative of the
    objective along t is a positive multiple of 1/j - P/(3t): t is at least P j/3, a quarter of
    what the group and the client have together; and below P.
    """
    mass = 1 - (selected - group - 1) / num_clients
    return np.maximum(mass / 4, 1 / num_clients), mass / (group + 1)


def levels(low: OrderedCosts, high: OrderedCosts, bounds: Bounds) -> Profiles:
    """Return the (m, j) at which client j + 1 may have a level of its own, the level being open.

    Since t < P and t >= P j/3, the group has one client or two. The objective is stationary along
    t where t P^3 = (v/c)^2 with c = 2 eta lambda Q/epsilon_max^3; the left side falls in t, so that
    its values at the ends of the range confine v.

    Args:
        low: The virtual costs, one row.
        high: The same, or where one client's cost may vary, with its largest value.
        bounds: Bounds that hold for all of them.
    """
    n = low.num_clients
    found = []
    for size in (1, 2):
        group = np.full_like(bounds.selected, size)
        fits = (size < bounds.selected) & (bounds.selected < n)
        least, largest = level_range(bounds.selected, group, n)
        position = np.minimum(group, n - 1)
        top = (largest * (size + 1) - least) / size
        fits &= bounds.can_reach_cap(low.cost(position)[0], np.sqrt(np.sqrt(least * top**3)))
        fits &= (least < largest) & bounds.can_stay_below(high.cost(position)[0], largest)
        found.append(Profiles.plain(n, bounds.selected[fits], group[fits]))
    return join(found)


class LevelGrid:
    """The objective of profiles from `levels` along t, on a grid.

    Attributes:
        bound: Lower bound on the objective over the whole range of t, shape (rows, profiles), by
            the tangents at the grid's points; it rises with every cost.
        turns: Whether it falls at a point and rises at the next, shape (rows, profiles, parts).
        bounds: Lower bound between these two points, same shape.
    """

    def __init__(self, costs: OrderedCosts, profiles: Profiles, terms: Terms) -> None:
        """Evaluate the objective and its slope."""
        ends = level_range(profiles.selected, profiles.group, profiles.num_clients)
        parts = ends[0][:, None] + (ends[1] - ends[0])[:, None] * np.linspace(0, 1, LEVEL_GRID)
        self.points = np.broadcast_to(parts, (len(costs.rank), *parts.shape))
        self.values, self.slopes = along_levels(costs, profiles, self.points, terms)
        self.turns = (self.slopes[..., :-1] < 0) & (self.slopes[..., 1:] >= 0)
        left, right = self.slopes[..., :-1], self.slopes[..., 1:]
        width = np.diff(self.points, axis=-1)
        drop = self.values[..., :-1] - self.values[..., 1:] + right * width
        below = left * drop / np.where(self.turns, right - left, 1.0)
        self.bounds = self.values[..., :-1] + np.where(self.turns, below, 0.0)
        self.bound = np.minimum(self.bounds.min(axis=-1), self.values[..., -1])


def settle_levels(
    costs: OrderedCosts, profiles: Profiles, terms: Terms, limit: FloatArray
) -> tuple[Profiles, FloatArray]:
    """Choose the level t of each profile, at a local minimum of the objective along t.

    Args:
        costs: The virtual costs.
        profiles: Profiles from `levels`.
        terms: The server's terms.
        limit: Objectives above this are of no interest, shape (rows, 1).

    Returns:
        The profiles, t of shape (rows, profiles), and their objectives; infinite where the
        objective has no minimum inside the range, or one above the limit. At the end where t
        meets the group's probability it is another profile, one of a larger group.
    """
    grid = LevelGrid(costs, profiles, terms)
    good = grid.turns & (grid.bounds <= limit[..., None])
    exists = good.any(axis=-1)
    place = np.argmax(good, axis=-1)[..., None]
    left, right, at_left, at_right = (
        np.take_along_axis(values, place + offset, axis=-1)[..., 0]
        for values in (grid.points, grid.slopes)
        for offset in (0, 1)
    )
    group = np.broadcast_to(profiles.group, exists.shape)
    level, fell = right, np.zeros(exists.shape, dtype=np.bool_)
    for step in range(LEVEL_STEPS if exists.any() else 0):
        rise = np.where(at_right > at_left, at_right - at_left, 1.0)
        level = np.clip(right - at_right * (right - left) / rise, left, right)
        at_level = along_levels(costs, profiles, level[..., None], terms)[1][..., 0]
        falls = at_level < 0
        # regula falsi; an end that stays once more is given half its weight (Illinois)
        weight = np.where((falls == fell) & (step > 0), 0.5, 1.0)
        at_left, at_right = (
            np.where(falls, at_level, weight * at_left),
            np.where(falls, weight * at_right, at_level),
        )
        left, right = np.where(falls, level, left), np.where(falls, right, level)
        fell = falls
    largest = level_range(profiles.selected, profiles.group, profiles.num_clients)[1]
    exists &= level < largest * (1 - SAME)
    settled = Profiles(profiles.num_clients, profiles.selected, group, level)
    if not exists.any():
        return settled, np.full(exists.shape, np.inf)
    return settled, np.where(exists, score(costs, settled, terms).objective, np.inf)


def along_levels(
    costs: OrderedCosts, profiles: Profiles, levels: FloatArray, terms: Terms
) -> tuple[FloatArray, FloatArray]:
    """Return the objective and its derivative along t, where the group is at the cap.

    Args:
        costs: The virtual costs.
        profiles: The profiles.
        levels: t, shape (rows, profiles, values).
        terms: The server's terms.
    """
    flat = levels.reshape(len(levels), -1)
    selected, group = (
        np.repeat(sizes, levels.shape[-1]) for sizes in (profiles.selected, profiles.group)
    )
    at_levels = Profiles(profiles.num_clients, selected, np.broadcast_to(group, flat.shape), flat)
    scores = score(costs, at_levels, terms)
    price = 2 * terms.eta * terms.q * scores.multiplier
    top = at_levels.blocks()[0][2]
    below = np.cbrt(price * costs.cost(group) ** 2 / flat)
    at_cap = price / terms.epsilon_max**2
    slopes = np.maximum(below, at_cap * flat) - at_cap * top
    return scores.objective.reshape(levels.shape), slopes.reshape(levels.shape)
