"""Runs whose rows name the settings they were made with, so that no run is made twice."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgame import config
from fedgame.errors import FedgameError
from fedgame.runner import run_in_process
from scripts.results import Key, KeyOf, read_rows

NODES = 1
NO_SETTING = ("output-dir", "run-name", "task.data-dir", "task.download")
"""Keys that say where files are and change no number."""


class SweepError(Exception):
    """A run that gives no row, or a sweep that cannot start; the text is for the user."""


def digest(flat: Mapping[str, Any]) -> str:
    """Return 12 hexadecimal digits that change with any setting that can change a number."""
    kept = {key: flat[key] for key in sorted(flat) if key not in NO_SETTING}
    return hashlib.sha256(config.to_toml(kept).encode()).hexdigest()[:12]


def done(path: Path, key_of: KeyOf) -> set[tuple[Key, str]]:
    """Return what has a row: what names the run, and the digest of its settings."""
    return {(key, row["settings"]) for key, row in read_rows(path, key_of).items()}


def run(flat: Mapping[str, Any], folder: str | None = None) -> tuple[Mapping[str, Any], float]:
    """Run an experiment in this process, its files in a folder that is removed afterwards.

    Args:
        flat: Its flat configuration.
        folder: Where that folder is made; None for the system's place for such folders.

    Returns:
        The summary, and the seconds that it took, data loading and report included.

    Raises:
        SweepError: It cannot be run.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fedgame-", dir=folder) as output:
        try:
            experiment = config.load({**flat, "output-dir": output})
            summary = run_in_process(experiment, NODES, lambda _: None).summary
        except FedgameError as error:
            # an error with arguments of its own does not survive the way to another process
            raise SweepError(str(error)) from None
    return summary, time.monotonic() - start


def check_finished(summary: Mapping[str, Any]) -> None:
    """Refuse a run that did not make all of its rounds.

    Raises:
        SweepError: It ended early.
    """
    if summary["status"] != "finished" or summary["rounds"] != summary["planned_rounds"]:
        raise SweepError(f"ended early: {summary['reason']}")
