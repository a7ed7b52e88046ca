"""The tables of a run as rows, and rows as CSV; numbers are written to their last digit."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import fields

import numpy as np

from fedgame.reports.deals import deals
from fedgame.reports.summary import strength_rounds
from fedgame.strategies.base import ClientRecord, RoundRecord, RunResult

Row = Sequence[object]

METRICS = tuple(field.name for field in fields(RoundRecord))

PURCHASES = (
    "client",
    "report",
    "virtual_cost",
    "probability",
    "bought",
    "spent_pld",
    "payment",
    "scheduled",
    "released",
)


def csv_text(rows: Iterable[Row]) -> str:
    """Return rows as CSV with Unix line ends; None becomes an empty field."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def metrics_row(record: RoundRecord) -> list[object]:
    """Return one round under the header METRICS."""
    return [getattr(record, name) for name in METRICS]


def metrics_rows(result: RunResult) -> Iterable[Row]:
    """Yield a header and one row a recorded round, with the money used where money was paid."""
    if result.procurement is None:
        yield METRICS
        yield from map(metrics_row, result.rounds)
        return
    yield [*METRICS, "money_used"]
    for record, used in zip(result.rounds, result.procurement.used, strict=True):
        yield [*metrics_row(record), used]


def client_rows(clients: Sequence[ClientRecord]) -> Iterable[Row]:
    """Yield a header and one row a client, with one epsilon for each accountant."""
    accountants = sorted({name for client in clients for name in client.epsilon})
    before = ("id", "num_examples", "beta", "strength", "noise_multiplier", "guarantee", "realised")
    after = ("claimed_delta", "sound_delta_at_epsilon_1")
    yield [*before, *(f"epsilon_{name}" for name in accountants), *after]
    for client in clients:
        yield [
            *(getattr(client, name) for name in before),
            *(client.epsilon.get(name) for name in accountants),
            *(getattr(client, name) for name in after),
        ]


def strength_rows(result: RunResult) -> Iterable[Row]:
    """Yield a header and one row a round, with the strength of each client."""
    ids: Sequence[int] = [client.id for client in result.clients]
    if len(ids) != result.strengths.shape[1]:
        ids = range(result.strengths.shape[1])
    yield ["round", *(f"client_{client}" for client in ids)]
    for number, row in zip(strength_rounds(result), result.strengths.tolist(), strict=True):
        yield [number, *(None if np.isnan(value) else value for value in row)]


def purchase_rows(result: RunResult) -> Iterable[Row]:
    """Yield a header and one row a client that reported."""
    yield PURCHASES
    for deal in deals(result):
        purchase = deal.purchase
        yield [
            deal.client.id,
            purchase.report,
            purchase.virtual_cost,
            purchase.probability,
            purchase.budget,
            deal.spent,
            purchase.payment,
            purchase.scheduled,
            purchase.released,
        ]
