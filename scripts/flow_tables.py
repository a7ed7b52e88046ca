"""The tables of docs/flow.md, from the rows of results/flow/curve.csv."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Final, TypeAlias

from fedgame.reports.guarantees import format_bound

Rows: TypeAlias = Sequence[Mapping[str, str]]

LABELS: Final[Mapping[str, str]] = {
    "data": "data reading",
    "parameters": "parameter reading",
    "dp-sgd": "DP-SGD",
}


def logistic_table(rows: Rows) -> list[str]:
    """Return one line a burn-in: what it costs, and test accuracies at that epsilon."""
    return _table(rows, "logistic", "accuracy", lambda value: f"{100 * value:.1f} %")


def quadratic_table(rows: Rows) -> list[str]:
    """Return one line a burn-in: what it costs, and test losses at that epsilon."""
    return _table(rows, "quadratic", "loss", lambda value: f"{value:.3f}")


def points(rows: Rows, task: str) -> dict[tuple[float, int], dict[str, Rows]]:
    """Return a task's rows by (strength, steps) and method, in ascending order."""
    own = [row for row in rows if row["task"] == task]
    strengths = sorted({float(row["strength"]) for row in own})
    steps = sorted({int(row["steps"]) for row in own})
    return {
        (s, k): {
            method: [
                row
                for row in own
                if (float(row["strength"]), int(row["steps"]), row["method"]) == (s, k, method)
            ]
            for method in LABELS
        }
        for s, k in product(strengths, steps)
    }


def mean(rows: Rows, column: str) -> float:
    """Return the mean of a column over seeds."""
    return fmean(float(row[column]) for row in rows)


def _table(rows: Rows, task: str, measure: str, text: Callable[[float], str]) -> list[str]:
    heads = ("s", "K", "mu", "epsilon at delta 1e-5", *LABELS.values())
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (strength, steps), methods in points(rows, task).items():
        data = methods["data"]
        cells = [
            f"{strength:g}",
            str(steps),
            format_bound(float(data[0]["mu"]), 3),
            format_bound(max(float(row["epsilon"]) for row in data), 3),
            *(_range(own, measure, text) for own in methods.values()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _range(rows: Rows, measure: str, text: Callable[[float], str]) -> str:
    values = [float(row[measure]) for row in rows]
    return f"{text(fmean(values))} ({text(min(values))} to {text(max(values))})"
