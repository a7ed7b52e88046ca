"""A run of the JSAM sweep, from a job to its row in accuracy.csv."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from scripts import resumable
from scripts.jsam_grid import MECHANISMS, Job, job_of
from scripts.results import Key
from scripts.resumable import SweepError, check_finished, digest


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
    check_finished(summary)
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
    summary, seconds = resumable.run({**preset, **job.overrides}, folder)
    return row_of(job, summary, fingerprint(preset), seconds)


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what names the run of a row."""
    return astuple(job_of(row))


def missing(jobs: Iterable[Job], path: Path, settings: str) -> list[Job]:
    """Return the jobs, in their order, that have no row with these settings."""
    there = resumable.done(path, key_of)
    return [job for job in jobs if (astuple(job), settings) not in there]
