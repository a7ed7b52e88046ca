"""What the server halves of all systems share: registration, rounds, validated updates."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from flwr.app import RecordDict
from flwr.serverapp import Grid

from fedgame.accountants.base import Accountant
from fedgame.errors import InvalidReply, RunFailed
from fedgame.ledger.replay import NODE_LEDGERS
from fedgame.ledger.store import Ledger
from fedgame.messages.records import pack
from fedgame.messages.registration import Declaration, RegistrationOrder
from fedgame.messages.training import TrainOrder, TrainReply, unpack_train_reply
from fedgame.strategies.aggregation import to_float
from fedgame.strategies.base import ProgressListener, RunResult
from fedgame.strategies.bounds import check_update, update_bound
from fedgame.strategies.data import federated_data
from fedgame.strategies.federation import REGISTER, TRAIN, Hosts, exchange, wait_for_nodes
from fedgame.strategies.outcome import Accountants, Histories
from fedgame.strategies.settings import Experiment
from fedgame.tasks.evaluation import evaluate

log = logging.getLogger(__name__)

Order = TypeVar("Order")
R = TypeVar("R")

DIVERGES = (
    "; updates that were not finite or too large were left out (does the training diverge? try a "
    "smaller step size or strength)"
)


class ServerHalf(ABC):
    """One run, from registration to the last round; a system adds what it plans and records."""

    def __init__(
        self,
        experiment: Experiment,
        grid: Grid,
        folder: Path,
        ledger: Ledger,
        accountants: Accountants,
        listener: ProgressListener,
    ) -> None:
        """Register the nodes; nothing is released yet.

        Args:
            experiment: The experiment.
            grid: Flower's grid.
            folder: The run folder; its name is the run's name.
            ledger: The server's ledger.
            accountants: Who accounts.
            listener: Called after each round, and before what takes long.

        Raises:
            RunFailed: Too few nodes or clients came.
        """
        self._experiment, self._grid, self._folder = experiment, grid, folder
        self._ledger, self._accountants, self._listener = ledger, accountants, listener
        self._data = federated_data(experiment)
        self._module = experiment.task.module()
        self._parameters = experiment.task.initial_parameters(experiment.run.seed)
        self._left_out = 0
        self._hosts = self._register()

    @staticmethod
    @abstractmethod
    def preflight(experiment: Experiment, accountant: Accountant) -> None:
        """Check what only data and a plan can show, before any process is started.

        Raises:
            FedgameError: Data are missing or do not fit, or the noise cannot be calibrated.
        """

    @abstractmethod
    def train(self) -> None:
        """Run the rounds.

        Raises:
            FedgameError: The run could not go on, and there is nothing to record.
        """

    @abstractmethod
    def result(self, realised: Histories) -> RunResult:
        """Return the record of the run.

        Args:
            realised: Each client's events in the merged ledger.
        """

    @abstractmethod
    def read_declaration(self, content: RecordDict) -> Declaration:
        """Read what a node declares, as far as this system cares.

        Raises:
            InvalidReply: It is not what an honest node could have sent.
        """

    def _register(self) -> Hosts:
        run = self._experiment.run
        nodes = wait_for_nodes(self._grid, run.nodes, run.node_timeout)
        orders = {
            node: RegistrationOrder(
                place, len(nodes), self._folder.name, self._simulated_ledger(place)
            )
            for place, node in enumerate(nodes)
        }
        replies = self._ask(orders, REGISTER, 0, self._read_registration)
        hosts = Hosts.gather(nodes, replies)
        if len(hosts.clients) < run.min_clients:
            raise RunFailed(
                f"min-clients = {run.min_clients}: only {len(hosts.clients)} clients registered"
            )
        return hosts

    def _read_registration(
        self, _: int, content: RecordDict, order: RegistrationOrder
    ) -> Declaration:
        """Read a registration and hold it against what is public: place and partition.

        Weights and noise follow from these numbers, so that a false one would harm others.
        """
        declaration = self.read_declaration(content)
        clients = declaration.clients
        expected = np.arange(order.place, self._experiment.run.num_clients, order.nodes)
        if len(clients) != 1 and not np.array_equal(clients, expected):
            raise InvalidReply("the clients are neither those of the node's place nor a single one")
        if not np.array_equal(declaration.counts, self._data.counts[clients]):
            raise InvalidReply("a number of examples disagrees with the public partition")
        return declaration

    def _simulated_ledger(self, place: int) -> str:
        return str(self._folder / NODE_LEDGERS.replace("*", str(place)))

    def _ledger_of(self, node: int) -> str:
        return self._simulated_ledger(self._hosts.places[node])

    def _ask(
        self,
        orders: Mapping[int, Order],
        action: str,
        round_: int,
        read: Callable[[int, RecordDict, Order], R],
    ) -> dict[int, R]:
        """Send an order to each node; return the valid replies by node."""
        return exchange(
            self._grid,
            {node: pack(order) for node, order in orders.items()},
            action,
            round_,
            self._experiment.run.reply_timeout,
            lambda node, content: read(node, content, orders[node]),
        )

    def _train_round(self, orders: Mapping[int, TrainOrder]) -> dict[int, TrainReply]:
        """Send out a round and return the updates that an honest node could have sent."""
        if not orders:
            return {}
        round_ = next(iter(orders.values())).round
        return self._ask(orders, TRAIN, round_, self._read_update)

    def _read_update(self, _: int, content: RecordDict, order: TrainOrder) -> TrainReply:
        counts = self._hosts.counts[np.searchsorted(self._hosts.clients, order.clients)]
        reply = unpack_train_reply(content, order, counts)
        sizes = [parameter.numel() for parameter in self._module.parameters()]
        bound = update_bound(self._experiment, self._parameters, sizes, order.largest_strength)
        check_update(reply, order, bound)
        return reply

    def _add(self, round_: int, replies: Mapping[int, TrainReply]) -> None:
        """Add the sum of the updates to the model; an update that is missing counts as zero."""
        total = np.zeros(len(self._parameters), dtype=np.int64)
        for reply in replies.values():
            total += reply.update
            for client in reply.clients[~reply.used]:
                self._left_out += 1
                log.warning("round %d: update of client %d left out%s", round_, client, DIVERGES)
        self._parameters = (self._parameters + to_float(total)).astype(np.float32)

    def _evaluate(self) -> tuple[float, float | None]:
        """Return loss and accuracy on the public test set."""
        task, test = self._experiment.task, self._data.test
        return evaluate(task, self._module, self._parameters, test)

    @property
    def _tensors(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        named = self._module.named_parameters()
        return tuple((name, tuple(tensor.shape)) for name, tensor in named)

    def _is_due(self, round_: int) -> bool:
        """Return whether the model is evaluated after this round."""
        run = self._experiment.run
        return round_ % run.evaluate_every == 0 or round_ == run.rounds
