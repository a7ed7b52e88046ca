"""No game: every client uses the one strength, or noise multiplier, that the mechanism states."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class NoGame:
    """The cells without an action update (MFPG paper, Table 1: DP-SGD and MFEP); no settings."""

    name: ClassVar[str] = "none"
