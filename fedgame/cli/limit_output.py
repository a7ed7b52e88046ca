"""The mean-field limit as JSON, as a table for the terminal, and as files."""

from __future__ import annotations

from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedgame.cli.progress import number
from fedgame.reports.csv_tables import csv_text
from fedgame.reports.limit_page import rate_words, render_limit
from fedgame.reports.limit_result import LimitRow, SolvedLimit, limit_notes, limit_rows
from fedgame.reports.summary import finite

CSV_NAME, HTML_NAME = "limit.csv", "limit.html"


def as_mapping(solved: SolvedLimit) -> dict[str, Any]:
    """Return everything as JSON's types; what does not exist is None."""
    content: dict[str, Any] = {
        **asdict(solved.rules),
        "mean_strength": solved.mean_strength,
        "method": solved.method,
        "repeats": solved.repeats,
        "converged": solved.converged,
        "rates": {name: rate.exponent for name, rate in solved.rates.items()},
        "rows": [asdict(row) for row in limit_rows(solved)],
        "notes": limit_notes(solved),
    }
    result: dict[str, Any] = finite(content)
    return result


def write_files(solved: SolvedLimit, folder: Path) -> None:
    """Write limit.csv and limit.html to an existing folder.

    Raises:
        OSError: A file cannot be written.
    """
    header = [field.name for field in fields(LimitRow)]
    rows = csv_text([header, *map(astuple, limit_rows(solved))])
    (folder / CSV_NAME).write_text(rows, encoding="utf-8")
    (folder / HTML_NAME).write_text(render_limit(solved), encoding="utf-8")


def print_limit(console: Console, solved: SolvedLimit, folder: Path | None) -> None:
    """Print the table, the measured rates, notes, and where the files are."""
    table = Table(title=Text(f"N players against the mean field, by {solved.method}"))
    for name in (
        "population",
        "N",
        "distance",
        "of the\nmeans",
        "residual",
        "rounds",
        "con-\nverged",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in limit_rows(solved):
        table.add_row(
            row.population,
            f"{row.players:,}",
            number(row.distance, 3),
            number(row.mean_distance, 3),
            number(row.residual, 2),
            f"{row.rounds:,}",
            "yes" if row.converged else "NO",
        )
    console.print(table)
    lines = [f"rate {name}: {rate_words(rate.exponent)}" for name, rate in solved.rates.items()]
    lines += [f"note: {note}" for note in limit_notes(solved)]
    if folder is not None:
        lines += [str(folder / name) for name in (CSV_NAME, HTML_NAME)]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
