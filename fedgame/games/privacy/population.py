"""The population of clients: how much each one says that it cares about its privacy."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import FloatArray


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Population:
    """The section [population]: privacy preferences beta_k, public and declared not to be data.

    Attributes:
        beta_min: Preference of client 0, the least sensitive; > 0.
        beta_max: Preference of the last client, the most sensitive; at least `beta_min`.
        spacing: "geometric" or "linear" steps between the two. The MFPG paper (appendix D) uses
            linear steps from 0.5 to 1.5.
    """

    beta_min: float = Field(default=0.3, ge=1e-9, le=1e9)
    beta_max: float = Field(default=3.0, ge=1e-9, le=1e9)
    spacing: Literal["geometric", "linear"] = "geometric"

    @field_validator("beta_max")
    @classmethod
    def _at_least_beta_min(cls, value: float, info: ValidationInfo) -> float:
        smallest = info.data.get("beta_min")
        if smallest is not None and value < smallest:
            raise ValueError(f"must be at least beta-min = {smallest}")
        return value

    def betas(self, num_clients: int) -> FloatArray:
        """Return each client's preference, shape (num_clients,), non-decreasing.

        A single client gets `beta_min`.

        >>> Population(beta_min=0.5, beta_max=2.0).betas(3).tolist()
        [0.5, 1.0, 2.0]
        """
        space = np.geomspace if self.spacing == "geometric" else np.linspace
        values = space(self.beta_min, self.beta_max, num_clients)
        # Rounding may put an inner point of a narrow range outside it.
        return np.asarray(np.clip(values, self.beta_min, self.beta_max), dtype=np.float64)
