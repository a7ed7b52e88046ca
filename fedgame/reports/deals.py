"""What a server bought from each client beside what the client spent of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fedgame.strategies.base import ClientRecord, ProcurementRecord, PurchaseRecord, RunResult

SPENT_BY: Final = "pld"
"""The accountant that says what was spent: the tightest one, whichever calibrated the noise."""


@dataclass(frozen=True)
class Deal:
    """One client's purchase and its record.

    Attributes:
        client: What the run recorded about the client.
        purchase: What was agreed with it.
    """

    client: ClientRecord
    purchase: PurchaseRecord

    @property
    def spent(self) -> float | None:
        """Epsilon of the realised ledger by PLD; None where that accountant was not asked."""
        return self.client.epsilon.get(SPENT_BY)

    @property
    def overspent(self) -> bool:
        """Whether more was spent than was bought, or nobody knows."""
        if self.spent is None:
            return self.purchase.released > 0
        return not self.spent <= self.purchase.budget


def deals(result: RunResult) -> tuple[Deal, ...]:
    """Return one deal a client, in the order of the result; none where nothing was bought."""
    if result.procurement is None:
        return ()
    pairs = zip(result.clients, result.procurement.purchases, strict=True)
    return tuple(Deal(client, purchase) for client, purchase in pairs)


def participants(procurement: ProcurementRecord) -> int:
    """Return how many clients released at least once."""
    return sum(purchase.released > 0 for purchase in procurement.purchases)


def draws(procurement: ProcurementRecord) -> int:
    """Return how many updates were released in all."""
    return sum(purchase.released for purchase in procurement.purchases)
