"""The server half of the privacy grid: DP-SGD, MFEP, MAPG-DP and MFPG are four settings of it.

One round, all four cells (MFPG paper, algorithm 1): action update -> local update -> accountant
update -> mean strength -> FedAvg. The client half (`mfpg_client`) chooses and trains; this half
plans, validates, sums and says what was spent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedgame.accountants.base import Accountant
from fedgame.errors import InvalidReply
from fedgame.games.privacy.mapg import Mapg
from fedgame.games.privacy.mean_field import MeanField
from fedgame.ledger.events import LedgerRow
from fedgame.messages.privacy_game import Registration, RoundOrder, unpack_registration
from fedgame.messages.training import TrainReply
from fedgame.randomness import public_generator
from fedgame.strategies.base import RoundRecord, RunResult
from fedgame.strategies.burn_in import burn_in_rows, burns_in
from fedgame.strategies.certificates import PublicGame, mean_curvature
from fedgame.strategies.checkpoint import Checkpoint
from fedgame.strategies.collector import collector_paused
from fedgame.strategies.data import federated_data
from fedgame.strategies.noise_check import check_noise_multipliers
from fedgame.strategies.outcome import Histories, Trained, run_result
from fedgame.strategies.plan import choice_event, make_plan, round_rows
from fedgame.strategies.settings import Experiment
from fedgame.strategies.training_half import DIVERGES, TrainingHalf

FloatArray = NDArray[np.float64]


class MfpgServer(TrainingHalf):
    """The server half: one run from registration to the last round."""

    def __init__(self, *args: Any) -> None:
        """Register the nodes and plan the run; nothing is released yet. See `ServerHalf`.

        Raises:
            RunFailed: Too few nodes or clients came.
            ConfigError: The target epsilon cannot be reached.
        """
        super().__init__(*args)
        experiment, hosts = self._experiment, self._hosts
        self._accountant = self._accountants.guarantee
        self._curvatures = self._public_curvatures(self._parameters)
        betas = hosts.declared["betas"]
        self._plan = make_plan(experiment, hosts.counts, betas, self._curvatures, self._accountant)
        check_noise_multipliers(self._plan)
        self._public = PublicGame(self._plan, self._data.test)
        self._strengths = self._plan.strengths.copy()
        # a choice whose reply is lost may have been the smallest strength
        smallest = np.full_like(self._strengths, self._plan.grid.min(initial=np.inf))
        self._declared = np.minimum(self._strengths, smallest)
        self._mean_strength = float(self._plan.strengths.mean())
        self._used: list[FloatArray] = []
        self._burnt_in: set[int] = set()
        self._trained: Trained | None = None

    @staticmethod
    def preflight(experiment: Experiment, accountant: Accountant) -> None:
        """Check what only data and a plan can show; see `ServerHalf.preflight`."""
        total = experiment.run.num_clients
        betas = experiment.population.betas(total)
        counts = federated_data(experiment).counts
        check_noise_multipliers(make_plan(experiment, counts, betas, np.ones(total), accountant))

    def read_declaration(self, content: RecordDict) -> Registration:
        """Read a registration; preferences must be those of the public population."""
        total = self._experiment.run.num_clients
        registration = unpack_registration(content, total)
        betas = self._experiment.population.betas(total)
        if not np.array_equal(registration.betas, betas[registration.clients]):
            raise InvalidReply("a preference disagrees with the public population")
        return registration

    def _public_curvatures(self, parameters: NDArray[np.float32]) -> FloatArray:
        game = self._experiment.game
        if not isinstance(game, Mapg) or game.curvature == "own":
            return self._hosts.declared["curvatures"]
        rng = public_generator(self._experiment.run.seed, "public curvature")
        curvature = mean_curvature(self._experiment, parameters, self._data.test, rng)
        return np.full(len(self._hosts.clients), curvature)

    def train(self) -> None:
        """Run the rounds until the plan is done, a budget would be exceeded, or too few answer."""
        run = self._experiment.run
        reason, failed, started = "", False, self._done
        for round_ in range(started + 1, run.rounds + 1):
            start = time.monotonic()
            if self._stops_before(round_):
                reason = (
                    f"accountant.max-epsilon = {self._experiment.accounting.max_epsilon:g}: round "
                    f"{round_} would take the worst client's epsilon to "
                    f"{self._guarantee(round_):.4g}"
                )
                break
            with collector_paused():
                used = self._round(round_)
            started = round_
            count = int(np.isfinite(used).sum())
            if count < run.min_clients:
                failed = True
                reason = (
                    f"min-clients = {run.min_clients}: round {round_} has {count} valid updates"
                    f"{DIVERGES if self._left_out else ''}"
                )
                break
            self._used.append(used)
            due = self._is_due(round_) or self._stops_before(round_ + 1)
            if due:
                self._rounds.append(self._record(round_, used, start))
            self._keep_round(round_)
            if due:
                self._listener(self._rounds[-1])
        self._trained = Trained(
            plan=self._plan,
            hosts=self._hosts,
            parameters=self._parameters,
            rounds=tuple(self._rounds),
            strengths=np.reshape(self._used, (len(self._used), len(self._hosts.clients))),
            last_strengths=self._strengths,
            declared=self._declared,
            started=started,
            reason=reason,
            failed=failed,
        )

    def _keep_round(self, round_: int) -> None:
        arrays = {
            "used": np.array(self._used),
            "strengths": self._strengths,
            "declared": self._declared,
        }
        self._keep(round_, arrays, {"mean_strength": self._mean_strength})

    def _restore(self, found: Checkpoint) -> None:
        self._used = list(found.arrays["used"])
        self._strengths, self._declared = found.arrays["strengths"], found.arrays["declared"]
        self._mean_strength = found.settings["mean_strength"]

    def result(self, realised: Histories) -> RunResult:
        """Return the record of the run; see `ServerHalf.result`."""
        if self._trained is None:
            raise RuntimeError("the rounds have not been run")
        return run_result(self._trained, realised, self._accountants)

    def _stops_before(self, round_: int) -> bool:
        """Return whether a round would take a client's guarantee over the limit."""
        limit = self._experiment.accounting.max_epsilon
        return 0 < limit < self._guarantee(round_)

    def _guarantee(self, rounds: int) -> float:
        client = self._plan.weakest_client(self._declared)
        events = self._plan.guarantee(client, rounds, self._declared)
        return self._accountant.epsilon(events, self._experiment.accounting.delta)

    def _round(self, round_: int) -> FloatArray:
        """Run one round; return the strength each client used, NaN where its update is missing."""
        game = self._experiment.game
        public_loss = np.empty(0)
        if isinstance(game, MeanField) and game.selection == "public":
            public_loss = self._public.loss_term(round_, self._parameters, self._mean_strength)
        orders = {
            node: self._order(round_, node, positions, public_loss)
            for node, positions in self._hosts.positions.items()
        }
        return self._apply(round_, self._train_round(orders))

    def _order(
        self, round_: int, node: int, positions: NDArray[np.int64], public_loss: FloatArray
    ) -> RoundOrder:
        return RoundOrder(
            round=round_,
            parameters=self._parameters,
            mean_strength=self._mean_strength,
            grid=self._plan.grid,
            choose=self._plan.chooses(round_),
            clients=self._hosts.clients[positions],
            turns=np.zeros(len(positions), dtype=np.int64),
            weights=self._plan.weights[positions],
            strengths=self._strengths[positions],
            public_loss=public_loss,
            run_name=self._folder.name,
            ledger=self._ledger_of(node),
        )

    def _apply(self, round_: int, replies: Mapping[int, TrainReply]) -> FloatArray:
        """Charge every client that answered, then add the sum to the model."""
        used = np.full(len(self._hosts.clients), np.nan)
        rows: list[Iterable[LedgerRow]] = []
        for node, reply in replies.items():
            positions = self._hosts.positions[node]
            self._strengths[positions] = reply.strengths
            if self._plan.chooses(round_):
                self._declared[positions] = reply.strengths
            used[positions] = np.where(reply.used, reply.strengths, np.nan)
            rows.append(self._rows(round_, positions))
        self._ledger.append(chain.from_iterable(rows))
        self._add(round_, replies)
        if np.isfinite(used).any():
            self._mean_strength = float(np.nanmean(used))
        return used

    def _rows(self, round_: int, positions: NDArray[np.int64]) -> Iterable[LedgerRow]:
        if burns_in(self._experiment):
            return self._burn_in_rows(positions)
        clients = self._hosts.clients[positions].tolist()
        events = self._plan.update_events(positions, self._strengths[positions])
        choice = choice_event(self._experiment) if self._plan.chooses(round_) else None
        return round_rows(round_, clients, events, choice)

    def _burn_in_rows(self, positions: NDArray[np.int64]) -> list[LedgerRow]:
        """Charge the clients that answer for the first time."""
        rows: list[LedgerRow] = []
        for position in set(positions.tolist()) - self._burnt_in:
            client, count = self._hosts.clients[position], self._hosts.counts[position]
            rows += burn_in_rows(self._experiment, int(client), int(count))
            self._burnt_in.add(position)
        return rows

    def _record(self, round_: int, used: FloatArray, start: float) -> RoundRecord:
        loss, accuracy = self._evaluate()
        return RoundRecord(
            round=round_,
            loss=loss,
            accuracy=accuracy,
            mean_strength=float(np.nanmean(used)),
            worst_epsilon=self._guarantee(round_),
            exploitability=self._public.exploitability(
                round_, self._parameters, self._mean_strength, self._strengths, self._curvatures
            ),
            clients=int(np.isfinite(used).sum()),
            seconds=time.monotonic() - start,
        )
