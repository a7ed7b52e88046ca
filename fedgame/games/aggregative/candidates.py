"""Parameters of the candidate cost functions: listed in the configuration, or drawn in public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import BeforeValidator, Field

from fedgame.games.best_response import FloatArray

LARGEST = 1e12
"""Numbers of a game, in absolute value: their squares and sums have to be numbers too."""

MOST_ENTRIES = 2 * 10**7
"""Most entries of an array over players and types: some of them are in memory at once."""

ALLOWED = f"must be numbers from {-LARGEST:g} to {LARGEST:g} parted by commas, such as '0.5, 1'"


def _parse_numbers(value: object) -> tuple[float, ...]:
    """Read numbers from text, one number or a sequence; empty text is no number."""
    parts: Sequence[object]
    if isinstance(value, bool):
        raise ValueError(ALLOWED)
    if isinstance(value, str):
        parts = value.split(",") if value.strip() else ()
    else:
        parts = value if isinstance(value, list | tuple) else (value,)
    try:
        numbers = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        raise ValueError(ALLOWED) from None
    if not all(abs(number) <= LARGEST for number in numbers):
        raise ValueError(ALLOWED)
    return numbers


Numbers = Annotated[tuple[float, ...], BeforeValidator(_parse_numbers)]

Number: TypeAlias = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]


@dataclass(frozen=True)
class Candidates:
    """Where a game gets the parameters of its N m cost functions from.

    Attributes:
        num_players: N.
        num_types: m.
        dimension: n.
        per_player: Whether players' candidates are drawn one by one, or one set for all.
        rng: Public generator of what is drawn.
    """

    num_players: int
    num_types: int
    dimension: int
    per_player: bool
    rng: np.random.Generator

    def __post_init__(self) -> None:
        """Check that everything fits into memory."""
        types, dimension = self.num_types, self.dimension
        entries = self.num_players * types * dimension * max(types, dimension)
        if entries > MOST_ENTRIES:
            raise ValueError(
                f"dimension = {dimension}: {self.num_players} players of {types} types in so many "
                f"dimensions make arrays of {entries:.3g} numbers, at most {MOST_ENTRIES:g} are "
                "allowed"
            )

    def vectors(
        self, name: str, listed: Sequence[float], low: float, high: float, least: float = -math.inf
    ) -> FloatArray:
        """Return one vector a player and type, shape (N, m, n).

        Args:
            name: The field that holds the list, for errors.
            listed: m numbers, one a type and the same in all coordinates; m n, type by type; or
                N m n, player by player. None: uniform draws.
            low: Where draws begin; the fields are called `name` with "_low" and "_high".
            high: Where they end.
            least: The smallest number that is allowed.

        Raises:
            ValueError: The list has another length or a smaller number, or `low` is above `high`.
        """
        shape = (self.num_players, self.num_types, self.dimension)
        if listed and min(listed) < least:
            raise ValueError(f"{name} = {min(listed):g}: must be at least {least:g}")
        if not listed:
            return self._drawn(name, low, high, shape)
        if len(listed) == self.num_types:
            return np.broadcast_to(np.array(listed)[:, None], shape)
        return self._listed(name, listed, shape)

    def matrices(self, name: str, listed: Sequence[float], low: float, high: float) -> FloatArray:
        """Return one matrix a player and type, shape (N, m, n, n).

        Args:
            name: The field that holds the list, for errors.
            listed: m numbers, one a type, multiples of the identity; m n^2, type by type and row by
                row; or N m n^2, player by player. None: uniform draws of all entries.
            low: Where draws begin; the fields are called `name` with "_low" and "_high".
            high: Where they end.

        Raises:
            ValueError: The list has another length, or `low` is above `high`.
        """
        n = self.dimension
        shape = (self.num_players, self.num_types, n, n)
        if not listed:
            return self._drawn(name, low, high, shape)
        if len(listed) == self.num_types:
            multiples = np.array(listed)[:, None, None] * np.eye(n)
            return np.broadcast_to(multiples, shape)
        return self._listed(name, listed, shape)

    def _drawn(self, name: str, low: float, high: float, shape: tuple[int, ...]) -> FloatArray:
        if low > high:
            raise ValueError(f"{name}_low = {low:g}: must not be above {name}_high = {high:g}")
        players = self.num_players if self.per_player else 1
        return np.broadcast_to(self.rng.uniform(low, high, (players, *shape[1:])), shape)

    def _listed(self, name: str, listed: Sequence[float], shape: tuple[int, ...]) -> FloatArray:
        types, size = self.num_types, math.prod(shape[2:])
        if len(listed) not in {types * size, self.num_players * types * size}:
            *first, last = sorted({types, types * size, self.num_players * types * size})
            counts = f"{', '.join(map(str, first))} or {last}" if first else str(last)
            raise ValueError(
                f"{name} has {len(listed)} numbers: must have {counts} for {self.num_players} "
                f"players, {types} types and dimension {self.dimension}"
            )
        return np.broadcast_to(np.reshape(listed, (-1, *shape[1:])), shape)
