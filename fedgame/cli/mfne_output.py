"""A mean-field equilibrium as JSON, as tables for the terminal, and as files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedgame.cli.progress import bound, number
from fedgame.cli.summary import MAX_CLIENTS
from fedgame.reports.csv_tables import csv_text
from fedgame.reports.mfne_page import render_equilibrium
from fedgame.reports.mfne_result import (
    PlayedStrength,
    SolvedMeanField,
    grouped,
    notes,
    played_strengths,
    uniqueness,
)
from fedgame.reports.summary import finite

CSV_NAME, HTML_NAME = "mfne.csv", "mfne.html"


def as_mapping(solved: SolvedMeanField) -> dict[str, Any]:
    """Return everything as JSON's types; what does not exist is None."""
    found, price = solved.equilibrium, solved.price
    content: dict[str, Any] = {
        **asdict(solved.rules),
        "mean_strength": found.mean_strength,
        "residual": found.residual,
        "exploitability": found.exploitability.largest,
        "nash_conv": solved.nash_conv,
        "converged": found.converged,
        "iterations": found.iterations,
        "unique": found.unique,
        "equilibria": [each.mean_strength for each in solved.equilibria],
        "price_of_anarchy": {
            "anarchy": price.anarchy,
            "stability": price.stability,
            "gap": price.gap,
            "worst": price.worst,
            "best": price.best,
            "optimum": price.optimum.disutility,
            "optimum_mean_strength": price.optimum.mean_strength,
        },
        "grid": _grid_rows(solved),
        "types": _type_rows(solved),
        "notes": notes(solved),
    }
    result: dict[str, Any] = finite(content)
    return result


def _grid_rows(solved: SolvedMeanField) -> list[dict[str, Any]]:
    return [
        {
            "strength": float(solved.grid[j]),
            "share": float(solved.equilibrium.population[j]),
            "noise_multiplier": float(solved.noise_multipliers[j]),
            "epsilon": float(solved.epsilons[j]),
            "sound_delta_at_epsilon_1": float(solved.sound_deltas[j]),
            "claimed_delta": solved.claimed(j),
        }
        for j in range(len(solved.grid))
    ]


def _type_rows(solved: SolvedMeanField) -> list[dict[str, Any]]:
    found = solved.equilibrium
    columns = (
        solved.betas.tolist(),
        solved.shares.tolist(),
        solved.means().tolist(),
        found.exploitability.gains.tolist(),
        found.strategies.tolist(),
    )
    names = ("beta", "share", "mean_strength", "gain", "probabilities")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def write_files(solved: SolvedMeanField, folder: Path) -> None:
    """Write mfne.csv and mfne.html.

    Args:
        solved: What they show.
        folder: An existing folder.

    Raises:
        OSError: A file cannot be written.
    """
    header = [field.name for field in fields(PlayedStrength)]
    rows = csv_text([header, *map(astuple, played_strengths(solved))])
    (folder / CSV_NAME).write_text(rows, encoding="utf-8")
    (folder / HTML_NAME).write_text(render_equilibrium(solved), encoding="utf-8")


def print_solution(console: Console, solved: SolvedMeanField, folder: Path | None) -> None:
    """Print the overview, what each type plays, notes, and where the files are.

    Args:
        console: Where to print.
        solved: What to print.
        folder: Where the files are, None without any.
    """
    console.print(_overview(solved))
    console.print(_played(solved, folder))
    for note in notes(solved):
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    if folder is not None:
        for name in (CSV_NAME, HTML_NAME):
            console.print(str(folder / name), highlight=False, markup=False, soft_wrap=True)


def _overview(solved: SolvedMeanField) -> Table:
    rules, found, price = solved.rules, solved.equilibrium, solved.price
    title = f"mean-field equilibrium, {rules.num_clients:,} clients, release {rules.release}"
    table = Table(title=Text(title))
    table.add_column("at the equilibrium", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    rows: Mapping[str, str] = {
        "mean strength s-bar": number(found.mean_strength, 6),
        "residual": number(found.residual, 2),
        "exploitability": number(found.exploitability.largest, 2),
        "NashConv": number(solved.nash_conv, 2),
        "the only equilibrium": uniqueness(solved),
        "average disutility": number(price.best),
        "average disutility at the social optimum": number(price.optimum.disutility),
        "mean strength at the social optimum": number(price.optimum.mean_strength, 6),
        "price of anarchy": number(price.anarchy, 6),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _played(solved: SolvedMeanField, folder: Path | None) -> Table:
    rules = solved.rules
    title = f"what is played; epsilon by {rules.accountant} at delta {rules.delta:g}, "
    table = Table(title=Text(title + f"neighbours {rules.neighbours}"))
    # broken by hand, so that the table fits 80 characters
    for name in (
        "beta", "strength", "proba-\nbility", "noise\nmult.", "sound\nepsilon",
        "sound\ndelta at\nepsilon 1", "claimed\ndelta",
    ):  # fmt: skip
        table.add_column(name, justify="right", no_wrap=True)
    rows = grouped(solved)
    for betas, row in rows[:MAX_CLIENTS]:
        table.add_row(
            betas,
            number(row.strength),
            number(row.probability),
            number(row.noise_multiplier),
            bound(row.epsilon),
            bound(row.sound_delta_at_epsilon_1),
            number(row.claimed_delta),
        )
    if len(rows) > MAX_CLIENTS:
        where = "--output or --json shows them" if folder is None else f"in {CSV_NAME}"
        table.caption = f"{len(rows) - MAX_CLIENTS} more: {where}"
    return table
