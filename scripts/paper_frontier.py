"""Accuracy against privacy on the logistic task, for the four cells (figure 5).

Presets of sound mode, noise scaled by a factor: accuracy stands against the sound epsilon. Presets
of paper mode, at epsilons on the paper's axis: there a Gaussian cell's epsilon is that of its
noise scale, for one step, and an entropic cell's is its strength, which the paper writes epsilon as
well. Rows go to results/frontier.csv; a run whose row is there is not run again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from fedgame import config
from fedgame.errors import FedgameError
from fedgame.runner import run_in_process
from scripts.paper_grid import CELLS, MODES, SEED, SEEDS, Mode
from scripts.paper_grid import Job as Preset
from scripts.paper_progress import BenchmarkError, Clock, run_all, say
from scripts.results import NODES, ROOT, Key, read_rows, write_row
from scripts.resumable import digest

FRONTIER: Final = ROOT / "results" / "frontier.csv"
TASK: Final = "logistic"
FLAT: Final = "mfep-flat"
"""MFEP with a prior so wide that it pulls at nothing, which shows what the pull does."""
WIDE: Final = 100.0
CURVES: Final[Mapping[Mode, tuple[str, ...]]] = {"paper": CELLS, "sound": (*CELLS, FLAT)}
LEVELS: Final[Mapping[Mode, tuple[float, ...]]] = {
    "paper": (0.1, 0.3, 1.0, 5.0),
    "sound": (0.4, 1.0, 2.0, 4.0, 8.0),
}
"""Epsilons on the paper's axis, and factors on the noise."""
RUNS: Final[Mapping[Mode, tuple[int, ...]]] = {
    "paper": SEEDS["sound"][:3],
    "sound": SEEDS["sound"],
}
"""Seeds; where a model learns nothing, three show it."""


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes:
        mode: The mode of the preset.
        cell: The cell, or `FLAT`.
        level: Where it stands on the axis, or the factor on its noise.
        seed: The seed.
    """

    mode: Mode
    cell: str
    level: float
    seed: int

    @property
    def place(self) -> Key:
        """What takes about the same time."""
        return self.mode, self.cell

    @property
    def label(self) -> str:
        """Its name for the user."""
        return f"{self.mode} {self.cell} at {self.level:g} seed {self.seed}"

    def settings(self) -> dict[str, Any]:
        """Return the run's configuration."""
        flat: dict[str, Any] = _preset(self.mode, self.cell)
        change = _on_the_papers_axis if self.mode == "paper" else _scaled
        only_the_end = {"evaluate-every": flat["rounds"]}
        return {**flat, **change(self.cell, flat, self.level), **only_the_end, "seed": self.seed}


def _preset(mode: Mode, cell: str) -> dict[str, Any]:
    flat = config.read_toml(Preset(mode, TASK, "mfep" if cell == FLAT else cell, SEED).preset)
    return {**flat, "jko.prior-std": WIDE} if cell == FLAT else dict(flat)


