"""The mean-field privacy game: strengths on a grid, coupled by the broadcast mean strength."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import FloatArray, IntArray, best_response
from fedgame.games.privacy.utilities import (
    Coupling,
    effective_strength,
    is_monotone,
    measured_sensitivity,
    quadratic_sensitivity,
    surrogate_sensitivity,
)
from fedgame.ledger.events import Neighbours

GRID_ALLOWED = "must be finite, positive and strictly increasing numbers, such as '0.1, 0.3, 1'"


LARGEST = 1e30
"""No strength or noise multiplier of a sensible run is larger."""


def _parse_grid(value: object) -> tuple[float, ...]:
    """Read a grid from a comma separated string, one number or a sequence; empty stays empty."""
    parts: Sequence[object]
    if isinstance(value, bool):
        raise ValueError(GRID_ALLOWED)
    if isinstance(value, str):
        parts = value.split(",") if value.strip() else ()
    elif isinstance(value, (list, tuple)):
        parts = value
    else:
        parts = (value,)
    try:
        numbers = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        raise ValueError(GRID_ALLOWED) from None
    edges = (0.0, *numbers)
    rising = all(low < high for low, high in zip(edges, numbers, strict=False))
    if not (rising and all(number <= LARGEST for number in numbers)):
        raise ValueError(GRID_ALLOWED)
    return numbers


Grid = Annotated[tuple[float, ...], BeforeValidator(_parse_grid)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class MeanField:
    """The MFPG game (MFPG paper, sections 5 and 6): each client picks a strength from one grid.

    Exactly one grid is in force: `strength_grid` where it is given, else `noise_multiplier_grid`.

    Attributes:
        strength_grid: Entropic strengths; empty = not given.
        noise_multiplier_grid: Noise multipliers, made into strengths at the client with the fewest
            examples: it gets exactly these, and nobody less.
        loss: Loss term of the disutility: "measured" increments of the client's loss over the
            smallest strength, the paper's "surrogate" L/(s + c), or the "quadratic" approximation
            by the trace of the Hessian.
        selection: How a client chooses: by the "exponential" mechanism on its own data, charged; by
            "argmin" on its own data, an unaccounted release (the paper's rule); or from a loss
            curve that the server measures on "public" examples, free of charge.
        selection_epsilon: Charge of one exponential choice after amplification by sampling, > 0.
        choice_sampling_rate: Probability in (0, 1] that an example is in the Poisson batch on which
            a choice is made; the batch is the choice's own, never the gradient's. Sampling
            amplifies for neighbours "example" only.
        choice_every: Rounds from one choice to the next, at least 1.
        schedule: "every-round": choices during training, in round 1 and then each `choice_every`-th
            round; "commit": one choice before training, kept for all of it.
        coupling: Whose noise is in the state that a client minds: "residual" (its own and what the
            others' leaves in the average), "own" (the paper's reading) or "aggregate" (the
            average's).
        privacy: Privacy term: the sound "epsilon" of the planned rounds, the sound "delta" at a
            fixed epsilon, or the paper's claimed delta, "lsi" (eq. 4.3, with the public clipping
            norm for the gradient norm that the paper measures on the client's data).
        cost: Price of one unit of the privacy term in units of loss, > 0; 1 in the paper.
        loss_cap: Bound on one example's loss increment (D) or loss (L_max, "surrogate"), > 0.
        offset: c > 0 of the surrogate. The paper prints no value; 0.1, the smallest strength of its
            grid, keeps L/(s + c) within a factor of two of L/s all over that grid.
        curvature_cap: Bound on the trace of the Hessian of one example's loss (kappa_max), > 0. A
            softmax regression has at most |x|^2 (1 - 1/classes): about 8 on the digits.
    """

    name: ClassVar[str] = "mean-field"

    strength_grid: Grid = ()
    noise_multiplier_grid: Grid = (2.0, 3.0, 4.5, 7.0, 10.0)
    loss: Literal["measured", "surrogate", "quadratic"] = "measured"
    selection: Literal["exponential", "argmin", "public"] = "exponential"
    selection_epsilon: float = Field(default=0.1, ge=1e-9, le=100)
    choice_sampling_rate: float = Field(default=1.0, ge=1e-9, le=1)
    choice_every: int = Field(default=15, ge=1)
    schedule: Literal["every-round", "commit"] = "every-round"
    coupling: Coupling = "residual"
    privacy: Literal["epsilon", "delta", "lsi"] = "epsilon"
    cost: float = Field(default=0.03, ge=1e-12, le=1e12)
    loss_cap: float = Field(default=0.5, ge=1e-12, le=1e12)
    offset: float = Field(default=0.1, ge=1e-12, le=1e12)
    curvature_cap: float = Field(default=10.0, ge=1e-12, le=1e12)

    @field_validator("noise_multiplier_grid")
    @classmethod
    def _one_grid_given(cls, value: Grid, info: ValidationInfo) -> Grid:
        if not value and not info.data.get("strength_grid"):
            raise ValueError(f"{GRID_ALLOWED}; it may be empty only where strength-grid is given")
        return value

    def best_response(self, disutilities: FloatArray) -> IntArray:
        """Return each client's index into the grid, shape (clients,), from U (clients, m).

        Of equals the smallest strength is taken; see `fedgame.games.best_response`.
        """
        return best_response(disutilities)

    def monotone(self, neighbours: Neighbours) -> bool:
        """Return whether exp(-e U/Delta), without the factor 2, is e-DP: `utilities.is_monotone`.

        It is for each of the three loss terms under the add or remove relations.
        """
        return is_monotone(neighbours)

    def sensitivity(
        self,
        neighbours: Neighbours,
        num_examples: int,
        grid: FloatArray,
        tau: float,
        num_clients: int,
        steps: int = 1,
    ) -> float:
        """Return Delta, the sensitivity of this game's loss term on a choice's batch.

        Args:
            neighbours: The relation.
            num_examples: n_k; the public divisor is `choice_sampling_rate` n_k.
            grid: The strengths, shape (m,), increasing.
            tau: Step size.
            num_clients: N.
            steps: Local steps whose noise is in the probed state.
        """
        divisor = self.choice_sampling_rate * num_examples
        if self.loss == "measured":
            return measured_sensitivity(self.loss_cap, divisor, neighbours)
        if self.loss == "surrogate":
            return surrogate_sensitivity(
                self.loss_cap, divisor, float(grid[0]), self.offset, neighbours
            )
        # The mean strength shifts all effective strengths alike; only their spread matters here.
        effective = effective_strength(grid, 0.0, num_clients, self.coupling)
        return quadratic_sensitivity(self.curvature_cap, tau, effective, divisor, neighbours, steps)

    def chooses_in(self, round_: int) -> bool:
        """Return whether clients choose before training in a round, counted from 1."""
        if self.schedule == "commit":
            return round_ == 1
        return (round_ - 1) % self.choice_every == 0

    def initial_mean_strength(self, grid: FloatArray) -> float:
        """Return the s-bar that is broadcast before anyone has chosen: the mean of the grid.

        The paper prints no starting value; this one is public and favours no strength.
        """
        return float(np.mean(grid))
