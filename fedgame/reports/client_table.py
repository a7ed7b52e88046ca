"""The guarantee table as HTML: one row a client, sortable by its headers, filterable by a box."""

from __future__ import annotations

from collections.abc import Sequence

from fedgame.reports.guarantees import NO_CLAIM, NOT_COVERED, GuaranteeRow, format_number
from fedgame.reports.sortable_table import (
    Column,
    bound_column,
    largest,
    number_column,
    sortable_table,
)
from fedgame.reports.summary import MAX_ROWS, Config

__all__ = ["MAX_ROWS", "client_table"]


def client_table(rows: Sequence[GuaranteeRow], config: Config) -> str:
    """Return the table with its filter box.

    Args:
        rows: At least one row.
        config: The resolved configuration; delta and the accountant's name label the columns.
    """
    shown, which = largest(rows, lambda row: row.client.guarantee, "guaranteed ε", "clients.csv")
    basis = f"{_basis(config)}Bounds are rounded up. A click on a header sorts.{which}"
    columns = _columns(shown, config)
    return sortable_table(shown, columns, basis=basis, label="Guarantees of each client")


def _columns(rows: Sequence[GuaranteeRow], config: Config) -> list[Column[GuaranteeRow]]:
    columns = [
        Column("Client", lambda row: row.client.id, lambda row: str(row.client.id)),
        bound_column("Guaranteed ε", lambda row: row.client.guarantee, "strong"),
        bound_column("Realised ε", lambda row: row.client.realised),
        Column(_claim_title(rows), lambda row: row.claimed_value, _claim),
        bound_column("Sound δ at ε = 1", lambda row: row.client.sound_delta_at_epsilon_1),
    ]
    if any(row.verdict != NO_CLAIM for row in rows):
        columns.append(
            Column("Claim is", lambda row: row.verdict, lambda row: row.verdict, "text", _uncovered)
        )
    if any(row.client.beta is not None for row in rows):
        columns.append(number_column("β", lambda row: row.client.beta, digits=3))
    return [
        *columns,
        number_column("Strength", lambda row: row.client.strength),
        number_column("Noise multiplier", lambda row: row.client.noise_multiplier),
        number_column("Examples", lambda row: row.client.num_examples, digits=9),
        *_other_accountants(rows, config),
    ]


def _uncovered(row: GuaranteeRow) -> bool:
    return row.verdict == NOT_COVERED


def _claim(row: GuaranteeRow) -> str:
    return NO_CLAIM if row.claimed_value is None else format_number(row.claimed_value)


def _claim_title(rows: Sequence[GuaranteeRow]) -> str:
    quantities = {row.quantity for row in rows} - {NO_CLAIM}
    return f"Claimed {quantities.pop()}" if len(quantities) == 1 else "Claimed"


def _basis(config: Config) -> str:
    delta, name = config.get("accountant.delta"), config.get("accountant.name")
    if delta is None or name is None:
        return ""
    return f"ε at δ = {format_number(float(delta))}, by {name} unless the header says otherwise. "


def _other_accountants(rows: Sequence[GuaranteeRow], config: Config) -> list[Column[GuaranteeRow]]:
    names = {name for row in rows for name in row.client.epsilon}
    return [_by_accountant(name) for name in sorted(names - {config.get("accountant.name")})]


def _by_accountant(name: str) -> Column[GuaranteeRow]:
    return bound_column(f"Realised by {name}", lambda row: row.client.epsilon.get(name))
