"""What the tables of README and docs are made of: Markdown lines, percentages and ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, TypeAlias

Rows: TypeAlias = Sequence[Mapping[str, str]]
"""The rows of a result file, by column."""


LIST_SEPARATOR: Final = " "
"""Between the numbers of a list in one column."""


def listed(text: str) -> list[float]:
    """Return the numbers of a list in one column."""
    return [float(part) for part in text.split(LIST_SEPARATOR)]


def line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def header(cells: Sequence[str]) -> list[str]:
    """Return the two lines that a table begins with."""
    return [line(cells), f"|{'---|' * len(cells)}"]


def numbers(rows: Rows, column: str) -> list[float]:
    """Return the numbers of a column, of the rows that have one."""
    return [float(row[column]) for row in rows if row[column]]


def span(low: str, high: str) -> str:
    """Return a range in words, or the one value of both ends."""
    return low if low == high else f"{low} to {high}"


def percent(value: float) -> str:
    """Return a share as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def accuracy(rows: Rows) -> str:
    """Return the mean accuracy of some runs, and their range if there are several."""
    found = numbers(rows, "accuracy")
    ends = span(percent(min(found)), percent(max(found)))
    return percent(fmean(found)) + (f" ({ends})" if len(rows) > 1 else "")
