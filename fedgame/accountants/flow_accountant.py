"""What a run in the data reading costs: its burn-in, and its labels where they are released.

Everything else that the client sends is post-processing of these (see `flow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass
from scipy.special import log_expit, ndtri_exp

from fedgame.accountants.flow import BurnIn
from fedgame.accountants.gdp import checked_array, compose_gdp, gdp_delta, gdp_epsilon
from fedgame.accountants.rdp import check_delta, check_epsilon, composable
from fedgame.errors import AccountingError
from fedgame.ledger.events import ChargedEvent, PrivacyEvent, PureDPChoice, SampledGaussian


def pure_dp_mu(epsilon: ArrayLike) -> NDArray[np.float64]:
    """Return the smallest mu for which every epsilon-DP release is mu-GDP.

    The trade-off curve of epsilon-DP has its corner at (p, p), p = 1/(1 + e^epsilon). The curve of
    mu-GDP is convex and passes through it for mu = -2 Phi^-1(p), so that it lies below (Dong, Roth,
    Su, "Gaussian Differential Privacy", 2022).

    Args:
        epsilon: Finite and >= 0, any shape.

    Raises:
        AccountingError: A number is out of range.

    >>> round(float(pure_dp_mu(1.0)), 6)
    1.232035
    """
    return np.asarray(-2.0 * ndtri_exp(log_expit(-checked_array("epsilon", epsilon))))


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class FlowAccountant:
    """Gaussian DP of a burn-in and of randomised responses; no other release is understood.

    The conditions of the burn-in are checked by whoever emits its event (`flow.BurnIn`).
    """

    name: ClassVar[str] = "flow"
    sound: ClassVar[bool] = True

    def mu(self, events: Sequence[PrivacyEvent]) -> float:
        """Return the mu of all events together, sqrt(sum mu^2); 0 for no events.

        Raises:
            AccountingError: A release is neither a burn-in nor a choice of pure DP, or the events
                do not compose.
        """
        return float(compose_gdp([0.0, *(_mu(event) for event in composable(events))]))

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        """Return the epsilon at `delta` in (0, 1) of all events together; refuses as `mu` does."""
        check_delta(delta)
        return float(gdp_epsilon(self.mu(events), delta))

    def delta(self, events: Sequence[PrivacyEvent], epsilon: float) -> float:
        """Return the delta at `epsilon` >= 0 of all events together; refuses as `mu` does."""
        check_epsilon(epsilon)
        return float(gdp_delta(self.mu(events), epsilon))


def _mu(event: ChargedEvent) -> float:
    if isinstance(event, PureDPChoice):
        return float(pure_dp_mu(event.epsilon))
    if isinstance(event, SampledGaussian) and event.mechanism == BurnIn.name:
        return float(np.sqrt(event.steps)) / event.noise_multiplier
    raise AccountingError(
        f"flow: a release of {event.mechanism!r} is no burn-in, and no post-processing of one"
    )
