"""The tables of docs/mfpg.md, from the rows of results/mfne/*.csv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fedgame.reports.guarantees import format_bound, format_number

Rows: TypeAlias = Sequence[Mapping[str, str]]

_COLUMNS = (
    "coupling",
    "release",
    "clients",
    "mean strength",
    "social optimum",
    "sound epsilon",
    "price of anarchy",
)


def coupling_table(rows: Rows) -> list[str]:
    """Return one line a game: its equilibrium, the social optimum and what selfishness costs."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    for row in rows:
        least, most = (
            format_bound(float(row[f"{end}_epsilon"])) for end in ("smallest", "largest")
        )
        cells = (
            row["coupling"],
            row["release"],
            f"{int(row['clients']):,}",
            format_number(float(row["mean_strength"])),
            format_number(float(row["optimal_mean_strength"])),
            least if least == most else f"{least} to {most}",
            f"{float(row['price_of_anarchy']):.3f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def equations_table(rows: Rows) -> list[str]:
    """Return one line for each thing that the solver of the coupled equations shows."""
    lines = ["| measured | value |", "|---|---|"]
    return lines + [f"| {row['quantity']} | {_value(row['value'])} |" for row in rows]


def _value(text: str) -> str:
    return text if text in ("yes", "no") else format_number(float(text))


def limit_table(rows: Rows) -> list[str]:
    """Return one line a number of players: the distance from the mean field, in two populations."""
    populations = list(dict.fromkeys(row["population"] for row in rows))
    lines = [f"| players | {' | '.join(populations)} |", "|---" * (len(populations) + 1) + "|"]
    for size in dict.fromkeys(row["players"] for row in rows):
        own = {row["population"]: row for row in rows if row["players"] == size}
        cells = [format_number(float(own[name]["distance"]), 3) for name in populations]
        lines.append(f"| {int(size):,} | {' | '.join(cells)} |")
    rates = {row["population"]: float(row["exponent"]) for row in rows}
    words = [f"N^{rates[name]:.2f}" for name in populations]
    return [*lines, f"| measured rate | {' | '.join(words)} |"]
