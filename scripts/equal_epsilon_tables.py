"""The tables of docs/heterogeneity.md and docs/projection.md, from the rows of results/*.csv."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from math import sqrt
from statistics import fmean
from typing import Final

from fedgame.reports.guarantees import format_bound, format_number
from scripts.projection_grid import CASES, PROJECTIONS
from scripts.table_parts import Rows, accuracy, header, line, listed, numbers, percent, span

METHODS: Final[Mapping[str, str]] = {
    "mfpg": "MFPG: each client the epsilon that it chose",
    "own-gaussian": "the same choices, Gaussian steps",
    "dp-sgd": "DP-SGD: all at the strictest client's",
    "mfep": "MFEP: all at the strictest client's",
}


def heterogeneity_table(rows: Rows) -> list[str]:
    """Return one line a method: guarantees, accuracy, and the difference from DP-SGD by seed."""
    columns = ("method", "guaranteed epsilon, over clients", "root mean square noise multiplier")
    found = ("test accuracy, mean (range)", "points above DP-SGD, mean (range)", "seeds")
    lines = header([*columns, *found])
    base = {row["seed"]: float(row["accuracy"]) for row in rows if row["method"] == "dp-sgd"}
    for method, label in METHODS.items():
        own = [row for row in rows if row["method"] == method]
        if own:
            smallest = format_bound(min(numbers(own, "smallest")), 3)
            largest = format_bound(max(numbers(own, "largest")), 3)
            points = [float(row["accuracy"]) - base[row["seed"]] for row in own]
            above = "-" if method == "dp-sgd" else _points(points)
            epsilon = span(smallest, largest)
            lines.append(
                line([label, epsilon, _average_noise(own), accuracy(own), above, str(len(own))])
            )
    return lines


def _average_noise(rows: Rows) -> str:
    """Return the noise multiplier that gives the average of all updates as much noise, if equal."""
    chosen = [listed(row["noise_multipliers"]) for row in rows]
    equal = [sqrt(fmean(z * z for z in run)) for run in chosen]
    return span(*(format_number(edge(equal), 2) for edge in (min, max)))


def _points(differences: list[float]) -> str:
    mean, low, high = (
        f"{100 * value:+.1f}" for value in (fmean(differences), min(differences), max(differences))
    )
    return f"{mean} ({span(low, high)})"


def clients_table(rows: Rows) -> list[str]:
    """Return one line a client of the game: its preference, what it chose, and its guarantee."""
    own = [row for row in rows if row["method"] == "mfpg"]
    betas = listed(own[0]["betas"])
    chosen, guaranteed = (
        list(zip(*(listed(row[column]) for row in own), strict=True))
        for column in ("noise_multipliers", "guarantees")
    )
    lines = header(["beta", "noise multiplier chosen, over seeds", "guaranteed epsilon"])
    for beta, noise_multipliers, epsilons in zip(betas, chosen, guaranteed, strict=True):
        noise = span(*(format_number(edge(noise_multipliers), 3) for edge in (min, max)))
        epsilon = span(*(format_bound(edge(epsilons), 3) for edge in (min, max)))
        lines.append(line([format_number(beta, 3), noise, epsilon]))
    return lines


def steps_table(rows: Rows) -> list[str]:
    """Return one line a step size: DP-SGD's accuracy on held-out training images."""
    lines = header(["step size of DP-SGD", "accuracy on held-out images"])
    for row in sorted(rows, key=lambda row: float(row["step"])):
        lines.append(line([f"{float(row['step']):g}", percent(float(row["accuracy"]))]))
    return lines


def projection_table(rows: Rows) -> list[str]:
    """Return one line a task and projection: epsilon, accuracy, loss and time."""
    columns = ("run", "projected", "guaranteed epsilon", "test accuracy, mean (range)")
    lines = header([*columns, "test loss, mean", "seconds, mean", "seeds"])
    for (case, projection), group in groupby(
        sorted(rows, key=_place), key=lambda row: (row["case"], row["projection"])
    ):
        own = list(group)
        epsilons = numbers(own, "epsilon")
        cells = (
            case,
            projection,
            span(*(format_bound(edge(epsilons), 4) for edge in (min, max))),
            accuracy(own) if own[0]["accuracy"] else "-",
            format_number(fmean(numbers(own, "loss"))),
            f"{fmean(numbers(own, 'seconds')):.0f}",
            str(len(own)),
        )
        lines.append(line(cells))
    return lines


def _place(row: Mapping[str, str]) -> tuple[int, int]:
    return list(CASES).index(row["case"]), list(PROJECTIONS).index(row["projection"])
