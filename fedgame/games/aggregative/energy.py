"""Energy pricing: households choose when to draw power, at prices that rise with the mean load."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.games.aggregative.candidates import LARGEST, Candidates, Number, Numbers
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Box, Everywhere


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Energy:
    """The section [energy]: x_i are the loads of a household in n periods.

    It pays sum_j w_j (x_j - d_j)^2 + x^T (price + slope delta): the discomfort of another load than
    its demand d, and the bill (PML paper, Remark 2). The game is strongly monotone if w > 0.

    Attributes:
        dimension: Number of periods, n.
        types: Number of types, m.
        price: Price of a unit when nobody draws power.
        slope: How much it rises for each unit of the mean load, > 0.
        demand: d: m numbers (one a type), m n (type by type) or N m n (player by player); empty =
            drawn.
        weight: w >= 0, listed likewise; empty = drawn.
        demand_low: Smallest drawn d.
        demand_high: Largest one.
        weight_low: Smallest drawn w, >= 0.
        weight_high: Largest one.
        per_player: Whether every household gets draws of its own; otherwise all have the same
            types.
        feasible: Where loads must lie: "box" (from `least` to `most`) or "none" (anywhere).
        least: Smallest load in a period.
        most: Largest one.
    """

    name: ClassVar[str] = "energy"

    dimension: int = Field(default=1, ge=1, le=1000)
    types: int = Field(default=2, ge=1, le=1000)
    price: Number = 1.0
    slope: float = Field(default=0.5, gt=0, le=LARGEST)
    demand: Numbers = ()
    weight: Numbers = ()
    demand_low: Number = 4.0
    demand_high: Number = 8.0
    weight_low: float = Field(default=0.5, ge=0, le=LARGEST)
    weight_high: Number = 1.5
    per_player: bool = False
    feasible: Literal["none", "box"] = "box"
    least: Number = 0.0
    most: Number = 10.0

    def build(self, num_players: int, rng: np.random.Generator) -> QuadraticGame:
        """Return the game.

        Args:
            num_players: N, at least 2.
            rng: Public generator of drawn types.

        Raises:
            ValueError: A list has a length that does not fit or a negative weight, or a range or
                the box is empty.
        """
        if self.least > self.most:
            raise ValueError(f"least = {self.least:g}: must not be above most = {self.most:g}")
        n = self.dimension
        candidates = Candidates(num_players, self.types, n, self.per_player, rng)
        demand = candidates.vectors("demand", self.demand, self.demand_low, self.demand_high)
        bounds = self.weight_low, self.weight_high
        weight = candidates.vectors("weight", self.weight, *bounds, least=0.0)
        return QuadraticGame.of(
            self.price - 2 * weight * demand,
            constant=(weight * demand**2).sum(axis=-1),
            curvature=2 * weight[..., None] * np.eye(n),
            coupling=self.slope * np.eye(n),
            feasible=Box(self.least, self.most) if self.feasible == "box" else Everywhere(),
        )
