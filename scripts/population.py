"""Measure what a run costs as the number of clients grows, on Flower with Ray.

Each line of results/population/scaling.csv is one `fedgame run experiments/population.toml` with
another task or number of clients. The last ones take a minute each on a quiet machine.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from fedgame.config import read_toml
from scripts.results import ROOT, write_table

PRESET: Final = ROOT / "experiments" / "population.toml"
SCALING: Final = ROOT / "results" / "population" / "scaling.csv"
TASKS: Final = ("logistic", "quadratic")
SIZES: Final = (10, 100, 1_000, 10_000, 100_000)
NODES: Final = 2
PAUSE: Final = 0.5
"""Seconds between two looks at the memory of all processes."""
FIRST: Final = 1
"""The round in which each node gathers its clients' data; it is not counted among the others."""

Key: TypeAlias = tuple[str, int]


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        task: The task.
        clients: Number of clients.
        nodes: Number of nodes.
        rounds: Number of rounds.
        first_seconds: Wall time of the first round, in which clients choose and data are gathered.
        choice_seconds: Median wall time of a later round in which all clients choose.
        plain_seconds: Median wall time of a later round in which they do not.
        run_seconds: Wall time of the whole command: start of Flower, data, rounds, accounting,
            report.
        peak_mebibytes: The largest memory of all processes of the run together, each page counted
            once (the sum of proportional set sizes), looked at every half second.
        folder_mebibytes: Size of the run folder.
    """

    task: str
    clients: int
    nodes: int
    rounds: int
    first_seconds: float
    choice_seconds: float
    plain_seconds: float
    run_seconds: float
    peak_mebibytes: float
    folder_mebibytes: float

    @property
    def key(self) -> Key:
        """What names the run."""
        return self.task, self.clients


class Memory:
    """The memory of a process and of all that it starts, as long as this is entered."""

    def __init__(self, root: int) -> None:
        """Watch the process with number `root`."""
        self._family = {root}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peak_kibibytes = 0

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(PAUSE):
            # a parent is older than its children, but Ray leaves some to the first process
            parents = dict(_parents())
            for process in sorted(parents):
                if parents[process] in self._family:
                    self._family.add(process)
            total = sum(_proportional_size(process) for process in self._family & parents.keys())
            self.peak_kibibytes = max(self.peak_kibibytes, total)


def _parents() -> Iterator[tuple[int, int]]:
    """Yield the number of each process and of its parent."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        yield int(folder.name), int(fields[1])


def _proportional_size(process: int) -> int:
    """Return the memory of a process in KiB, a shared page divided by its owners; 0 if it ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


@contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        except BaseException:
            process.terminate()
            raise


def measure(task: str, clients: int, folder: Path) -> Row:
    """Run the preset for one task and number of clients.

    Args:
        task: The task's name.
        clients: Number of clients.
        folder: Where the run folder goes.

    Raises:
        RuntimeError: The run failed.
    """
    values = {"task.name": f'"{task}"', f"{task}.dim": 20, "num-clients": clients}
    values["output-dir"] = f'"{folder}"'
    overrides = [part for key, value in values.items() for part in ("-c", f"{key}={value}")]
    command = [str(Path(sys.executable).with_name("fedgame")), "run", str(PRESET)]
    start = time.monotonic()
    with _running([*command, *overrides, "--nodes", str(NODES)]) as process:
        with Memory(process.pid) as memory:
            process.communicate()
        seconds = time.monotonic() - start
    if process.returncode:
        raise RuntimeError(f"{task}, {clients} clients: exit code {process.returncode}")
    (run,) = folder.iterdir()
    with (run / "metrics.csv").open(encoding="utf-8", newline="") as stream:
        rounds = {int(row["round"]): float(row["seconds"]) for row in csv.DictReader(stream)}
    every = int(read_toml(PRESET)["mean-field.choice-every"])
    later = {number: taken for number, taken in rounds.items() if number > FIRST}
    choosing = [taken for number, taken in later.items() if (number - 1) % every == 0]
    plain = [taken for number, taken in later.items() if (number - 1) % every]
    return Row(
        task=task,
        clients=clients,
        nodes=NODES,
        rounds=len(rounds),
        first_seconds=round(rounds[FIRST], 4),
        choice_seconds=round(median(choosing), 4),
        plain_seconds=round(median(plain), 4),
        run_seconds=round(seconds, 1),
        peak_mebibytes=round(memory.peak_kibibytes / 2**10),
        folder_mebibytes=round(sum(f.stat().st_size for f in run.iterdir()) / 2**20, 2),
    )


def _recorded() -> dict[Key, Mapping[str, Any]]:
    if not SCALING.is_file():
        return {}
    with SCALING.open(encoding="utf-8", newline="") as stream:
        return {(row["task"], int(row["clients"])): row for row in csv.DictReader(stream)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for, each run in place of its old line; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--task", choices=TASKS, action="append", help="one task; repeatable")
    parser.add_argument(
        "--clients", type=int, choices=SIZES, action="append", help="one size; repeatable"
    )
    options = parser.parse_args(arguments)
    for task in options.task or TASKS:
        for clients in options.clients or SIZES:
            with tempfile.TemporaryDirectory(prefix="fedgame-population-") as folder:
                try:
                    row = measure(task, clients, Path(folder))
                except RuntimeError as error:
                    sys.stderr.write(f"{error}\n")
                    return 1
            rows = {**_recorded(), row.key: asdict(row)}
            write_table(SCALING, [rows[key] for key in sorted(rows)])
            sys.stderr.write(f"{row}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
