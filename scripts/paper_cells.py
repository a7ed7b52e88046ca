"""What the tables of docs/mfpg-paper.md are made of: runs, numbers and lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

from fedgame.reports.guarantees import format_bound, format_number

Rows: TypeAlias = Sequence[Mapping[str, str]]


def runs_of(rows: Rows, mode: str, task: str, cell: str) -> Rows:
    """Return the runs of one place."""
    wanted = (mode, task, cell)
    return [row for row in rows if (row["mode"], row["task"], row["cell"]) == wanted]


def numbers(rows: Rows, column: str) -> list[float]:
    """Return the values of a column, without empty ones."""
    return [float(row[column]) for row in rows if row[column]]


def spread(rows: Rows, column: str) -> str:
    """Return a column's mean, with its range where there are several runs; a dash for none."""
    values = numbers(rows, column)
    if not values:
        return "-"
    write = percent if column == "accuracy" else three
    if len(values) == 1:
        return write(values[0])
    return f"{write(fmean(values))} ({span(write(min(values)), write(max(values)))})"


def percent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.1f} %"


def three(value: float) -> str:
    """Return a number in three digits."""
    return format_number(value, 3)


def span(low: str, high: str) -> str:
    """Return a range in words."""
    return low if low == high else f"{low} to {high}"


def extent(rows: Rows, column: str) -> str:
    """Return the range of a column."""
    values = numbers(rows, column)
    return span(three(min(values)), three(max(values)))


def number(text: str) -> str:
    """Return a recorded number in four digits."""
    return format_number(float(text), 4)


def bound(text: str) -> str:
    """Return a recorded upper bound, rounded up."""
    return format_bound(float(text), 3)


def minutes(rows: Rows) -> str:
    """Return how many minutes runs took together."""
    return f"{sum(numbers(rows, 'seconds')) / 60:.1f}"


def header(cells: Sequence[str]) -> list[str]:
    """Return the first two lines of a table."""
    return [line(cells), f"|{'---|' * len(cells)}"]


def line(cells: Iterable[str]) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(cells)} |"
