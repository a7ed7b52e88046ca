"""What the messages of the privacy grid (MFPG) carry beyond the common fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flwr.app import RecordDict

from fedgame.errors import InvalidReply
from fedgame.messages.records import BoolArray, FloatArray, read_order
from fedgame.messages.registration import Declaration, read_declaration
from fedgame.messages.training import TrainOrder


@dataclass(frozen=True)
class Registration(Declaration):
    """A declaration with what a privacy game needs.

    Attributes:
        betas: The clients' privacy preferences, shape (c,).
        curvatures: Hessian traces of their own data where a game asks for them (an unaccounted
            release), else zeros, shape (c,).
    """

    betas: FloatArray
    curvatures: FloatArray


@dataclass(frozen=True)
class RoundOrder(TrainOrder):
    """A round's order with the game's state.

    Attributes:
        mean_strength: The broadcast s-bar.
        grid: The strengths to choose from, shape (m,); empty without a grid game.
        choose: Whether clients choose anew in this round.
        public_loss: Loss term at each grid point, measured on public data; empty unless the
            selection is public.
    """

    mean_strength: float
    grid: FloatArray
    choose: bool
    public_loss: FloatArray

    def allows(self, strengths: FloatArray) -> BoolArray:
        """Return which of the strengths that were used may have been, shape (clients,)."""
        return np.isin(strengths, self.grid) if self.choose else super().allows(strengths)

    @property
    def largest_strength(self) -> float:
        """The largest strength that a client may use."""
        return max(super().largest_strength, float(self.grid.max(initial=0.0)))


def unpack_registration(content: RecordDict, num_clients: int) -> Registration:
    """Read and validate a registration.

    Raises:
        InvalidReply: As for `read_declaration`, or a preference is not positive.
    """
    columns = {"betas": "float64", "curvatures": "float64"}
    registration = Registration(**read_declaration(content, num_clients, columns))
    if (registration.betas <= 0).any():
        raise InvalidReply("preferences must be positive")
    return registration


def unpack_round_order(content: RecordDict) -> RoundOrder:
    """Read a round's order."""
    return RoundOrder(**read_order(content))
