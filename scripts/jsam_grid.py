"""The runs behind the figures and tables on JSAM: mechanisms, splits, budgets and seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "results" / "jsam"
PRESET: Final = ROOT / "experiments" / "jsam" / "mnist-reduced.toml"

MECHANISMS: Final[Mapping[str, Mapping[str, str | int]]] = {
    "jsam": {"procurement.name": "jsam"},
    "jsam-ci": {"procurement.name": "jsam-ci"},
    "usbm": {"procurement.name": "usbm"},
    "fsbm-50": {"procurement.name": "fsbm", "fsbm.clients": 50},
    "fsbm-75": {"procurement.name": "fsbm", "fsbm.clients": 75},
    "bbm": {"procurement.name": "bbm", "bbm.clients": 50},
}
"""What each mechanism changes in a preset (JSAM paper, section VI-B)."""

SIMILARITIES: Final = (100, 70, 30, 0)
"""s, the percentage of a client's data that is drawn uniformly."""
BUDGETS: Final = (0.3, 1, 3, 10, 30)
"""What all payments are expected to cost."""
SEED: Final = 42
SEEDS: Final = (42, 43, 44)

COMPARED: Final = ("jsam", "usbm")
"""Run with every seed at the following splits and budgets."""
COMPARED_SIMILARITIES: Final = (100, 30)
COMPARED_BUDGETS: Final = BUDGETS[1:3]


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        mechanism: Name of the mechanism, with its number of clients where it has one.
        similarity: s of the split, in percent.
        budget: Expected payments.
        seed: Of partition, initial model, sensitivities, schedule and noise.
    """

    mechanism: str
    similarity: int
    budget: float
    seed: int

    @property
    def overrides(self) -> dict[str, Any]:
        """What the run changes in its preset."""
        return {
            **MECHANISMS[self.mechanism],
            "similarity.percent": self.similarity,
            "procurement.budget": self.budget,
            "procurement.eta": 1.0,
            "seed": self.seed,
        }


def job_of(row: Mapping[str, Any]) -> Job:
    """Return the run of a row of accuracy.csv, its values as numbers or as text."""
    return Job(row["mechanism"], int(row["similarity"]), float(row["budget"]), int(row["seed"]))


def grid() -> list[Job]:
    """Return every run once; those that share their data follow each other."""
    runs = [
        Job(mechanism, similarity, budget, SEED)
        for similarity, budget, mechanism in product(SIMILARITIES, BUDGETS, MECHANISMS)
    ]
    others = [seed for seed in SEEDS if seed != SEED]
    runs += [
        Job(mechanism, similarity, budget, seed)
        for seed, similarity, budget, mechanism in product(
            others, COMPARED_SIMILARITIES, COMPARED_BUDGETS, COMPARED
        )
    ]
    return runs
