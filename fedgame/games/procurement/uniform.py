"""USBM, the unbiased selection based mechanism (JSAM paper, section VI-B)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import BoolArray
from fedgame.games.procurement.subset import UniformSelection


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Usbm(UniformSelection):
    """Everybody is selected with probability 1/N; only the budgets are chosen."""

    name: ClassVar[str] = "usbm"

    def eligible(self, num_clients: int) -> BoolArray:
        """Mark the clients that can be selected at all: everybody."""
        return np.ones(num_clients, dtype=np.bool_)
