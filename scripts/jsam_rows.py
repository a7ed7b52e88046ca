"""A run of the JSAM sweep, from a job to its row in accuracy.csv."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from fedgame import config
from fedgame.errors import FedgameError
from fedgame.runner import run_in_process
from scripts.jsam_grid import MECHANISMS, Job, job_of
from scripts.results import Key, digest, read_rows

NODES = 1


class SweepError(Exception):
    """A run that gives no row, or a sweep that cannot start; the text is for the user."""


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        mechanism: As in Job.
        similarity: As in Job.
        budget: As in Job.
        seed: As in Job.
        eta: The eta of that budget.
        expected_cost: B, the sum of v_k epsilon_k at the clients' reports.
        total_payment: What the clients were paid.
        participants: Number of clients that took part.
        draws: Number of updates.
        accuracy: Final accuracy on the public test set.
        loss: Final loss on the public test set.
        bought_max: The largest epsilon bought from any client.
        spent_max: The largest epsilon spent by any client, by PLD.
        implied_q_median: Median over clients of the Q that their noise implies.
        settings: Fingerprint of the preset, without what the runs vary.
        seconds: Wall time of the run, data loading and report included.
    """

    mechanism: str
    similarity: int
    budget: float
    seed: int
    eta: float
    expected_cost: float
    total_payment: float
    participants: int
    draws: int
    accuracy: float
    loss: float
    bought_max: float
    spent_max: float
    implied_q_median: float
    settings: str
    seconds: float


def fingerprint(preset: Mapping[str, Any]) -> str:
    """Return 12 hexadecimal digits that change when a preset does in what all runs share."""
    varied = {key for name in MECHANISMS for key in Job(name, 0, 0, 0).overrides}
    return digest({key: value for key, value in preset.items() if key not in varied})


def row_of(job: Job, summary: Mapping[str, Any], settings: str, seconds: float) -> Row:
    """Return the row of a run.

    Raises:
        SweepError: The run ended early, or a client spent more than was bought from it.
    """
    if summary["status"] != "finished" or summary["rounds"] != summary["planned_rounds"]:
        raise SweepError(f"ended early: {summary['reason']}")
    clients, bought = summary["clients"], summary["procurement"]
    for client in clients:
        if client["spent"] is None or client["spent"] > client["bought"]:
            raise SweepError(
                f"client {client['id']} spent {client['spent']} of {client['bought']} bought"
            )
    return Row(
        **asdict(job),
        eta=bought["eta"],
        expected_cost=bought["expected_cost"],
        total_payment=bought["total_payment"],
        participants=bought["participants"],
        draws=bought["draws"],
        accuracy=summary["accuracy"],
        loss=summary["loss"],
        bought_max=max(client["bought"] for client in clients),
        spent_max=max(client["spent"] for client in clients),
        implied_q_median=bought["implied_q"]["median"],
        settings=settings,
        seconds=round(seconds, 1),
    )


def run(job: Job, preset: Mapping[str, Any], folder: str) -> Row:
    """Run a job in this process, its files in a folder that is removed afterwards.

    Raises:
        SweepError: There is no row to write.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder) as output:
        try:
            experiment = config.load({**preset, **job.overrides, "output-dir": output})
            summary = run_in_process(experiment, NODES, lambda _: None).summary
        except FedgameError as error:
            # an error with arguments of its own does not survive the way to another process
            raise SweepError(str(error)) from None
    return row_of(job, summary, fingerprint(preset), time.monotonic() - start)


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what names the run of a row."""
    return astuple(job_of(row))


def missing(jobs: Iterable[Job], path: Path, settings: str) -> list[Job]:
    """Return the jobs, in their order, that have no row with these settings."""
    rows = read_rows(path, key_of)
    done = {key for key, row in rows.items() if row["settings"] == settings}
    return [job for job in jobs if astuple(job) not in done]
