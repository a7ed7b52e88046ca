"""Train with every JSAM mechanism, over splits and budgets; one row a run in results/jsam.

A row is written when its run ends, and a run whose row is there is not run again, so a sweep may be
interrupted at any time. Rows of a preset that has changed since are replaced. `--cost` solves
instead of training.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from fedgame import config
from fedgame.cli.interrupts import Interrupts
from fedgame.errors import FedgameError
from scripts.jsam_cost import cost_rows
from scripts.jsam_grid import (
    BUDGETS,
    MECHANISMS,
    PRESET,
    RESULTS,
    SEED,
    SEEDS,
    SIMILARITIES,
    Job,
    grid,
)
from scripts.jsam_rows import Row, fingerprint, key_of, missing, run
from scripts.results import DATA_DIR, with_data, write_row, write_table
from scripts.resumable import SweepError


class Sweep:
    """Runs jobs in several processes, writes their rows, and shows how far it is."""

    def __init__(self, path: Path, preset: Mapping[str, Any], console: Console) -> None:
        """Write to `path` the rows of runs of `preset`; show them on `console`."""
        self._path, self._preset, self._console = path, preset, console
        self._failed = 0
        self._bar = Progress(
            TextColumn("{task.fields[failed]} failed"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            # a run can take minutes, and the last ones tell little about those to come
            speed_estimate_period=float("inf"),
        )

    def run(self, jobs: Sequence[Job], processes: int, interrupts: Interrupts) -> int:
        """Run the jobs and return how many failed; a signal ends the sweep.

        Raises:
            SweepError: A process was killed from outside.
        """
        interrupts.on_signal = _end_workers
        task = self._bar.add_task("", total=len(jobs), failed=0)
        with tempfile.TemporaryDirectory(prefix="fedgame-jsam-") as folder, self._bar:
            context = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(processes, context, _begin_worker)
            try:
                started = {pool.submit(run, job, self._preset, folder): job for job in jobs}
                for done, future in enumerate(as_completed(started), start=1):
                    if interrupts.stop:
                        break
                    said = self._end(future, started[future])
                    self._bar.update(task, completed=done, failed=self._failed)
                    left = self._bar.tasks[task].time_remaining
                    about = f", {timedelta(seconds=int(left))} left" if left else ""
                    self._say(f"{done}/{len(jobs)}{about}: {said}")
            finally:
                pool.shutdown(cancel_futures=True)
        return self._failed

    def _end(self, future: Future[Row], job: Job) -> str:
        """Write the row of a run that has ended and return a line about it."""
        label = f"{job.mechanism}, s = {job.similarity}, budget {job.budget:g}, seed {job.seed}"
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            raise SweepError("a process was killed (out of memory? try --jobs 1)")
        if error is not None:
            self._failed += 1
            kind = "" if isinstance(error, SweepError) else f"{type(error).__name__}: "
            return f"{label}: failed: {kind}{error}"
        row = future.result()
        write_row(self._path, row, key_of)
        return f"{label}: accuracy {row.accuracy:.4f}, paid {row.total_payment:.4g}"

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _end_workers() -> None:
    for worker in multiprocessing.active_children():
        worker.terminate()


def _begin_worker() -> None:
    """Let only the parent hear of Ctrl-C, and do not outlive it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--preset", type=Path, default=PRESET, help="experiment file")
    parser.add_argument("--only-mechanism", nargs="+", choices=MECHANISMS, default=MECHANISMS)
    parser.add_argument(
        "--similarity", nargs="+", type=int, choices=SIMILARITIES, default=SIMILARITIES
    )
    parser.add_argument("--budget", nargs="+", type=float, choices=BUDGETS, default=BUDGETS)
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--cost", action="store_true", help="write cost.csv, train nothing")
    parser.add_argument(
        "--output",
        type=Path,
        help="the file to write; results/jsam/accuracy.csv, or accuracy-PRESET.csv for another",
    )
    return parser.parse_args(arguments)


def _output(options: argparse.Namespace) -> Path:
    if options.output is not None:
        return Path(options.output)
    kind = "cost" if options.cost else "accuracy"
    own = "" if options.preset.resolve() == PRESET else f"-{options.preset.stem}"
    return RESULTS / f"{kind}{own}.csv"


def _preset(path: Path) -> dict[str, Any]:
    """Return a preset with the folder of its data.

    Raises:
        SweepError: The file cannot be read, or its data are not here.
    """
    try:
        preset = with_data(config.read_toml(path))
    except FedgameError as error:
        raise SweepError(str(error)) from error
    if preset is None:
        raise SweepError(f"{DATA_DIR}: set it to the folder that holds {path.stem}'s data")
    return preset


def _sweep(options: argparse.Namespace, console: Console) -> int:
    preset, path = _preset(options.preset), _output(options)
    asked = [
        job
        for job in grid()
        if job.mechanism in options.only_mechanism
        and job.similarity in options.similarity
        and job.budget in options.budget
        and job.seed in options.seeds
    ]
    jobs = missing(asked, path, fingerprint(preset))
    console.print(f"{len(asked) - len(jobs)} of {len(asked)} runs are in {path}", soft_wrap=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes to come
    with Interrupts() as interrupts:
        sweep = Sweep(path, preset, console)
        failed = sweep.run(jobs, max(1, options.jobs), interrupts) if jobs else 0
    if interrupts.stop:
        console.print("interrupted; the same command goes on from here")
        return interrupts.exit_code
    if failed:
        console.print(f"{failed} of {len(jobs)} runs failed; the same command tries them again")
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and missing; return 1 if a run failed."""
    options, console = _parse(arguments), Console(stderr=True)
    try:
        if options.cost:
            settings = config.load(config.read_toml(options.preset))
            write_table(_output(options), cost_rows(settings, SEED))
            return 0
        return _sweep(options, console)
    except (FedgameError, SweepError) as error:
        console.print(f"error: {error}", highlight=False, markup=False, soft_wrap=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
