"""The priors that an experiment can name: what everybody knows about the players' types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Protocol

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior, table_prior
from fedgame.games.aggregative.candidates import Numbers

_SECTION = ConfigDict(extra="forbid", allow_inf_nan=False)


class PriorSection(Protocol):
    """A section of the configuration that describes a prior; a frozen dataclass."""

    name: ClassVar[str]

    def build(self, num_players: int, num_types: int) -> Prior:
        """Return the prior.

        Raises:
            ValueError: The section does not describe one of so many players and types.
        """


@dataclass(frozen=True, config=_SECTION)
class ProductPrior:
    """The section [product-prior]: independent types.

    Attributes:
        probabilities: m numbers (the same for all players) or N m (player by player), each player's
            sum to 1; empty = all types alike.
    """

    name: ClassVar[str] = "product-prior"

    probabilities: Numbers = ()

    def build(self, num_players: int, num_types: int) -> Prior:
        """Return the prior; see `PriorSection`."""
        if not self.probabilities:
            return product_prior(np.full((num_players, num_types), 1 / num_types))
        rows = _rows("probabilities", self.probabilities, 1, num_players, num_types)
        return _named("probabilities", lambda: product_prior(rows[0]))


@dataclass(frozen=True, config=_SECTION)
class CorrelatedPrior:
    """The section [correlated-prior]: everybody tends to be like player 0 (PML paper, eq. 8).

    Attributes:
        alpha: Probability of type 0 for player 0.
        beta: Probability that all others have player 0's type; else one of the other profiles.
    """

    name: ClassVar[str] = "correlated-prior"

    alpha: float = Field(default=0.3, gt=0, lt=1)
    beta: float = Field(default=0.5, gt=0, lt=1)

    def build(self, num_players: int, num_types: int) -> Prior:
        """Return the prior; see `PriorSection`."""
        if num_types != 2:
            raise ValueError(f"the game has {num_types} types: this prior is for 2")
        return correlated_prior(num_players, self.alpha, self.beta)


@dataclass(frozen=True, config=_SECTION)
class MixturePrior:
    """The section [mixture-prior]: one of several states of the world, types independent in each.

    Attributes:
        weights: Probability of each of c states; they sum to 1.
        probabilities: c m numbers (state by state, the same for all players) or c N m (state by
            state, player by player).
    """

    name: ClassVar[str] = "mixture-prior"

    weights: Numbers = (1.0,)
    probabilities: Numbers = (0.5, 0.5)

    def build(self, num_players: int, num_types: int) -> Prior:
        """Return the prior; see `PriorSection`."""
        states = len(self.weights)
        rows = _rows("probabilities", self.probabilities, states, num_players, num_types)
        return _named("probabilities", lambda: Prior(np.array(self.weights), rows))


@dataclass(frozen=True, config=_SECTION)
class TablePrior:
    """The section [table-prior]: the probability of every profile, for few players.

    Attributes:
        probabilities: m^N numbers that sum to 1; the last player's type changes first.
    """

    name: ClassVar[str] = "table-prior"

    probabilities: Numbers = ()

    def build(self, num_players: int, num_types: int) -> Prior:
        """Return the prior; see `PriorSection`."""
        # compared as logarithms: the power may be too large to write out
        wanted = num_players * math.log(num_types)
        found = len(self.probabilities)
        if not found or abs(math.log(found) - wanted) > 1e-9:
            raise ValueError(
                f"probabilities has {found} numbers: must have {num_types}^{num_players}, one for "
                "every profile"
            )
        shape = (num_types,) * num_players
        table = np.array(self.probabilities).reshape(shape)
        return _named("probabilities", lambda: table_prior(table))


def _named(field: str, build: Callable[[], Prior]) -> Prior:
    """Return what a function builds; name the field first where it refuses, if it does not."""
    try:
        return build()
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith("weights") else f"{field}: {text}") from None


def _rows(
    name: str, numbers: tuple[float, ...], states: int, num_players: int, num_types: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return listed numbers in the shape (states, N, m)."""
    per_state = states * num_types
    if not states:
        raise ValueError("weights has 0 numbers: must have one for each state")
    if len(numbers) not in {per_state, per_state * num_players}:
        raise ValueError(
            f"{name} has {len(numbers)} numbers: must have {per_state} or "
            f"{per_state * num_players} for {num_players} players and {num_types} types"
        )
    rows = np.reshape(numbers, (states, -1, num_types))
    return np.broadcast_to(rows, (states, num_players, num_types))
