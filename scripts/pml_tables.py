"""The tables of docs/aggregative.md, from the rows of results/pml/*.csv."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Final

from fedgame.reports.guarantees import format_number
from scripts.table_parts import Rows, header, line

RULES: Final[Mapping[str, str]] = {
    "filter": "filter",
    "theorem-1": "Theorem 1",
    "corollary-2": "Corollary 2",
    "group-dp": "group DP",
}
ITERATIONS: Final = (1, 5, 10, 20, 40)
PLAYERS: Final = (2, 3, 5, 10, 20, 30, 50, 100, 200)
LEVELS: Final[Mapping[str, str]] = {
    "none": "no noise",
    "low": "1 + 0.5 k",
    "medium": "1 + k",
    "high": "1 + 1.5 k",
}
LEAKAGES: Final[Mapping[str, str]] = {
    "group_dp": "group DP",
    "theorem_1": "Theorem 1",
    "exact": "exact leakage",
    "bayes": "Bayes adversary, log gain",
    "matching": "gradient matching, log gain over the blind one",
    "matching_as_in_paper": "the same as the paper counts, over 1",
    "ceiling": "ceiling",
}
OF_A_PLAYER: Final[Mapping[str, str]] = {
    "dp": "DP of a player",
    "exact": "exact, Lemma 5's transcript",
    "lemma_5_upper": "Lemma 5 (1)",
    "ceiling": "ceiling",
    "mean_exact": "exact, mean of runs",
    "matching": "gradient matching over blind",
}


def gain_table(rows: Rows) -> list[str]:
    """Return one line a level of noise: mean gain after some iterations, and the blind gain."""
    lines = header(["noise scale", *(f"k = {k}" for k in ITERATIONS), "best blind guess"])
    for level, label in LEVELS.items():
        own = {int(row["iteration"]): row for row in rows if row["noise"] == level}
        gains = [f"{float(own[k]['gain']):.2f}" for k in ITERATIONS]
        lines.append(line([label, *gains, f"{float(own[0]['blind']):.2f}"]))
    return lines


def leakage_table(rows: Rows) -> list[str]:
    """Return one line a quantity: its mean after some iterations."""
    own = {int(row["iteration"]): row for row in rows}
    lines = header(["nats, mean of draws", *(f"k = {k}" for k in ITERATIONS)])
    for name, label in LEAKAGES.items():
        lines.append(line([label, *(_number(own[k][name]) for k in ITERATIONS)]))
    return lines


def tradeoff_table(rows: Rows) -> list[str]:
    """Return one line an update rule and holder of the budget: the error at each budget."""
    budgets = _distinct(rows, "budget")
    lines = header(["rule", "held by", *(f"R = {budget}" for budget in budgets)])
    error = {(row["rule"], row["holder"], row["budget"]): row["error"] for row in rows}
    for rule, holder in product(_distinct(rows, "rule"), _distinct(rows, "holder")):
        cells = [_number(error[rule, holder, budget]) for budget in budgets]
        lines.append(line([rule, RULES[holder], *cells]))
    return lines


def correlation_table(rows: Rows) -> list[str]:
    """Return one line a quantity about player 1: its value for some numbers of players."""
    own = {int(row["players"]): row for row in rows}
    lines = header(["nats", *(f"N = {players}" for players in PLAYERS)])
    for name, label in OF_A_PLAYER.items():
        cells = [_number(own[players][name]) for players in PLAYERS]
        lines.append(line([label, *cells]))
    return lines


def stopping_table(rows: Rows) -> list[str]:
    """Return one line a prior and budget: iterations and error under each rule."""
    lines = header(["types", "R", *RULES.values()])
    for prior, budget in product(_distinct(rows, "prior"), _distinct(rows, "budget")):
        own = {row["rule"]: row for row in rows if (row["prior"], row["budget"]) == (prior, budget)}
        cells = [
            f"{float(own[rule]['iterations']):.1f} ({_number(own[rule]['error'])})"
            for rule in RULES
        ]
        lines.append(line([prior, budget, *cells]))
    return lines


def _distinct(rows: Rows, column: str) -> list[str]:
    """Return the values of a column in the order in which they come."""
    return list(dict.fromkeys(row[column] for row in rows))


def _number(text: str) -> str:
    return format_number(float(text), 3) if text else "-"
