"""Forms of a selection under a cap, and the least objective of each.

A client at the cap on budgets costs p^2 in its probability, which is convex, where it costs p^(2/3)
below. So Theorem 3 of the JSAM paper, which gives all spare probability to the cheapest client, no
longer holds once the cap binds: j clients at the cap share it equally. With clients in ascending
order of virtual cost, the optimum has the form

    j clients at a common P >= 1/N, perhaps one at a level t in (1/N, P), those up to the m-th at
    1/N, the rest at 0,

where all j are at the cap if j > 1, and the one at t is below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, IntArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.fixed_probabilities import find_multiplier, start_multiplier
from fedgame.games.procurement.ordered import OrderedCosts
from fedgame.games.procurement.thresholds import threshold_distance


@dataclass(frozen=True)
class Profiles:
    """Forms of a selection among N clients, one an element of the arrays' last axis.

    Attributes:
        num_clients: N.
        selected: m, number of clients with positive probability, shape (profiles,).
        group: j, number of clients at the largest probability, shape (rows, profiles); rows may be
            missing or 1 where all rows have the same.
        level: t, probability of client j + 1, same shape; 1/N where it is one of the others.
    """

    num_clients: int
    selected: IntArray
    group: IntArray
    level: FloatArray

    @classmethod
    def plain(cls, num_clients: int, selected: IntArray, group: IntArray) -> Profiles:
        """Return profiles without a client at a level of its own."""
        return cls(num_clients, selected, group, np.full(group.shape, 1 / num_clients))

    def take(self, which: IntArray | BoolArray) -> Profiles:
        """Return some of the profiles, by index or mask."""
        group, level = self.group[..., which], self.level[..., which]
        return Profiles(self.num_clients, self.selected[which], group, level)

    def blocks(self) -> list[tuple[IntArray, IntArray, FloatArray]]:
        """Return (first, end, probability) of the group, of client j + 1 and of the others.

        Client j + 1 is one of the others where no profile has a level of its own.
        """
        base = 1 / self.num_clients
        zero = np.zeros_like(self.group)
        if (self.level == base).all():
            top = base + (self.num_clients - self.selected) * base / self.group
            return [
                (zero, self.group, top),
                (self.group, np.broadcast_to(self.selected, self.group.shape), self.level),
            ]
        after = np.minimum(self.group + 1, self.selected)
        spare = (self.num_clients - self.selected) * base - (self.level - base)
        top = base + spare / self.group
        others = np.full(self.group.shape, base)
        return [
            (zero, self.group, top),
            (self.group, after, self.level),
            (after, self.selected, others),
        ]

    def of_client(self, rank: IntArray) -> tuple[IntArray, FloatArray]:
        """Return the role of the client at a position in each profile, and its probability.

        Args:
            rank: Number of clients before it, shape (rows, 1).

        Returns:
            1 in the group, 2 at a level of its own, 3 with the others, 0 if it is not selected.
        """
        base = 1 / self.num_clients
        apart = (rank == self.group) & (self.level > base)
        role = np.where(apart, 2, np.where(rank < self.selected, 3, 0))
        role = np.where(rank < self.group, 1, role)
        return role, np.choose(role, [0.0, self.blocks()[0][2], self.level, base])

    def probabilities(self) -> FloatArray:
        """Return p of the only profile, clients in ascending order of cost, shape (clients,)."""
        p = np.zeros(self.num_clients)
        for first, end, level in self.blocks():
            p[first.item() : end.item()] = level.item()
        return p


def join(parts: list[Profiles]) -> Profiles:
    """Return all profiles of all parts."""
    return Profiles(
        parts[0].num_clients,
        np.concatenate([part.selected for part in parts]),
        np.concatenate([part.group for part in parts], axis=-1),
        np.concatenate([part.level for part in parts], axis=-1),
    )


@dataclass(frozen=True)
class Scores:
    """What `score` returns; each of shape (rows, profiles).

    Attributes:
        objective: Least value of the server's objective over budgets up to the cap.
        multiplier: lambda, which gives these budgets.
    """

    objective: FloatArray
    multiplier: FloatArray


def score(
    costs: OrderedCosts, profiles: Profiles, terms: Terms, *, group_at_cap: bool = False
) -> Scores:
    """Return the least objective of each profile.

    Args:
        costs: The virtual costs.
        profiles: The profiles.
        terms: The server's terms.
        group_at_cap: Whether budgets of the group are set to the cap, also if less were better.
    """
    shape = np.broadcast_shapes(costs.rank.shape, profiles.level.shape)
    distance = threshold_distance(profiles.selected, profiles.num_clients)
    distance = np.broadcast_to(distance, shape)
    blocks = [
        _Block(first, end, level**2, np.cbrt(level) ** 2, costs.power_sum(end))
        for first, end, level in profiles.blocks()
    ]
    at_cap = terms.q / terms.epsilon_max**2

    def reached(multiplier: FloatArray) -> list[IntArray]:
        """Return the position up to which each block is at the cap."""
        limit = 2 * terms.eta * terms.q * multiplier / terms.epsilon_max**3
        found = [
            np.minimum(np.maximum(costs.count_up_to(limit * block.square), block.first), block.end)
            for block in blocks
        ]
        if group_at_cap:
            found[0] = np.broadcast_to(blocks[0].end, shape)
        return found

    def free_powers(positions: list[IntArray]) -> FloatArray:
        """Return the sum of (v p)^(2/3) over the clients below the cap."""
        total = np.zeros(shape)
        for block, position in zip(blocks, positions, strict=True):
            # exactly 0 where the block is empty, since both sums are then the same
            total += block.power * (block.powers_to_end - costs.power_sum(position))
        return total

    def noise_at(multiplier: FloatArray) -> tuple[FloatArray, FloatArray]:
        positions = reached(multiplier)
        free = np.cbrt(terms.q / (2 * terms.eta * multiplier) ** 2) * free_powers(positions)
        capped = np.zeros(shape)
        for block, position in zip(blocks, positions, strict=True):
            capped += (position - block.first) * block.square
        return at_cap * capped + free, free

    everyone = free_powers(reached(np.zeros(shape)))
    least_noise = at_cap * sum((block.end - block.first) * block.square for block in blocks)
    start = start_multiplier(distance, everyone, np.broadcast_to(least_noise, shape), terms)
    multiplier = find_multiplier(start, distance, noise_at)
    positions = reached(multiplier)
    spent = np.cbrt(2 * terms.eta * terms.q * multiplier) * free_powers(positions)
    for block, position in zip(blocks, positions, strict=True):
        spent += terms.epsilon_max * _difference(costs, block.first, position)
    objective = terms.eta * (distance + 0.5 / multiplier) + spent
    return Scores(objective, multiplier)


def _difference(costs: OrderedCosts, first: IntArray, end: IntArray) -> FloatArray:
    """Return the costs from one position to another; 0, also without a cap, if they are equal."""
    return np.where(end > first, costs.cost_sum(end) - costs.cost_sum(first), 0.0)


@dataclass(frozen=True)
class _Block:
    """Clients of equal probability p, and what does not depend on the multiplier.

    Attributes:
        first: Position of the first one.
        end: Position after the last one.
        square: p^2.
        power: p^(2/3).
        powers_to_end: The sum of v^(2/3) over the clients before `end`.
    """

    first: IntArray
    end: IntArray
    square: FloatArray
    power: FloatArray
    powers_to_end: FloatArray
