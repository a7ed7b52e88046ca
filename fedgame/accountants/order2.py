"""The accountant of the MFPG paper's Gaussian cells (section 6): RDP at order 2 only.

Valid, but loose: for a Gaussian run it overstates the cost about fourfold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedgame.accountants.rdp import check_delta, check_epsilon, composable, rdp_of_history
from fedgame.ledger.events import PrivacyEvent

ORDER = (2.0,)


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Order2Accountant:
    """RDP at order 2, converted by epsilon = RDP + ln(1/delta) (Mironov 2017, Proposition 3)."""

    name: ClassVar[str] = "order2"
    sound: ClassVar[bool] = True

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        """Return the epsilon at `delta` in (0, 1) of all events together; 0 for no events.

        Raises:
            AccountingError: The events do not compose, or delta is out of range.
        """
        check_delta(delta)
        if not composable(events):
            return 0.0
        return float(rdp_of_history(events, ORDER)[0]) - math.log(delta)

    def delta(self, events: Sequence[PrivacyEvent], epsilon: float) -> float:
        """Return the delta at `epsilon` >= 0 of all events together; 0 for no events.

        Raises:
            AccountingError: The events do not compose, or epsilon is out of range.
        """
        check_epsilon(epsilon)
        if not composable(events):
            return 0.0
        return math.exp(min(0.0, float(rdp_of_history(events, ORDER)[0]) - epsilon))
