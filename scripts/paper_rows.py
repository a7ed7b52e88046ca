"""A run of the MFPG paper's benchmark, from its preset to its rows, final and round by round.

Beside what fedgame guarantees stand the numbers that the paper's accountants would print (section
6): for the Gaussian cells RDP of order 2 at the target delta; for the entropic cells the "linear
budget" and the delta of eq. 4.3 at the mean strength. They are claims.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from fedgame import config
from fedgame.accountants.order2 import Order2Accountant
from fedgame.accountants.pld import PldAccountant
from fedgame.errors import FedgameError
from fedgame.games.privacy.mean_field import MeanField
from fedgame.ledger.events import LedgerRow, PrivacyEvent, SampledGaussian
from fedgame.ledger.replay import LEDGER_FILE
from fedgame.ledger.store import Ledger
from fedgame.mechanisms.jko import Jko
from fedgame.runner import run_in_process
from fedgame.strategies.base import Progress, RoundRecord
from fedgame.strategies.plan import Plan, make_plan
from fedgame.strategies.settings import Experiment
from scripts.paper_grid import Job
from scripts.paper_progress import BenchmarkError
from scripts.results import NODES

LINEAR_BUDGET: Final = 1.0
"""The epsilon that the paper writes beside the entropic cells, whatever they did."""


@dataclass(frozen=True)
class Round:
    """One round of a run.

    Attributes:
        mode: As in Job.
        task: As in Job.
        cell: As in Job.
        seed: As in Job.
        round: From 1.
        loss: Loss on the public test set after the round.
        accuracy: Accuracy there; None for a regression.
        mean_strength: s-bar in the round; for the Gaussian cells by the bridge.
        claimed_epsilon: What the paper's accountant prints after the round.
        claimed_delta: As `claimed_epsilon`.
        sound_epsilon: The largest guarantee of any client after the round, at the run's delta.
        sound_delta: The largest guaranteed delta at epsilon 1.
    """

    mode: str
    task: str
    cell: str
    seed: int
    round: int
    loss: float
    accuracy: float | None
    mean_strength: float
    claimed_epsilon: float
    claimed_delta: float
    sound_epsilon: float
    sound_delta: float


@dataclass(frozen=True)
class Row:
    """One run at its end.

    Attributes:
        mode: As in Job.
        task: As in Job.
        cell: As in Job.
        seed: As in Job.
        rounds: How many.
        loss: As in Round, after the last.
        accuracy: As in Round.
        mean_strength: As in Round.
        claimed_epsilon: As in Round.
        claimed_delta: As in Round.
        sound_epsilon: As in Round.
        sound_delta: As in Round.
        claimed_delta_worst: The paper's delta at each client's own strength, the largest; None for
            the Gaussian cells.
        noise_min: The smallest noise multiplier of any client in the last round.
        noise_max: The largest.
        realised_min: Smallest realised epsilon of any client.
        realised_max: Largest realised epsilon of any client.
        settings: Fingerprint of the preset and what the run changed in it.
        seconds: Wall time of the run, data loading and report included.
    """

    mode: str
    task: str
    cell: str
    seed: int
    rounds: int
    loss: float
    accuracy: float | None
    mean_strength: float
    claimed_epsilon: float
    claimed_delta: float
    sound_epsilon: float
    sound_delta: float
    claimed_delta_worst: float | None
    noise_min: float
    noise_max: float
    realised_min: float
    realised_max: float
    settings: str
    seconds: float


@dataclass(frozen=True)
class Accounts:
    """What both sides' accountants say of a finished run after any of its rounds.

    Attributes:
        experiment: The experiment.
        summary: The run's summary.
        ledger: All its events.
    """

    experiment: Experiment
    summary: Mapping[str, Any]
    ledger: Sequence[LedgerRow]

    def claim(self, rounds: int, mean_strength: float) -> tuple[float, float]:
        """Return the (epsilon, delta) that the paper's accountant prints after some rounds."""
        experiment = self.experiment
        if isinstance(experiment.mechanism, Jko):
            steps, relation = rounds * experiment.training.local_steps, self.summary["neighbours"]
            flow = SampledGaussian(1.0, 1.0, steps, relation, "jko", mean_strength)
            return LINEAR_BUDGET, config.accountant("lsi", experiment).delta([flow], LINEAR_BUDGET)
        delta = experiment.accounting.delta
        return Order2Accountant().epsilon(self._least_noisy(rounds), delta), delta

    def sound(self, rounds: int) -> tuple[float, float]:
        """Return the largest guarantee after some rounds: epsilon, and delta at epsilon 1."""
        plan = self._plan
        if plan is None:
            events = self._least_noisy(rounds)
        else:
            worst = plan.weakest_client(plan.strengths)
            events = plan.guarantee(worst, rounds, plan.strengths)
        accountant = PldAccountant()
        epsilon = accountant.epsilon(events, self.experiment.accounting.delta)
        return epsilon, accountant.delta(events, 1.0)

    @cached_property
    def _plan(self) -> Plan | None:
        """What was declared beforehand where clients choose as they go; None elsewhere."""
        if not isinstance(self.experiment.game, MeanField):
            return None
        clients = self.summary["clients"]
        counts = np.array([client["num_examples"] for client in clients])
        betas = np.array([client["beta"] for client in clients])
        curvatures = np.ones(len(clients))  # read by the other game only
        return make_plan(self.experiment, counts, betas, curvatures, PldAccountant())

    def _least_noisy(self, rounds: int) -> list[PrivacyEvent]:
        """Return what the client with the least noise released in the first rounds."""
        client = min(self.summary["clients"], key=lambda client: client["noise_multiplier"])["id"]
        return [row.event for row in self.ledger if row.client == client and row.round <= rounds]


