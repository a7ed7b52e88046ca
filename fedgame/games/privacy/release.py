"""Who sees what: the disutility of a strength when each message, or only their sum, is seen.

If only the sum of all messages is seen, the noise of all clients protects each of them: the
strength behind it is N s-bar, to which a client adds its own. Noise is then a public good for
privacy, and clients ride free on each other's: on a fixed grid, one client's part in the sum
vanishes as N grows, and in the end nobody pays for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.tables import check_grid
from fedgame.games.privacy.utilities import Coupling, disutility, effective_strength

Release: TypeAlias = Literal["local", "aggregate"]
"""Whether every client's message is seen, or only the sum of all."""


def observed_strength(
    grid: FloatArray, mean_strength: float, num_clients: int, release: Release
) -> FloatArray:
    """Return the strength behind the noise of what is seen, in units of one client's message.

    - "local": s, the client's own.
    - "aggregate": s + (N - 1) s-bar, which is N s-bar where all choose alike. Clients have equal
      weights, and none tells anyone its noise.

    Args:
        grid: The client's possible strengths s, shape (m,).
        mean_strength: s-bar, the mean of the others' strengths.
        num_clients: N.
        release: One of the two.
    """
    return grid if release == "local" else grid + (num_clients - 1) * mean_strength


@dataclass(frozen=True)
class StrengthDisutility:
    """U(s; s-bar) = loss(effective strength) + beta privacy(observed strength), for each type.

    Called with s-bar, it returns U, shape (types, m).

    Attributes:
        grid: The strengths, shape (m,), increasing.
        betas: Preference of each type, shape (types,).
        loss: From effective strengths (`effective_strength`), shape (m,), to the loss term, shape
            (m,) or (types, m).
        privacy: From observed strengths (`observed_strength`), shape (m,), to the privacy term,
            for instance `privacy_cost` of the sound epsilon, shape (m,) or (types, m).
        num_clients: N.
        coupling: Whose noise is in the state whose loss a client minds.
        release: Whether each message is seen or only their sum.
    """

    grid: FloatArray
    betas: FloatArray
    loss: Callable[[FloatArray], FloatArray]
    privacy: Callable[[FloatArray], FloatArray]
    num_clients: int
    coupling: Coupling = "residual"
    release: Release = "local"

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", check_grid(self.grid))
        object.__setattr__(self, "betas", np.asarray(self.betas, dtype=np.float64))
        if self.betas.ndim != 1 or not np.isfinite(self.betas).all():
            raise ValueError(f"betas = {self.betas}: must be one row of finite numbers")
        if self.num_clients < 1:
            raise ValueError(f"num_clients = {self.num_clients}: must be at least 1")
        for field, given, allowed in (
            ("coupling", self.coupling, get_args(Coupling)),
            ("release", self.release, get_args(Release)),
        ):
            if given not in allowed:
                raise ValueError(f"{field} = {given!r}: must be one of {', '.join(allowed)}")

    def __call__(self, mean_strength: float) -> FloatArray:
        """Return U against s-bar, shape (types, m)."""
        effective = effective_strength(self.grid, mean_strength, self.num_clients, self.coupling)
        observed = observed_strength(self.grid, mean_strength, self.num_clients, self.release)
        return disutility(self.loss(effective), self.privacy(observed), self.betas)
