"""The server half of the privacy grid: DP-SGD, MFEP, MAPG-DP and MFPG are four settings of it.

One round, all four cells (MFPG paper, algorithm 1): action update -> local update -> accountant
update -> mean strength -> FedAvg. The client half (`mfpg_client`) chooses and trains; this half
plans, validates, sums and says what was spent.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

import numpy as np
from flwr.app import RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedgame.accountants.base import Accountant
from fedgame.errors import InvalidReply, RunFailed
from fedgame.games.privacy.mapg import Mapg
from fedgame.games.privacy.mean_field import MeanField
from fedgame.ledger.events import LedgerRow
from fedgame.ledger.replay import NODE_LEDGERS
from fedgame.ledger.store import Ledger
from fedgame.messages import (
    Registration,
    RegistrationOrder,
    RoundOrder,
    RoundReply,
    pack_registration_order,
    pack_round_order,
    unpack_registration,
    unpack_round_reply,
)
from fedgame.randomness import public_generator
from fedgame.strategies.aggregation import to_float
from fedgame.strategies.base import ProgressListener, RoundRecord
from fedgame.strategies.bounds import check_update, update_bound
from fedgame.strategies.certificates import PublicGame, mean_curvature
from fedgame.strategies.data import federated_data
from fedgame.strategies.federation import REGISTER, TRAIN, Hosts, exchange, wait_for_nodes
from fedgame.strategies.noise_check import check_noise_multipliers
from fedgame.strategies.outcome import Trained
from fedgame.strategies.plan import choice_event, make_plan
from fedgame.strategies.settings import Experiment
from fedgame.tasks.evaluation import evaluate

log = logging.getLogger(__name__)

FloatArray = NDArray[np.float64]

_DIVERGES = (
    "; updates that were not finite or too large were left out (does the training diverge? try a "
    "smaller step size or strength)"
)


class MfpgServer:
    """The server half: one run from registration to the last round."""

    def __init__(
        self,
        experiment: Experiment,
        grid: Grid,
        folder: Path,
        ledger: Ledger,
        accountant: Accountant,
        listener: ProgressListener,
    ) -> None:
        """Register the nodes and plan the run; nothing is released yet.

        Args:
            experiment: The experiment.
            grid: Flower's grid.
            folder: The run folder; its name is the run's name.
            ledger: The server's ledger.
            accountant: The accountant of the guarantee.
            listener: Called after each round.

        Raises:
            RunFailed: Too few nodes or clients came.
            ConfigError: The target epsilon cannot be reached.
        """
        self._experiment, self._grid, self._folder = experiment, grid, folder
        self._ledger, self._accountant, self._listener = ledger, accountant, listener
        self._data = federated_data(experiment)
        self._test = self._data.test
        self._module = experiment.task.module()
        self._hosts = self._register()
        initial = experiment.task.initial_parameters(experiment.run.seed)
        self._curvatures = self._public_curvatures(initial)
        self._plan = make_plan(
            experiment, self._hosts.counts, self._hosts.betas, self._curvatures, accountant
        )
        check_noise_multipliers(self._plan)
        self._public = PublicGame(self._plan, self._test)
        self._parameters = initial
        self._strengths = self._plan.strengths.copy()
        # a choice whose reply is lost may have been the smallest strength
        smallest = np.full_like(self._strengths, self._plan.grid.min(initial=np.inf))
        self._declared = np.minimum(self._strengths, smallest)
        self._mean_strength = float(self._plan.strengths.mean())
        self._left_out = 0

    def _register(self) -> Hosts:
        run = self._experiment.run
        nodes = wait_for_nodes(self._grid, run.nodes, run.node_timeout)
        orders = {
            node: pack_registration_order(
                RegistrationOrder(place, len(nodes), self._folder.name, self._node_ledger(place))
            )
            for place, node in enumerate(nodes)
        }
        replies = exchange(
            self._grid,
            orders,
            REGISTER,
            0,
            run.reply_timeout,
            lambda node, content: self._read_registration(nodes.index(node), len(nodes), content),
        )
        hosts = Hosts.gather(nodes, replies)
        if len(hosts.clients) < run.min_clients:
            raise RunFailed(
                f"min-clients = {run.min_clients}: only {len(hosts.clients)} clients registered"
            )
        return hosts

    def _read_registration(self, place: int, nodes: int, content: RecordDict) -> Registration:
        """Read a registration and hold it against what is public: partition and preferences.

        Weights and noise follow from these numbers, so that a false one would harm others.
        """
        total = self._experiment.run.num_clients
        betas = self._experiment.population.betas(total)
        registration = unpack_registration(content, total)
        clients = registration.clients
        deployed = len(clients) == 1
        if not deployed and not np.array_equal(clients, np.arange(place, total, nodes)):
            raise InvalidReply("the clients are neither those of the node's place nor a single one")
        if not np.array_equal(registration.counts, self._data.counts[clients]):
            raise InvalidReply("a number of examples disagrees with the public partition")
        if not np.array_equal(registration.betas, betas[clients]):
            raise InvalidReply("a preference disagrees with the public population")
        return registration

    def _node_ledger(self, place: int) -> str:
        return str(self._folder / NODE_LEDGERS.replace("*", str(place)))

    def _public_curvatures(self, parameters: NDArray[np.float32]) -> FloatArray:
        game = self._experiment.game
        if not isinstance(game, Mapg) or game.curvature == "own":
            return self._hosts.curvatures
        rng = public_generator(self._experiment.run.seed, "public curvature")
        curvature = mean_curvature(self._experiment, parameters, self._test, rng)
        return np.full(len(self._hosts.clients), curvature)

    def train(self) -> Trained:
        """Run the rounds until the plan is done, a budget would be exceeded, or too few answer."""
        run, accounting = self._experiment.run, self._experiment.accounting
        records: list[RoundRecord] = []
        strengths: list[FloatArray] = []
        reason, failed, started = "", False, 0
        for round_ in range(1, run.rounds + 1):
            start = time.monotonic()
            cost = self._guarantee(round_)
            if 0 < accounting.max_epsilon < cost:
                reason = (
                    f"accountant.max-epsilon = {accounting.max_epsilon:g}: round {round_} would "
                    f"take the worst client's epsilon to {cost:.4g}"
                )
                break
            used, started = self._round(round_), round_
            count = int(np.isfinite(used).sum())
            if count < run.min_clients:
                failed = True
                reason = (
                    f"min-clients = {run.min_clients}: round {round_} has {count} valid updates"
                    f"{_DIVERGES if self._left_out else ''}"
                )
                break
            strengths.append(used)
            records.append(self._record(round_, used, start))
            self._listener(records[-1])
        return Trained(
            plan=self._plan,
            hosts=self._hosts,
            parameters=self._parameters,
            rounds=tuple(records),
            strengths=np.array(strengths).reshape(len(records), len(self._hosts.clients)),
            last_strengths=self._strengths,
            declared=self._declared,
            started=started,
            reason=reason,
            failed=failed,
        )

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
        replies = exchange(
            self._grid,
            {node: pack_round_order(order) for node, order in orders.items()},
            TRAIN,
            round_,
            self._experiment.run.reply_timeout,
            lambda node, content: self._read(node, content, orders[node]),
        )
        return self._apply(round_, replies)

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
            weights=self._plan.weights[positions],
            strengths=self._strengths[positions],
            public_loss=public_loss,
            run_name=self._folder.name,
            ledger=self._node_ledger(self._hosts.places[node]),
        )

    def _read(self, node: int, content: RecordDict, order: RoundOrder) -> RoundReply:
        counts = self._hosts.counts[self._hosts.positions[node]]
        reply = unpack_round_reply(content, order, counts)
        largest = float(max(order.strengths.max(), order.grid.max(initial=0.0)))
        sizes = [parameter.numel() for parameter in self._module.parameters()]
        bound = update_bound(self._experiment, self._parameters, sizes, largest)
        check_update(reply, order, bound)
        return reply

    def _apply(self, round_: int, replies: dict[int, RoundReply]) -> FloatArray:
        """Charge every client that answered, then add the sum to the model."""
        used = np.full(len(self._hosts.clients), np.nan)
        total = np.zeros(len(self._parameters), dtype=np.int64)
        rows: list[LedgerRow] = []
        for node, reply in replies.items():
            positions = self._hosts.positions[node]
            self._strengths[positions] = reply.strengths
            if self._plan.chooses(round_):
                self._declared[positions] = reply.strengths
            used[positions] = np.where(reply.used, reply.strengths, np.nan)
            total += reply.update
            for client in reply.clients[~reply.used]:
                self._left_out += 1
                log.warning("round %d: update of client %d left out%s", round_, client, _DIVERGES)
            rows += self._rows(round_, positions)
        self._ledger.append(rows)
        self._parameters = (self._parameters + to_float(total)).astype(np.float32)
        if np.isfinite(used).any():
            self._mean_strength = float(np.nanmean(used))
        return used

    def _rows(self, round_: int, positions: NDArray[np.int64]) -> list[LedgerRow]:
        rows = []
        choice = choice_event(self._experiment) if self._plan.chooses(round_) else None
        for position in positions:
            client = int(self._hosts.clients[position])
            event = self._plan.update_event(int(position), float(self._strengths[position]))
            rows.append(LedgerRow(client, round_, 0, "update", event))
            if choice is not None:
                rows.append(LedgerRow(client, round_, 0, "choice", choice))
        return rows

    def _record(self, round_: int, used: FloatArray, start: float) -> RoundRecord:
        loss, accuracy = evaluate(self._experiment.task, self._module, self._parameters, self._test)
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