def run(job: Job, flat: Mapping[str, Any], settings: str) -> tuple[Row, list[Round]]:
    """Run a job in this process, its files in a folder that is removed afterwards.

    Args:
        job: The run.
        flat: Its configuration, without a place for its files.
        settings: The fingerprint to write in its row.

    Raises:
        BenchmarkError: There is no row to write.
    """
    start = time.monotonic()
    records: list[RoundRecord] = []

    def listen(progress: Progress) -> None:
        if isinstance(progress, RoundRecord):
            records.append(progress)

    with tempfile.TemporaryDirectory(prefix="fedgame-paper-") as folder:
        try:
            experiment = config.load({**flat, "output-dir": folder})
            finished = run_in_process(experiment, NODES, listen)
        except FedgameError as error:
            raise BenchmarkError(str(error)) from error
        seconds = time.monotonic() - start
        with Ledger(finished.folder / LEDGER_FILE, read_only=True) as ledger:
            accounts = Accounts(experiment, finished.summary, list(ledger.rows()))
    if finished.summary["status"] != "finished" or len(records) != experiment.run.rounds:
        raise BenchmarkError(f"ended early: {finished.summary['reason']}")
    rounds = [_round(job, record, accounts) for record in records]
    return _row(rounds[-1], finished.summary, settings, seconds), rounds


def _round(job: Job, record: RoundRecord, accounts: Accounts) -> Round:
    claim = accounts.claim(record.round, record.mean_strength)
    sound = accounts.sound(record.round)
    if not math.isclose(sound[0], record.worst_epsilon, rel_tol=1e-9):
        raise BenchmarkError(
            f"round {record.round}: the run says epsilon {record.worst_epsilon}, its ledger says "
            f"{sound[0]}"
        )
    return Round(
        **asdict(job),
        round=record.round,
        loss=record.loss,
        accuracy=record.accuracy,
        mean_strength=record.mean_strength,
        claimed_epsilon=claim[0],
        claimed_delta=claim[1],
        sound_epsilon=sound[0],
        sound_delta=sound[1],
    )


def _row(last: Round, summary: Mapping[str, Any], settings: str, seconds: float) -> Row:
    clients = summary["clients"]
    claims = [client["claimed_delta"] for client in clients if client["claimed_delta"] is not None]
    noise = [client["noise_multiplier"] for client in clients]
    realised = [client["realised"] for client in clients]
    values = asdict(last)
    return Row(
        rounds=values.pop("round"),
        **values,
        claimed_delta_worst=max(claims, default=None),
        noise_min=min(noise),
        noise_max=max(noise),
        realised_min=min(realised),
        realised_max=max(realised),
        settings=settings,
        seconds=round(seconds, 1),
    )
