"""Run presets in this process and write one row a run to results/*.csv.

All numbers in README and docs come from these files: `make results`, then `make tables`. A run that
cannot be made here, for example because MNIST is absent, leaves its rows as they were.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fedgame import config
from fedgame.errors import FedgameError
from fedgame.runner import run_in_process

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ROOT = Path(__file__).resolve().parents[1]
CELLS = ("dp-sgd", "mfep", "mapg-dp", "mfpg")
NODES = 2
DATA_DIR = "FEDGAME_DATA_DIR"
DATA_SETS = ("mnist", "mnist-cnn", "cifar10")
"""Tasks whose data are not in the package."""
NO_SETTING = ("output-dir", "run-name", "task.data-dir", "task.download")
"""Keys that say where files are and change no number."""

Key: TypeAlias = tuple[Any, ...]
KeyOf: TypeAlias = Callable[[Mapping[str, Any]], Key]
"""From a row, of values or of their texts, to what names its run."""


@dataclass(frozen=True)
class Job:
    """One line of a table: a preset, the cell to run it in, and the seeds.

    Attributes:
        preset: Path of the experiment file below experiments/, without its suffix.
        cell: The cell; it overrides the file's.
        seeds: One run each.
    """

    preset: str
    cell: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One run; empty cells are values that the run does not have.

    Attributes:
        preset: As in Job.
        cell: As in Job.
        seed: The seed.
        accuracy: Final accuracy on the public test set.
        loss: Final loss on the public test set.
        worst_epsilon: The largest guarantee of any client, at the run's delta.
        realised_min: Smallest realised epsilon of any client.
        realised_max: Largest realised epsilon of any client.
        claimed_delta: The largest delta that the paper claims for any client.
        sound_delta_at_epsilon_1: The largest guaranteed delta at epsilon 1 of any client.
        seconds: Wall time of the run, data loading and report included.
    """

    preset: str
    cell: str
    seed: int
    accuracy: float | None
    loss: float
    worst_epsilon: float
    realised_min: float
    realised_max: float
    claimed_delta: float | None
    sound_delta_at_epsilon_1: float
    seconds: float


THREE_SEEDS = (42, 43, 44)
TABLES: Mapping[str, tuple[Job, ...]] = {
    "demo": tuple(Job("demo", cell, THREE_SEEDS) for cell in CELLS),
    "paper_mfep": tuple(
        Job(f"paper/{task}-mfep", "mfep", (42,)) for task in ("quadratic", "logistic", "mnist")
    ),
    "sound_mnist": tuple(Job(f"sound/mnist-{cell}", cell, THREE_SEEDS) for cell in CELLS),
}


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=TABLES, action="append", help="one table; repeatable")
    parser.add_argument("--cell", choices=CELLS, action="append", help="one cell; repeatable")
    parser.add_argument("--seeds", help="comma separated seeds in place of the tables' own")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _key(row: Mapping[str, Any]) -> Key:
    return row["preset"], row["cell"], int(row["seed"])


def read_rows(path: Path, key: KeyOf = _key) -> dict[Key, dict[str, str]]:
    """Return the rows of a result file by what names their runs; none if there is no file."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        return {key(row): row for row in csv.DictReader(stream)}


def write_row(path: Path, row: DataclassInstance, key: KeyOf = _key) -> None:
    """Add a row to a result file, in place of the row of the same run if there is one.

    The file is replaced as a whole: it is never seen half-written.
    """
    values = {name: "" if value is None else str(value) for name, value in asdict(row).items()}
    rows = read_rows(path, key) | {key(values): values}
    write_table(path, [rows[name] for name in sorted(rows)])


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write a result file of at least one row, in place of what is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    with partial.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(path)


def with_data(flat: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a flat configuration that knows where its data are; None if they are not here."""
    if flat.get("task.name") not in DATA_SETS:
        return dict(flat)
    data = os.environ.get(DATA_DIR, "")
    return {**flat, "task.data-dir": data} if data else None


def digest(flat: Mapping[str, Any]) -> str:
    """Return 12 hexadecimal digits that change when a configuration does in what gives numbers."""
    kept = {key: flat[key] for key in sorted(flat) if key not in NO_SETTING}
    return hashlib.sha256(config.to_toml(kept).encode()).hexdigest()[:12]


def _settings(job: Job, seed: int, output_dir: str) -> dict[str, Any] | None:
    """Return the run's flat configuration, None if its data are not here."""
    flat: dict[str, Any] = dict(config.read_toml(ROOT / "experiments" / f"{job.preset}.toml"))
    return with_data(flat | {"cell": job.cell, "seed": seed, "output-dir": output_dir})


def _row(job: Job, seed: int, summary: Mapping[str, Any], seconds: float) -> Row:
    clients = summary["clients"]
    realised = [client["realised"] for client in clients]
    claims = [client["claimed_delta"] for client in clients if client["claimed_delta"] is not None]
    return Row(
        preset=job.preset,
        cell=job.cell,
        seed=seed,
        accuracy=summary["accuracy"],
        loss=summary["loss"],
        worst_epsilon=summary["worst_epsilon"],
        realised_min=min(realised),
        realised_max=max(realised),
        claimed_delta=max(claims, default=None),
        sound_delta_at_epsilon_1=max(client["sound_delta_at_epsilon_1"] for client in clients),
        seconds=round(seconds, 1),
    )


def _run(job: Job, seed: int, path: Path) -> bool:
    """Run a job with one seed and write its row; return False if it should have run and did not."""
    label = f"{path.stem}: {job.preset} {job.cell} seed {seed}"
    with tempfile.TemporaryDirectory(prefix="fedgame-results-") as folder:
        flat = _settings(job, seed, folder)
        if flat is None:
            _say(f"{label}: skipped, set {DATA_DIR} to the folder that holds MNIST/raw")
            return True
        start = time.monotonic()
        try:
            summary = run_in_process(config.load(flat), NODES, lambda _: None).summary
        except FedgameError as error:
            _say(f"{label}: {error}")
            return False
    if summary["status"] != "finished" or summary["rounds"] != summary["planned_rounds"]:
        _say(f"{label}: ended early: {summary['reason']}")
        return False
    row = _row(job, seed, summary, time.monotonic() - start)
    write_row(path, row)
    _say(f"{label}: accuracy {row.accuracy}, worst epsilon {row.worst_epsilon:.4g}")
    return True


def _runs(options: argparse.Namespace) -> Iterator[tuple[str, Job, int]]:
    for table in options.only or TABLES:
        for job in TABLES[table]:
            if options.cell and job.cell not in options.cell:
                continue
            seeds = map(int, options.seeds.split(",")) if options.seeds else job.seeds
            yield from ((table, job, seed) for seed in seeds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; return 1 if a run failed."""
    options = _parse(arguments)
    done = [
        _run(job, seed, ROOT / "results" / f"{table}.csv") for table, job, seed in _runs(options)
    ]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
