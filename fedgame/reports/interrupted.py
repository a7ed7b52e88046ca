"""The folder of a run that was killed: find it, own it, and undo what its last checkpoint lacks."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedgame.errors import ConfigError, RunFailed
from fedgame.reports.csv_tables import METRICS, csv_text, metrics_row
from fedgame.reports.files import write_whole
from fedgame.reports.game_tables import ITERATION, iteration_row
from fedgame.strategies.base import RoundRecord
from fedgame.strategies.checkpoint import HOSTS
from fedgame.strategies.game_result import IterationRecord

LOCK = ".lock"
"""While a process runs the run of a folder it holds a lock on this file."""


def find_interrupted(folder: Path, name: str) -> Path:
    """Return the folder of a run that began and did not end.

    Raises:
        ConfigError: There is none of this name, or it came to its end.
    """
    if not name or not (folder / "config.toml").is_file():
        raise ConfigError("--resume", str(folder), "is no run folder: it has no config.toml")
    if (folder / "summary.json").exists():
        raise ConfigError("--resume", str(folder), "came to its end: it has a summary.json")
    return folder


def can_go_on(folder: Path) -> bool:
    """Return whether the run of a folder has registered its clients and did not end."""
    return (folder / HOSTS).is_file() and not (folder / "summary.json").exists()


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder; a process that is killed lets go of it.

    Raises:
        RunFailed: Another process runs this run.
    """
    path = folder / LOCK
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunFailed(f"{folder}: another process runs this run") from error
        yield
        path.unlink(missing_ok=True)


def rewrite_metrics(folder: Path, heard: Sequence[RoundRecord | IterationRecord]) -> None:
    """Bring metrics.csv to what a checkpoint knows; rounds after it are done once more.

    Raises:
        RunFailed: The file cannot be written.
    """
    rounds = [metrics_row(record) for record in heard if isinstance(record, RoundRecord)]
    played = [iteration_row(record) for record in heard if isinstance(record, IterationRecord)]
    path = folder / "metrics.csv"
    if not heard:
        path.unlink(missing_ok=True)
        return
    write_whole(path, csv_text([METRICS, *rounds] if rounds else [ITERATION, *played]).encode())