def _scaled(cell: str, flat: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return what gives a preset of sound mode `factor` times its noise.

    MAPG-DP's best response is the cube root of something over the cost, and a choice gets a smaller
    part of the budget where there is less.
    """
    if cell in {"dp-sgd", "mfep", FLAT}:  # without a game, at one epsilon: one noise multiplier
        noise = factor * _preset("sound", "mfep")["jko.noise-multiplier"]
        if cell != "dp-sgd":
            return {"jko.noise-multiplier": noise}
        return {"gaussian.calibration": "noise-multiplier", "gaussian.noise-multiplier": noise}
    if cell == "mapg-dp":
        budgets = ("mapg.epsilon-min", "mapg.epsilon-max")
        scaled = {key: flat[key] / factor for key in budgets}
        return {**scaled, "mapg.cost": flat["mapg.cost"] * factor**3}
    grid = (factor * float(z) for z in flat["mean-field.noise-multiplier-grid"].split(","))
    return {
        "mean-field.noise-multiplier-grid": ", ".join(f"{z:g}" for z in grid),
        "mean-field.selection-epsilon": flat["mean-field.selection-epsilon"] / factor,
    }


def _on_the_papers_axis(cell: str, flat: Mapping[str, Any], epsilon: float) -> dict[str, Any]:
    """Return what puts a preset of paper mode at an epsilon: MFPG scales its grid by it."""
    if cell == "mfep":
        return {"jko.strength": epsilon}
    if cell == "dp-sgd":
        return {"gaussian.target-epsilon": epsilon}
    if cell == "mapg-dp":
        return {"mapg.epsilon-min": epsilon, "mapg.epsilon-max": epsilon}
    grid = (epsilon * float(s) for s in flat["mean-field.strength-grid"].split(","))
    return {"mean-field.strength-grid": ", ".join(f"{s:g}" for s in grid)}


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        mode: As in Job.
        cell: As in Job.
        level: As in Job.
        seed: As in Job.
        accuracy: Final accuracy on the public test set.
        sound_epsilon: The largest guarantee of any client.
        realised_min: Smallest realised epsilon of any client.
        realised_max: Largest realised epsilon of any client.
        settings: Fingerprint of the configuration.
        seconds: Wall time of the run.
    """

    mode: str
    cell: str
    level: float
    seed: int
    accuracy: float
    sound_epsilon: float
    realised_min: float
    realised_max: float
    settings: str
    seconds: float


def job_of(row: Mapping[str, Any]) -> Job:
    """Return the run of a row."""
    return Job(row["mode"], row["cell"], float(row["level"]), int(row["seed"]))


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what names the run of a row, in the order of the file."""
    job = job_of(row)
    return MODES.index(job.mode), CURVES[job.mode].index(job.cell), job.level, job.seed


def grid() -> list[Job]:
    """Return every run once, a seed after the other."""
    return [
        Job(mode, cell, level, seed)
        for seed, mode in product(RUNS["sound"], MODES)
        if seed in RUNS[mode]
        for cell, level in product(CURVES[mode], LEVELS[mode])
    ]


def run(job: Job) -> Row:
    """Run a job in this process.

    Raises:
        BenchmarkError: There is no row to write.
    """
    start, flat = time.monotonic(), job.settings()
    with tempfile.TemporaryDirectory(prefix="fedgame-frontier-") as folder:
        try:
            experiment = config.load({**flat, "output-dir": folder})
            summary = run_in_process(experiment, NODES, lambda _: None).summary
        except FedgameError as error:
            raise BenchmarkError(str(error)) from error
    if summary["status"] != "finished" or summary["rounds"] != summary["planned_rounds"]:
        raise BenchmarkError(f"ended early: {summary['reason']}")
    realised = [client["realised"] for client in summary["clients"]]
    return Row(
        **asdict(job),
        accuracy=summary["accuracy"],
        sound_epsilon=summary["worst_epsilon"],
        realised_min=min(realised),
        realised_max=max(realised),
        settings=digest(flat),
        seconds=round(time.monotonic() - start, 1),
    )


def missing(jobs: Sequence[Job], path: Path) -> list[Job]:
    """Return the jobs that have no row of their configuration as it is."""
    rows = read_rows(path, key_of)
    return [
        job
        for job in jobs
        if rows.get(key_of(asdict(job)), {}).get("settings") != digest(job.settings())
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing; return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=FRONTIER, help="the file to write")
    parser.add_argument("--seed", type=int, action="append", help="one seed; repeatable")
    options = parser.parse_args(arguments)
    path = options.output
    asked = [job for job in grid() if job.seed in (options.seed or [job.seed])]
    jobs = missing(asked, path)
    say(f"{len(asked) - len(jobs)} of {len(asked)} runs are in {path}")

    def keep(job: Job) -> str:
        row = run(job)
        write_row(path, row, key_of)
        return f"accuracy {row.accuracy:.4f}, sound epsilon {row.sound_epsilon:.4g}"

    rows = read_rows(path, key_of).values()
    clock = Clock((job_of(row).place, float(row["seconds"])) for row in rows)
    return 1 if run_all(jobs, clock, keep) else 0


if __name__ == "__main__":
    sys.exit(main())
