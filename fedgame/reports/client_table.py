"""The guarantee table as HTML: one row a client, sortable by its headers, filterable by a box."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from fedgame.reports.guarantees import (
    NO_CLAIM,
    NOT_COVERED,
    GuaranteeRow,
    format_bound,
    format_number,
)
from fedgame.reports.summary import Config

MAX_ROWS = 2_000
"""Of more clients than this the table shows those with the largest guarantees."""


@dataclass(frozen=True)
class Column:
    """One column: its title, the value that it sorts by, that value's format, and a CSS class."""

    title: str
    value: Callable[[GuaranteeRow], float | str | None]
    text: Callable[[GuaranteeRow], str]
    style: str = ""


def client_table(rows: Sequence[GuaranteeRow], config: Config) -> str:
    """Return the table with its filter box.

    Args:
        rows: At least one row.
        config: The resolved configuration; delta and the accountant's name label the columns.
    """
    shown = list(rows)
    basis = f"{_basis(config)}Bounds are rounded up. A click on a header sorts."
    if len(rows) > MAX_ROWS:
        shown = sorted(rows, key=lambda row: row.client.guarantee, reverse=True)[:MAX_ROWS]
        basis += (
            f" Shown are the {MAX_ROWS:,} of {len(rows):,} clients with the largest guaranteed ε; "
            "clients.csv has all."
        )
    columns = _columns(shown, config)
    head = "".join(
        f'<th scope="col" class="{column.style}"><button type="button">'
        f"{_unbroken(column.title)}</button></th>"
        for column in columns
    )
    body = "".join(_row(row, columns) for row in shown)
    return (
        f'<p class="basis" id="basis">{escape(basis)}</p>'
        '<div class="filter"><label for="filter">Filter clients</label>'
        '<input id="filter" type="search" autocomplete="off" spellcheck="false">'
        f'<output id="shown" for="filter">{len(shown):,} of {len(shown):,} shown</output></div>'
        '<div class="scroll" role="region" aria-label="Guarantees of each client" tabindex="0">'
        '<table id="clients" aria-describedby="basis">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: GuaranteeRow, columns: Sequence[Column]) -> str:
    cells = []
    for column in columns:
        style = column.style
        if column.title == "Claim is" and row.verdict == NOT_COVERED:
            style += " flag"
        key = escape(_sort_key(column.value(row)))
        cells.append(f'<td class="{style}" data-sort="{key}">{escape(column.text(row))}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _unbroken(title: str) -> str:
    """Escape a title, and keep the parts of its equation on one line."""
    return escape(title).replace(" = ", "&nbsp;=&nbsp;")


def _sort_key(value: float | str | None) -> str:
    """Return what the page's script sorts by; empty values come last."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return "Infinity" if value == math.inf else str(value)


def _columns(rows: Sequence[GuaranteeRow], config: Config) -> list[Column]:
    columns = [
        Column("Client", lambda row: row.client.id, lambda row: str(row.client.id)),
        _bound("Guaranteed ε", lambda row: row.client.guarantee, "strong"),
        _bound("Realised ε", lambda row: row.client.realised),
        Column(_claim_title(rows), lambda row: row.claimed_value, _claim),
        _bound("Sound δ at ε = 1", lambda row: row.client.sound_delta_at_epsilon_1),
    ]
    if any(row.verdict != NO_CLAIM for row in rows):
        columns.append(Column("Claim is", lambda row: row.verdict, lambda row: row.verdict, "text"))
    if any(row.client.beta is not None for row in rows):
        columns.append(_number("β", lambda row: row.client.beta, digits=3))
    return [
        *columns,
        _number("Strength", lambda row: row.client.strength),
        _number("Noise multiplier", lambda row: row.client.noise_multiplier),
        _number("Examples", lambda row: row.client.num_examples, digits=9),
        *_other_accountants(rows, config),
    ]


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


def _other_accountants(rows: Sequence[GuaranteeRow], config: Config) -> list[Column]:
    names = {name for row in rows for name in row.client.epsilon}
    return [_by_accountant(name) for name in sorted(names - {config.get("accountant.name")})]


def _by_accountant(name: str) -> Column:
    return _bound(f"Realised by {name}", lambda row: row.client.epsilon.get(name))


def _number(title: str, value: Callable[[GuaranteeRow], float | None], digits: int = 4) -> Column:
    return Column(title, value, lambda row: format_number(value(row), digits))


def _bound(title: str, value: Callable[[GuaranteeRow], float | None], style: str = "") -> Column:
    return Column(title, value, lambda row: format_bound(value(row)), style)
