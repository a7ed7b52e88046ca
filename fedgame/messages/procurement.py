"""What the messages of privacy procurement (JSAM) carry beyond the common fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flwr.app import RecordDict

from fedgame.errors import InvalidReply
from fedgame.ledger.purchases import Purchase
from fedgame.messages.records import BoolArray, FloatArray, IntArray, read_array, read_order
from fedgame.messages.registration import Declaration, read_declaration


@dataclass(frozen=True)
class Report(Declaration):
    """A declaration with what a server needs that buys privacy.

    Attributes:
        sensitivities: The clients' reported privacy sensitivities, shape (c,).
        losses: Their losses on their own data at the initial model where a mechanism asks for them
            (an unaccounted release), else zeros, shape (c,).
    """

    sensitivities: FloatArray
    losses: FloatArray


@dataclass(frozen=True)
class Contract:
    """What the server offers the clients of a node, before the first round.

    Attributes:
        clients: Their numbers, ascending, all hosted by the node, shape (c,).
        reports: The sensitivities that they reported, shape (c,).
        budgets: The epsilon that is bought from each for the whole training, shape (c,).
        payments: What each gets, shape (c,).
        draws: How many times each takes part, shape (c,).
        noise_multipliers: The noise of each time, shape (c,); 0 where `draws` is 0.
        delta: The delta at which the budgets are stated.
        run_name: Name of the run, under which a node keeps its files.
        ledger: Path of the node's ledger in a simulation; a deployed node keeps its own.
    """

    clients: IntArray
    reports: FloatArray
    budgets: FloatArray
    payments: FloatArray
    draws: IntArray
    noise_multipliers: FloatArray
    delta: float
    run_name: str
    ledger: str

    def offers(self) -> list[Purchase]:
        """Return what is offered to each client, as both sides keep it.

        Raises:
            ValueError: A number is out of range.
        """
        columns = (self.clients, self.budgets, self.payments, self.draws, self.noise_multipliers)
        rows = zip(*(column.tolist() for column in (*columns, self.reports)), strict=True)
        return [
            Purchase(
                client=client,
                epsilon=epsilon,
                delta=self.delta,
                payment=payment,
                draws=draws,
                noise_multiplier=noise_multiplier,
                report=report,
            )
            for client, epsilon, payment, draws, noise_multiplier, report in rows
        ]


@dataclass(frozen=True)
class Signature:
    """What a node answers to a contract.

    Attributes:
        clients: The clients of the contract, in its order.
        accepted: Who agrees, shape (c,).
    """

    clients: IntArray
    accepted: BoolArray


def unpack_report(content: RecordDict, num_clients: int) -> Report:
    """Read and validate a report; whether the prior allows it remains to be checked.

    Raises:
        InvalidReply: As for `read_declaration`, or a sensitivity is negative.
    """
    columns = {"sensitivities": "float64", "losses": "float64"}
    report = Report(**read_declaration(content, num_clients, columns))
    if (report.sensitivities < 0).any():
        raise InvalidReply("sensitivities must not be negative")
    return report


def unpack_contract(content: RecordDict) -> Contract:
    """Read a contract."""
    return Contract(**read_order(content))


def unpack_signature(content: RecordDict, contract: Contract) -> Signature:
    """Read and validate the answer to a contract.

    Raises:
        InvalidReply: It names other clients than the contract.
    """
    shape = contract.clients.shape
    clients = read_array(content, "clients", "int64", shape)
    if not np.array_equal(clients, contract.clients):
        raise InvalidReply("the clients are not those of the contract")
    return Signature(clients, read_array(content, "accepted", "bool", shape))
