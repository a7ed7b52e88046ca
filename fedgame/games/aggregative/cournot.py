"""Cournot competition: firms choose quantities, the price falls with what all of them supply."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.games.aggregative.candidates import LARGEST, Candidates, Number, Numbers
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Box, Everywhere


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Cournot:
    """The section [cournot]: x_i are the quantities of n goods that a firm produces.

    It pays c^T x + sum_j d_j x_j^2/2 - x^T (price - slope delta) (PML paper, Remark 2). The game is
    strongly monotone. The gradient that forgets a firm's own effect on the mean leads to the prices
    of perfect competition instead of the Nash equilibrium.

    Attributes:
        dimension: Number of goods, n.
        types: Number of types, m.
        price: Price of each good when nobody supplies it.
        slope: How much it falls for each unit of the mean supply, > 0.
        cost: c, cost of a unit: m numbers (one a type), m n (type by type) or N m n (player by
            player); empty = drawn.
        curvature: d >= 0, by how much the cost of a unit rises with each unit, listed likewise;
            empty = drawn.
        cost_low: Smallest drawn c.
        cost_high: Largest one.
        curvature_low: Smallest drawn d, >= 0.
        curvature_high: Largest one.
        per_player: Whether every firm gets draws of its own; otherwise all have the same types.
        feasible: Where quantities must lie: "box" (from 0 to the capacity) or "none" (anywhere).
        capacity: The most that a firm can produce of a good, > 0.
    """

    name: ClassVar[str] = "cournot"

    dimension: int = Field(default=1, ge=1, le=1000)
    types: int = Field(default=2, ge=1, le=1000)
    price: Number = 10.0
    slope: float = Field(default=3.0, gt=0, le=LARGEST)
    cost: Numbers = ()
    curvature: Numbers = ()
    cost_low: Number = 0.0
    cost_high: Number = 4.0
    curvature_low: float = Field(default=0.5, ge=0, le=LARGEST)
    curvature_high: Number = 1.5
    per_player: bool = False
    feasible: Literal["none", "box"] = "box"
    capacity: float = Field(default=10.0, gt=0, le=LARGEST)

    def build(self, num_players: int, rng: np.random.Generator) -> QuadraticGame:
        """Return the game.

        Args:
            num_players: N, at least 2.
            rng: Public generator of drawn types.

        Raises:
            ValueError: A list has a length that does not fit or a negative curvature, or a range is
                empty.
        """
        n = self.dimension
        candidates = Candidates(num_players, self.types, n, self.per_player, rng)
        cost = candidates.vectors("cost", self.cost, self.cost_low, self.cost_high)
        bounds = self.curvature_low, self.curvature_high
        curvature = candidates.vectors("curvature", self.curvature, *bounds, least=0.0)
        return QuadraticGame.of(
            cost - self.price,
            curvature=curvature[..., None] * np.eye(n),
            coupling=self.slope * np.eye(n),
            feasible=Box(0.0, self.capacity) if self.feasible == "box" else Everywhere(),
        )
