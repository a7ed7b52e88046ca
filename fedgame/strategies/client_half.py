"""What the client halves of all systems share: who is hosted here, and the node's ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedgame.errors import FedgameError, InvalidOrder
from fedgame.ledger.events import LedgerRow
from fedgame.ledger.store import Ledger
from fedgame.messages.registration import RegistrationOrder
from fedgame.strategies.data import federated_data
from fedgame.strategies.node import Node
from fedgame.strategies.settings import Experiment

Action = Callable[[RecordDict, RecordDict], RecordDict]
"""Turns the records of an order, and what the node keeps between orders, into those of a reply."""


class ClientHalf:
    """One node's clients; a system adds its actions."""

    def __init__(self, experiment: Experiment, node: Node) -> None:
        """Keep the experiment; data are loaded when first needed."""
        self._experiment = experiment
        self._node = node

    @property
    def actions(self) -> Mapping[str, Action]:
        """What the server may ask for, by name."""
        return {}

    def answer(self, action: str, content: RecordDict, state: RecordDict) -> RecordDict:
        """Answer one order.

        Args:
            action: What is asked for.
            content: The records of the order.
            state: What the node keeps from one order to the next.

        Raises:
            FedgameError: The system has no such action, or refuses.
        """
        if action not in self.actions:
            raise FedgameError(f"{action}: not part of {self._experiment.run.strategy}")
        return self.actions[action](content, state)

    def _hosted(
        self, order: RegistrationOrder
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return numbers, numbers of examples, and whose noise is its own: all of it public."""
        total = self._experiment.run.num_clients
        clients = np.array(self._node.clients(order.place, order.nodes, total), dtype=np.int64)
        counts = self.public_counts(clients)
        return clients, counts, np.full(len(clients), self._node.keeps_a_secret(self._experiment))

    def public_counts(self, clients: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of examples of clients, shape (clients,)."""
        return federated_data(self._experiment).counts[clients]

    def _open_ledger(self, run_name: str, simulated: str) -> Ledger:
        path = self._node.ledger(run_name, simulated)
        path.parent.mkdir(parents=True, exist_ok=True)
        return Ledger(path)

    def _write(self, run_name: str, simulated: str, rows: Iterable[LedgerRow]) -> None:
        """Put releases on disk, which is what comes before they leave the node.

        Raises:
            InvalidOrder: A client has sold a budget in this run, and these releases are no part of
                what it sold.
        """
        with self._open_ledger(run_name, simulated) as ledger:
            sold = ledger.purchases().keys()

            def unsold() -> Iterator[LedgerRow]:
                for row in rows:
                    if row.client in sold:
                        raise InvalidOrder(
                            f"client {row.client} sold a budget in this run, for other draws"
                        )
                    yield row

            ledger.append(unsold())
