"""The table of docs/attacks.md, from the rows of results/attack/*.csv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fedgame.reports.guarantees import format_bound, format_number

Rows: TypeAlias = Sequence[Mapping[str, str]]


def two_point_table(rows: Rows) -> list[str]:
    """Return one line a strength and setting: claimed, proven and sound delta, and the verdict."""
    lines = [
        "| what is seen | Sinkhorn | strength | claimed delta | attack proves at least | "
        "sound delta | the claim is |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        columns = (
            row["setting"],
            row["sinkhorn"],
            row["strength"],
            format_number(float(row["claimed_delta"]), 3),
            format_number(float(row["attacked_delta"]), 3),
            format_bound(float(row["sound_delta"]), 3),
            row["verdict"],
        )
        lines.append(f"| {' | '.join(columns)} |")
    return lines


def flow_table(rows: Rows) -> list[str]:
    """Return one line a burn-in: the mu of the accountant and what an attack proves."""
    lines = [
        "| flow | G_x | burn-in K | rounds seen | attack proves mu at least | sound mu |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        columns = (
            row["flow"],
            row["smoothness"],
            row["burn_in"],
            row["rounds_seen"],
            format_number(float(row["attacked_mu"]), 3),
            format_bound(float(row["sound_mu"]), 4),
        )
        lines.append(f"| {' | '.join(columns)} |")
    return lines
