"""Run the data reading over its burn-in, and both ways to train on raw data at the same epsilon.

Writes one row a run to results/flow/curve.csv, after each run; about ten minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Final

from fedgame import config
from fedgame.accountants.calibration import noise_multiplier_for
from fedgame.accountants.pld import PldAccountant
from fedgame.ledger.events import Neighbours
from fedgame.runner import run_in_process
from fedgame.strategies.burn_in import burn_in_of
from scripts.results import Key, write_row

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "results" / "flow"
TASKS: Final = ("logistic", "quadratic")
STRENGTHS: Final = (0.5, 2.0)
STEPS: Final = (2, 5, 10, 20)
SEEDS: Final = (42, 43, 44, 45, 46)
METHODS: Final = ("data", "parameters", "dp-sgd")
STEP_SIZE: Final = 2.0
"""tau of the parameter reading and the learning rate of DP-SGD: the defaults of both."""


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        task: Name of the preset in experiments/flow/.
        method: "data", or what is trained on raw data at the same epsilon: "parameters" (MFEP in
            the parameter reading) or "dp-sgd".
        strength: s of the burn-in.
        steps: K of the burn-in.
        seed: The seed.
        mu: mu of the burn-in.
        epsilon: The largest guarantee of any client, at the preset's delta.
        accuracy: Final accuracy on the public test set, None for a regression.
        loss: Final loss on the public test set.
    """

    task: str
    method: str
    strength: float
    steps: int
    seed: int
    mu: float
    epsilon: float
    accuracy: float | None
    loss: float


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what names a row's run."""
    return (
        *(row["task"], METHODS.index(row["method"]), float(row["strength"])),
        *(int(row["steps"]), int(row["seed"])),
    )


def preset(task: str, strength: float, steps: int, seed: int) -> dict[str, Any]:
    """Return a preset of experiments/flow/ with another burn-in, as flat keys."""
    flat: dict[str, Any] = dict(config.read_toml(ROOT / "experiments" / "flow" / f"{task}.toml"))
    return flat | {
        "jko.strength": strength,
        "burn-in.steps": steps,
        "seed": seed,
        "evaluate-every": flat["rounds"],
    }


# both tasks and all seeds have the same few burn-ins, and a calibration takes seconds
@lru_cache
def _noise_multiplier(
    epsilon: float, delta: float, steps: int, rate: float, neighbours: Neighbours
) -> float:
    return noise_multiplier_for(
        target_epsilon=epsilon,
        delta=delta,
        sampling_rate=rate,
        steps=steps,
        neighbours=neighbours,
        accountant=PldAccountant(),
    )


def on_raw_data(flat: Mapping[str, Any], method: str, noise_multiplier: float) -> dict[str, Any]:
    """Return a preset's settings for another method.

    Args:
        flat: The settings of the data reading.
        method: "parameters" or "dp-sgd".
        noise_multiplier: Of each step.
    """
    gaussian = {
        "cell": "dp-sgd",
        "gaussian.calibration": "noise-multiplier",
        "gaussian.noise-multiplier": noise_multiplier,
        "gaussian.learning-rate": STEP_SIZE,
    }
    jko = {
        "jko.reading": "parameters",
        "jko.noise-multiplier": noise_multiplier,
        "jko.tau": STEP_SIZE,
        "jko.sinkhorn": True,
        "jko.sinkhorn-reg": 0.01,
    }
    return {**flat, **(gaussian if method == "dp-sgd" else jko)}


def _summary(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory(prefix="fedgame-flow-") as folder:
        settings = {**flat, "output-dir": folder}
        return run_in_process(config.load(settings), 1, lambda _: None).summary


def rows(task: str, strength: float, steps: int, seed: int) -> Iterator[Row]:
    """Yield the three runs of one point of the curve."""
    flat = preset(task, strength, steps, seed)
    experiment = config.load(flat)
    training, delta = experiment.training, experiment.accounting.delta
    burn_in = burn_in_of(experiment, 1)
    noise_multiplier = _noise_multiplier(
        PldAccountant().epsilon([burn_in.event()], delta),
        delta,
        experiment.run.rounds * training.local_steps,
        training.sampling_rate,
        training.neighbours,
    )
    for method in METHODS:
        settings = flat if method == "data" else on_raw_data(flat, method, noise_multiplier)
        summary = _summary(settings)
        yield Row(
            task=task,
            method=method,
            strength=strength,
            steps=steps,
            seed=seed,
            mu=float(f"{burn_in.mu:.6g}"),
            epsilon=float(f"{summary['worst_epsilon']:.6g}"),
            accuracy=summary["accuracy"],
            loss=float(f"{summary['loss']:.6g}"),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every point of the curve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--task", choices=TASKS, action="append", help="one task; repeatable")
    parser.add_argument("--seeds", help="comma separated seeds in place of the curve's own")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the CSV file")
    options = parser.parse_args(arguments)
    seeds = tuple(map(int, options.seeds.split(","))) if options.seeds else SEEDS
    for point in product(options.task or TASKS, STRENGTHS, STEPS, seeds):
        for row in rows(*point):
            write_row(options.output / "curve.csv", row, key_of)
            sys.stderr.write(f"{row}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
