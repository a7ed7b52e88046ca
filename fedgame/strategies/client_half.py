"""What the client halves of all systems share: who is hosted here, and the node's ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedgame.errors import FedgameError, InvalidOrder
from fedgame.ledger.answers import Answer
from fedgame.ledger.events import LedgerRow
from fedgame.ledger.purchases import Purchase
from fedgame.ledger.store import Ledger
from fedgame.messages.records import digest, from_bytes, pack, read_order, to_bytes
from fedgame.messages.registration import Declaration, RegistrationOrder
from fedgame.strategies.data import federated_data
from fedgame.strategies.node import Node
from fedgame.strategies.settings import Experiment

P = TypeVar("P")

NOT_ASKED = ("ledger", "place", "first", "heard", "own")
"""Fields that do not make an order another one: where it stands, and what a new process is told."""

Action = Callable[[RecordDict, RecordDict], RecordDict]
"""Turns the records of an order, and what the node keeps between orders, into those of a reply."""


class Order(Protocol):
    """What every order says."""

    @property
    def run_name(self) -> str:
        """Name of the run, under which a node keeps its files."""
        ...

    @property
    def ledger(self) -> str:
        """Path of the node's ledger in a simulation."""
        ...


@dataclass(frozen=True)
class Draft(Generic[P]):
    """A reply that has not left, and what it releases.

    Attributes:
        round: The round of the order.
        reply: The payload.
        rows: Its releases.
        sold: The budgets that it sells.
        kept: What else the node keeps, beside the reply.
        check: Called when nobody else can write to the ledger; nothing is written if it raises.
    """

    round: int
    reply: P
    rows: Iterable[LedgerRow] = ()
    sold: Sequence[Purchase] = ()
    kept: Sequence[Answer] = ()
    check: Callable[[], None] = lambda: None

    def write(self, ledger: Ledger, answer: Answer) -> None:
        """Put it on disk as one."""
        if self.sold:
            ledger.append_purchases(self.sold, answer)
        else:
            ledger.append(self.rows, self.check, answer, *self.kept)


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

    def _hosted(self, order: RegistrationOrder) -> Declaration:
        """Return what this node declares whatever the system, all of it public."""
        experiment, node = self._experiment, self._node
        total = experiment.run.num_clients
        clients = np.array(node.clients(order.place, order.nodes, total), dtype=np.int64)
        return Declaration(
            clients=clients,
            counts=self.public_counts(clients),
            own_noise=np.full(len(clients), node.keeps_a_secret(experiment)),
            noise=np.full(len(clients), node.noise(experiment, order.run_name)),
        )

    def public_counts(self, clients: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of examples of clients, shape (clients,)."""
        return federated_data(self._experiment).counts[clients]

    def _open_ledger(self, run_name: str, simulated: str) -> Ledger:
        path = self._node.ledger(run_name, simulated)
        path.parent.mkdir(parents=True, exist_ok=True)
        return Ledger(path)

    def _once(
        self, action: str, order: Order, kind: type[P], draft: Callable[[Ledger], Draft[P]]
    ) -> P:
        """Return the reply to an order, on disk with its releases before it leaves the node.

        The same order once more, from a server that was killed before it took up the reply, gets
        the same reply: nothing is drawn, computed or charged again.

        Args:
            action: What is asked for.
            order: The order.
            kind: What the reply is.
            draft: Computes the reply and what it releases, given the node's ledger.

        Raises:
            DuplicateRow: Another order of this round was answered.
        """
        asked = digest(pack(order), NOT_ASKED)
        with self._open_ledger(order.run_name, order.ledger) as ledger:
            known = ledger.answer(action)
            if known is not None and known.digest == asked:
                return kind(**read_order(from_bytes(known.reply)))
            made = draft(ledger)
            made.write(ledger, Answer(action, made.round, asked, to_bytes(pack(made.reply))))
        return made.reply

    @staticmethod
    def _unsold(ledger: Ledger, rows: Iterable[LedgerRow]) -> Iterator[LedgerRow]:
        """Yield releases of clients that have not sold a budget in this run.

        Raises:
            InvalidOrder: A client has, and these releases are no part of what it sold.
        """
        sold = ledger.purchases().keys()
        for row in rows:
            if row.client in sold:
                raise InvalidOrder(
                    f"client {row.client} sold a budget in this run, for other draws"
                )
            yield row
