"""Run the MFPG paper's four cells on its three tasks, as printed and as accounted.

Final rows go to results/full_benchmark.csv, one a run, and rounds to full_benchmark_rounds.csv.
They are written when their run ends, and a run that is there is not run again, so the command may
be interrupted at any time. Rows of a preset that has changed since are replaced.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedgame import config
from scripts.paper_grid import BENCHMARK, CELLS, MODES, ROUNDS, TASKS, Job, grid, job_of
from scripts.paper_progress import BenchmarkError, Clock, run_all, say
from scripts.paper_rows import Round, Row, run
from scripts.pml_results import as_text
from scripts.results import DATA_DIR, Key, read_rows, with_data, write_row, write_table
from scripts.resumable import digest


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what names the run of a row: seeds one after the other, in the order of the grid."""
    job = job_of(row)
    return MODES.index(job.mode), TASKS.index(job.task), CELLS.index(job.cell), job.seed


def _round_key(row: Mapping[str, Any]) -> Key:
    return (*key_of(row), int(row["round"]))


def write_rounds(path: Path, rounds: Sequence[Round]) -> None:
    """Write the rounds of one run, in place of those of the same run."""
    own = key_of(asdict(rounds[0]))
    rows: dict[Key, Mapping[str, object]] = {
        key: row for key, row in read_rows(path, _round_key).items() if key[:-1] != own
    }
    for each in rounds:
        row = {name: as_text(value) for name, value in asdict(each).items()}
        rows[_round_key(row)] = row
    write_table(path, [rows[key] for key in sorted(rows)])


def settings_of(job: Job) -> dict[str, Any] | None:
    """Return a run's configuration; None if its data are not here."""
    return with_data({**config.read_toml(job.preset), "seed": job.seed})


def missing(jobs: Sequence[Job], path: Path) -> list[Job]:
    """Return the jobs that have no row of their preset as it is."""
    rows = read_rows(path, key_of)
    return [
        job
        for job in jobs
        if rows.get(key_of(asdict(job)), {}).get("settings") != digest(config.read_toml(job.preset))
    ]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--task", choices=TASKS, action="append", help="one task; repeatable")
    parser.add_argument("--mode", choices=MODES, action="append", help="one mode; repeatable")
    parser.add_argument("--cell", choices=CELLS, action="append", help="one cell; repeatable")
    parser.add_argument("--seed", type=int, action="append", help="one seed; repeatable")
    parser.add_argument("--output", type=Path, default=BENCHMARK.parent, help="folder of the files")
    return parser.parse_args(arguments)


def _asked(options: argparse.Namespace) -> Iterator[Job]:
    for job in grid():
        if (
            job.task in (options.task or TASKS)
            and job.mode in (options.mode or MODES)
            and job.cell in (options.cell or CELLS)
            and job.seed in (options.seed or [job.seed])
        ):
            yield job


def _run(job: Job, output: Path) -> str:
    """Run a job, write its rows and return a line about it."""
    flat = settings_of(job)
    if flat is None:
        raise BenchmarkError(f"set {DATA_DIR} to the folder that holds MNIST/raw")
    row, rounds = run(job, flat, digest(config.read_toml(job.preset)))
    write_rounds(output / ROUNDS.name, rounds)
    write_row(output / BENCHMARK.name, row, key_of)
    return _line(row)


def _line(row: Row) -> str:
    accuracy = "" if row.accuracy is None else f"accuracy {row.accuracy:.4f}, "
    return (
        f"loss {row.loss:.4g}, {accuracy}claimed ({row.claimed_epsilon:.4g}, "
        f"{row.claimed_delta:.2g}), sound epsilon {row.sound_epsilon:.4g}, {row.seconds} s"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and missing; return 1 if a run failed."""
    options = _parse(arguments)
    path = options.output / BENCHMARK.name
    asked = list(_asked(options))
    jobs = missing(asked, path)
    say(f"{len(asked) - len(jobs)} of {len(asked)} runs are in {path}")
    here = [job for job in jobs if settings_of(job) is not None]
    if len(here) < len(jobs):
        say(f"{len(jobs) - len(here)} runs skipped, their rows stay: set {DATA_DIR} for MNIST")
    rows = read_rows(path, key_of).values()
    clock = Clock((job_of(row).place, float(row["seconds"])) for row in rows)
    return 1 if run_all(here, clock, lambda job: _run(job, options.output)) else 0


if __name__ == "__main__":
    sys.exit(main())
