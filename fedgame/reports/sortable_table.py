"""A table as HTML, one row a client, sortable by its headers, filterable by a box."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Generic, TypeVar

from fedgame.reports.guarantees import format_bound, format_number
from fedgame.reports.summary import MAX_ROWS

__all__ = ["MAX_ROWS", "Column", "bound_column", "largest", "number_column", "sortable_table"]

Row = TypeVar("Row")
Value = float | str | None


def nowhere(_: object) -> bool:
    """Flag no cell."""
    return False


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column.

    Attributes:
        title: Its header.
        value: What it sorts by; an empty value comes last.
        text: What it shows.
        style: CSS classes; "text" sorts as text.
        flagged: Which cells stand out, none by default.
    """

    title: str
    value: Callable[[Row], Value]
    text: Callable[[Row], str]
    style: str = ""
    flagged: Callable[[Row], bool] = nowhere


def number_column(title: str, value: Callable[[Row], float | None], digits: int = 4) -> Column[Row]:
    """Return a column of numbers to so many significant digits."""
    return Column(title, value, lambda row: format_number(value(row), digits))


def bound_column(
    title: str,
    value: Callable[[Row], float | None],
    style: str = "",
    flagged: Callable[[Row], bool] = nowhere,
) -> Column[Row]:
    """Return a column of upper bounds, rounded up."""
    return Column(title, value, lambda row: format_bound(value(row)), style, flagged)


def sortable_table(
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    *,
    basis: str,
    label: str,
    noun: str = "client",
) -> str:
    """Return the table with its filter box; the page's script has room for one table.

    Args:
        rows: At least one row.
        columns: The columns.
        basis: What a reader must know about the columns, plain text.
        label: What the table is, for screen readers.
        noun: What a row is.
    """
    head = "".join(
        f'<th scope="col" class="{column.style}"><button type="button">'
        f"{_unbroken(column.title)}</button></th>"
        for column in columns
    )
    body = "".join(_row(row, columns) for row in rows)
    return (
        f'<p class="basis" id="basis">{escape(basis)}</p>'
        f'<div class="filter"><label for="filter">Filter {noun}s</label>'
        '<input id="filter" type="search" autocomplete="off" spellcheck="false">'
        f'<output id="shown" for="filter">{len(rows):,} of {len(rows):,} shown</output></div>'
        f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">'
        '<table id="clients" aria-describedby="basis">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def largest(
    rows: Sequence[Row],
    value: Callable[[Row], float],
    what: str,
    file: str,
    noun: str = "client",
) -> tuple[list[Row], str]:
    """Return the rows to show, and a sentence that says which, empty if they are all.

    Args:
        rows: All rows.
        value: By which the largest are kept, if there are more than `MAX_ROWS`.
        what: Its name.
        file: Where all of them are.
        noun: What a row is.
    """
    if len(rows) <= MAX_ROWS:
        return list(rows), ""
    kept = sorted(rows, key=value, reverse=True)[:MAX_ROWS]
    return kept, (
        f" Shown are the {MAX_ROWS:,} of {len(rows):,} {noun}s with the largest {what}; "
        f"{file} has all."
    )


def _row(row: Row, columns: Sequence[Column[Row]]) -> str:
    cells = []
    for column in columns:
        style = column.style + (" flag" if column.flagged(row) else "")
        key = escape(_sort_key(column.value(row)))
        cells.append(f'<td class="{style}" data-sort="{key}">{escape(column.text(row))}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _unbroken(title: str) -> str:
    """Escape a title, and keep the parts of its equation on one line."""
    return escape(title).replace(" = ", "&nbsp;=&nbsp;")


def _sort_key(value: Value) -> str:
    """Return what the page's script sorts by; empty values come last."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return "Infinity" if value == math.inf else str(value)
