"""The runs behind docs/mfpg-paper.md: two modes, three tasks, four cells, and their seeds."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from scripts.results import ROOT, Key

Mode: TypeAlias = Literal["paper", "sound"]

MODES: Final[tuple[Mode, ...]] = get_args(Mode)
TASKS: Final = ("quadratic", "logistic", "mnist")
CELLS: Final = ("dp-sgd", "mfep", "mapg-dp", "mfpg")
SEED: Final = 42
"""The one that the paper prints."""
SEEDS: Final[Mapping[Mode, tuple[int, ...]]] = {"paper": (SEED,), "sound": (42, 43, 44, 45, 46)}

BENCHMARK: Final = ROOT / "results" / "full_benchmark.csv"
ROUNDS: Final = ROOT / "results" / "full_benchmark_rounds.csv"
PRINTED: Final = ROOT / "results" / "paper_table2.csv"
"""What the paper's Table 2 prints, copied; empty where it prints a dash."""


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        mode: What the paper prints, or what is accounted.
        task: The task.
        cell: The cell of the grid.
        seed: Of data, initial model, batches, choices and noise.
    """

    mode: Mode
    task: str
    cell: str
    seed: int

    @property
    def preset(self) -> Path:
        """The experiment file."""
        return ROOT / "experiments" / self.mode / f"{self.task}-{self.cell}.toml"

    @property
    def place(self) -> Key:
        """What its seeds have in common, and take about the same time for."""
        return self.mode, self.task, self.cell

    @property
    def label(self) -> str:
        """Its name for the user."""
        return f"{self.mode} {self.task} {self.cell} seed {self.seed}"


def job_of(row: Mapping[str, Any]) -> Job:
    """Return the run of a row of either file."""
    return Job(row["mode"], row["task"], row["cell"], int(row["seed"]))


def grid() -> list[Job]:
    """Return every run once, the quick tasks first."""
    return [
        Job(mode, task, cell, seed)
        for task, mode, cell in product(TASKS, MODES, CELLS)
        for seed in SEEDS[mode]
    ]


def printed() -> dict[tuple[str, str], dict[str, str]]:
    """Return the lines of the paper's Table 2, by task and cell, its numbers as it writes them."""
    with PRINTED.open(encoding="utf-8", newline="") as stream:
        return {(row["task"], row["cell"]): row for row in csv.DictReader(stream)}
