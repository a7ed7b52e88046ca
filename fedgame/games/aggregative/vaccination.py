"""The vaccination game of the PML paper (Remark 2 and section 5.1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.games.aggregative.candidates import Candidates, Number, Numbers
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Box, Everywhere, KnownSet, Simplex
from fedgame.games.best_response import FloatArray


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Vaccination:
    """The section [vaccination]: x_i says how likely a player takes each of n vaccines.

    It pays A^T x + delta^T B (1 - x): the risks of the vaccines, and of doing without them, which
    grow with the coverage delta in this model. With a positive definite B, the same for all,
    players imitate each other: the game is anti-monotone and has no equilibrium without a feasible
    set. Over the box, if also B >= 0 and 0 <= A <= (1 - 1/N) B^T 1, all-0 and all-1 are equilibria.

    Attributes:
        dimension: Number of vaccines, n.
        types: Number of types, m; 2 in the paper, healthy and infected.
        a: A, as m numbers (one a type), m n (type by type) or N m n (player by player); empty =
            drawn.
        b: B, as m numbers (one a type: multiples of the identity), m n^2 (type by type, row by row)
            or N m n^2; empty = drawn.
        a_low: Smallest entry of a drawn A.
        a_high: Largest one.
        b_low: Smallest entry of a drawn B.
        b_high: Largest one.
        per_player: Whether every player gets draws of its own; otherwise all have the same types.
        feasible: Where strategies must lie: "none" (anywhere, as in the paper's experiment), "box"
            (each entry from 0 to 1) or "simplex" (entries >= 0 that sum to 1).
    """

    name: ClassVar[str] = "vaccination"

    dimension: int = Field(default=1, ge=1, le=1000)
    types: int = Field(default=2, ge=1, le=1000)
    a: Numbers = ()
    b: Numbers = ()
    a_low: Number = 0.0
    a_high: Number = 1.0
    b_low: Number = 0.0
    b_high: Number = 2.0
    per_player: bool = False
    feasible: Literal["none", "box", "simplex"] = "box"

    def build(self, num_players: int, rng: np.random.Generator) -> QuadraticGame:
        """Return the game.

        Args:
            num_players: N, at least 2.
            rng: Public generator of drawn types.

        Raises:
            ValueError: A list has a length that does not fit, a range is empty, or strategies on
                the simplex have one entry only.
        """
        if self.feasible == "simplex" and self.dimension == 1:
            raise ValueError("dimension = 1: the simplex needs at least 2; take the box")
        candidates = Candidates(num_players, self.types, self.dimension, self.per_player, rng)
        sets: dict[str, KnownSet]
        sets = {"none": Everywhere(), "box": Box(), "simplex": Simplex()}
        return vaccination_game(
            candidates.vectors("a", self.a, self.a_low, self.a_high),
            candidates.matrices("b", self.b, self.b_low, self.b_high),
            sets[self.feasible],
        )


def vaccination_game(a: FloatArray, b: FloatArray, feasible: KnownSet) -> QuadraticGame:
    """Return the game with costs A^T x + delta^T B (1 - x).

    Its gradient is A - B^T delta + (1/N) B (1 - x).

    Args:
        a: A, shape (N, m, n).
        b: B, shape (N, m, n, n).
        feasible: Where strategies must lie.

    Raises:
        ValueError: Shapes disagree, there are fewer than two players, or an entry is not finite.
    """
    return QuadraticGame.of(
        a,
        coupling=-np.swapaxes(b, -1, -2),
        aggregate_linear=b.sum(axis=-1),
        feasible=feasible,
    )
