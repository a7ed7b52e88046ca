"""The tables of docs/mfpg-paper.md, from results/full_benchmark.csv and its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Final

from fedgame.reports.guarantees import format_bound, format_number
from scripts.paper_cells import (
    Rows,
    bound,
    extent,
    header,
    line,
    minutes,
    number,
    numbers,
    runs_of,
    span,
    spread,
)
from scripts.paper_grid import CELLS, TASKS, printed

UTILITY_NOTES: Final[Mapping[str, str]] = {"quadratic": "a", "logistic": "b c", "mnist": "d"}
"""Which sentences of the page explain the losses and accuracies of a task."""

PRIVACY_NOTES: Final[Mapping[tuple[str, str], str]] = {
    **{(task, "dp-sgd"): "e" for task in TASKS},
    **{(task, "mfep"): "f" for task in TASKS},
    ("logistic", "mfep"): "f g",
    **{(task, "mapg-dp"): "h" for task in TASKS},
    ("quadratic", "mfpg"): "f i",
    ("logistic", "mfpg"): "f i j",
    ("mnist", "mfpg"): "f k",
}
"""Which sentences explain epsilon and delta of a task and cell."""


def utility_table(rows: Rows) -> list[str]:
    """Return one line a task and cell: loss and accuracy as printed, and in both modes."""
    kinds = ("printed", "paper mode", "sound mode")
    columns = [f"{quantity}, {kind}" for quantity, kind in product(("loss", "accuracy"), kinds)]
    lines = header(["task", "cell", *columns, "why"])
    table = printed()
    for task, cell in product(TASKS, CELLS):
        one, many = runs_of(rows, "paper", task, cell), runs_of(rows, "sound", task, cell)
        if not one or not many:
            continue
        lines.append(
            line(
                [
                    task,
                    cell,
                    table[task, cell]["loss"] or "-",
                    format_number(float(one[0]["loss"]), 3),
                    spread(many, "loss"),
                    table[task, cell]["accuracy"] or "-",
                    spread(one, "accuracy"),
                    spread(many, "accuracy"),
                    _notes(UTILITY_NOTES[task]),
                ]
            )
        )
    return lines


def privacy_table(rows: Rows) -> list[str]:
    """Return one line a task and cell: what the paper's accountants say, and what holds."""
    lines = header(
        [
            "task",
            "cell",
            "printed: epsilon, delta",
            "its accountants, paper mode",
            "guarantee of that run: epsilon at 1e-5",
            "delta at epsilon 1",
            "sound mode: epsilon at 1e-5",
            "why",
        ]
    )
    table = printed()
    for task, cell in product(TASKS, CELLS):
        one, many = runs_of(rows, "paper", task, cell), runs_of(rows, "sound", task, cell)
        if not one or not many:
            continue
        own, run = table[task, cell], one[0]
        lines.append(
            line(
                [
                    task,
                    cell,
                    f"{own['epsilon']}, {own['delta']}" if own["epsilon"] else "-",
                    f"{number(run['claimed_epsilon'])}, {number(run['claimed_delta'])}",
                    bound(run["sound_epsilon"]),
                    bound(run["sound_delta"]),
                    format_bound(max(numbers(many, "sound_epsilon")), 3),
                    _notes(PRIVACY_NOTES[task, cell]),
                ]
            )
        )
    return lines


def sound_table(rows: Rows) -> list[str]:
    """Return one line a task and cell of sound mode, over all seeds."""
    lines = header(
        [
            "task",
            "cell",
            "loss, mean (range)",
            "accuracy, mean (range)",
            "guaranteed epsilon, worst client",
            "realised epsilon, over clients",
            "the paper's accountants would print",
            "seeds",
        ]
    )
    for task, cell in product(TASKS, CELLS):
        own = runs_of(rows, "sound", task, cell)
        if not own:
            continue
        low, high = min(numbers(own, "realised_min")), max(numbers(own, "realised_max"))
        lines.append(
            line(
                [
                    task,
                    cell,
                    spread(own, "loss"),
                    spread(own, "accuracy"),
                    format_bound(max(numbers(own, "sound_epsilon")), 3),
                    span(format_bound(low, 3), format_bound(high, 3)),
                    f"{number(own[0]['claimed_epsilon'])}, {number(own[0]['claimed_delta'])}",
                    str(len(own)),
                ]
            )
        )
    return lines


def duration_table(rows: Rows) -> list[str]:
    """Return one line a mode and task: how many runs, and how long they took together."""
    lines = header(["mode", "task", "runs", "minutes"])
    for mode, task in product(("paper", "sound"), TASKS):
        own = [row for row in rows if (row["mode"], row["task"]) == (mode, task)]
        if own:
            lines.append(line([mode, task, str(len(own)), minutes(own)]))
    return [*lines, line(["both", "all", str(len(rows)), minutes(rows)])]


def equilibrium_table(rows: Rows) -> list[str]:
    """Return one line a rule: what the clients of the paper's spread population play."""
    lines = header(
        [
            "rule",
            "strength against beta",
            "strengths for beta in [0.5, 1.5]",
            "mean strength",
            "claimed delta",
            "sound delta at epsilon 1",
        ]
    )
    for rule in dict.fromkeys(row["rule"] for row in rows):
        own = [row for row in rows if row["rule"] == rule]
        mixed = [row for row in own if row["population"] == "spread"]
        alone = [row for row in own if row["population"] == "equal"]
        lines.append(
            line(
                [
                    rule,
                    f"{number(alone[0]['strength'])} at beta {number(alone[0]['beta'])}, "
                    f"{number(alone[-1]['strength'])} at {number(alone[-1]['beta'])}",
                    _counted(mixed),
                    number(mixed[0]["mean_strength"]),
                    extent(mixed, "claimed_delta"),
                    extent(mixed, "sound_delta"),
                ]
            )
        )
    return lines


def frontier_table(rows: Rows) -> list[str]:
    """Return one line a factor on the noise: sound epsilon and accuracy of each cell."""
    sound = [row for row in rows if row["mode"] == "sound"]
    cells = list(dict.fromkeys(row["cell"] for row in sound))
    lines = header(["noise", *(f"{cell}: epsilon, accuracy" for cell in cells)])
    for level in sorted({float(row["level"]) for row in sound}):
        columns = []
        for cell in cells:
            own = [r for r in sound if r["cell"] == cell and float(r["level"]) == level]
            worst = format_bound(max(numbers(own, "sound_epsilon")), 3)
            columns.append(f"{worst}, {spread(own, 'accuracy')}")
        lines.append(line([f"{level:g} times", *columns]))
    return [*lines, "", f"All {len(rows)} runs took {minutes(rows)} minutes."]


def _counted(rows: Rows) -> str:
    strengths = [row["strength"] for row in rows]
    return ", ".join(f"{s} ({strengths.count(s)} clients)" for s in dict.fromkeys(strengths))


def _notes(letters: str) -> str:
    return ", ".join(f"({letter})" for letter in letters.split())
