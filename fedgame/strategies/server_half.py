"""What the server halves of all systems share: registration, orders and replies, the ledger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from flwr.app import RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedgame.accountants.base import Accountant
from fedgame.errors import InvalidReply, RunFailed
from fedgame.ledger.replay import NODE_LEDGERS
from fedgame.ledger.store import Ledger
from fedgame.messages.records import pack
from fedgame.messages.registration import Declaration, RegistrationOrder
from fedgame.strategies.base import ProgressListener, Result, RoundRecord
from fedgame.strategies.checkpoint import HOSTS, Checkpoint, read_checkpoint, write_checkpoint
from fedgame.strategies.federation import (
    REGISTER,
    Hosts,
    check_same_clients,
    exchange,
    wait_for_nodes,
)
from fedgame.strategies.game_result import IterationRecord
from fedgame.strategies.outcome import Accountants, Histories
from fedgame.strategies.settings import Experiment

Order = TypeVar("Order")
R = TypeVar("R")


class ServerHalf(ABC):
    """One run from registration on; a system adds what it plans, asks and records."""

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
            RunFailed: Too few nodes or clients came, or others than the run was begun with.
        """
        self._experiment, self._grid, self._folder = experiment, grid, folder
        self._ledger, self._accountants, self._listener = ledger, accountants, listener
        self._hosts = self._register()
        self._keep_hosts()

    @staticmethod
    @abstractmethod
    def preflight(experiment: Experiment, accountant: Accountant) -> None:
        """Check what only data and a plan can show, before any process is started.

        Raises:
            FedgameError: Data are missing or do not fit, or the noise cannot be calibrated.
        """

    @abstractmethod
    def resume(self) -> None:
        """Go on from what the run's folder keeps of a run that was killed.

        Raises:
            RunFailed: What is kept is damaged, or other clients than before have registered.
        """

    @property
    @abstractmethod
    def heard(self) -> Sequence[RoundRecord | IterationRecord]:
        """What the listener was told so far; of a run that goes on, also before it was killed."""

    @abstractmethod
    def train(self) -> None:
        """Run the rounds.

        Raises:
            FedgameError: The run could not go on, and there is nothing to record.
        """

    @abstractmethod
    def result(self, realised: Histories) -> Result:
        """Return the record of the run.

        Args:
            realised: Each client's events in the merged ledger.
        """

    @abstractmethod
    def public_counts(self, clients: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of examples that clients must declare, shape (clients,)."""

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

    def _keep_hosts(self) -> None:
        """Write down who the run begins with; a run that goes on must have the same."""
        now = {"clients": self._hosts.clients, "noise": self._hosts.declared["noise"]}
        before = read_checkpoint(self._folder, HOSTS) if self._experiment.run.resume else None
        if before is None:
            write_checkpoint(self._folder, Checkpoint(now, {}), HOSTS)
        else:
            check_same_clients(before.arrays, now)

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
        if not np.array_equal(declaration.counts, self.public_counts(clients)):
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
