"""A training round: the order to a node, and its reply."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedgame.errors import InvalidOrder, InvalidReply
from fedgame.messages.records import BoolArray, FloatArray, IntArray, read_array, read_order


@dataclass(frozen=True)
class TrainOrder:
    """What the server sends to one node at the start of a round; all of it is public.

    Attributes:
        round: Number of the round, from 1.
        parameters: The global model, flat float32.
        clients: The clients that take part, all hosted by the node; one that takes part twice
            stands twice.
        turns: For each of them, how often it stands before, from 0.
        weights: Their public weights in the sum of updates.
        strengths: Their strengths.
        run_name: Name of the run, under which a node keeps its files.
        ledger: Path of the node's ledger in a simulation; a deployed node keeps its own.
    """

    round: int
    parameters: NDArray[np.float32]
    clients: IntArray
    turns: IntArray
    weights: FloatArray
    strengths: FloatArray
    run_name: str
    ledger: str

    def allows(self, strengths: FloatArray) -> BoolArray:
        """Return which of the strengths that were used may have been, shape (clients,)."""
        return np.asarray(strengths == self.strengths)

    @property
    def largest_strength(self) -> float:
        """The largest strength that a client may use."""
        return float(self.strengths.max())


@dataclass(frozen=True)
class TrainReply:
    """What a node answers.

    Attributes:
        clients: The clients of the order, in its order.
        counts: Their numbers of examples, as registered.
        strengths: The strengths that they used.
        used: Whether the client's update is in the sum (a non-finite update is left out).
        update: Fixed-point sum of p_k (w_k - w) over the used clients, int64.
    """

    clients: IntArray
    counts: IntArray
    strengths: FloatArray
    used: BoolArray
    update: IntArray


def unpack_train_order(content: RecordDict) -> TrainOrder:
    """Read a round's order.

    Raises:
        InvalidOrder: A client would draw from a stream that is not its turn's, or a number has no
            meaning.
    """
    order = TrainOrder(**read_order(content))
    clients, shape = order.clients, order.clients.shape
    whole = clients.dtype == order.turns.dtype == np.int64 and len(shape) == 1
    real = order.strengths.dtype == order.weights.dtype == np.float64
    if not (whole and real and order.turns.shape == order.strengths.shape == shape):
        raise InvalidOrder("clients, turns, weights and strengths are not of one length and kind")
    if type(order.round) is not int or order.round < 1 or order.weights.shape != shape:
        raise InvalidOrder(f"round = {order.round}: must be a whole number of at least 1")
    if (np.diff(clients) < 0).any() or not np.array_equal(order.turns, turns(clients)):
        raise InvalidOrder("clients do not ascend, or their turns are not counted from 0")
    if not (np.isfinite(order.strengths) & (order.strengths > 0)).all():
        raise InvalidOrder("a strength is not a finite number above 0")
    return order


def turns(clients: IntArray) -> IntArray:
    """Return how often each entry of an ascending array stands before it, shape (entries,).

    >>> turns(np.array([2, 5, 5, 5, 7])).tolist()
    [0, 0, 1, 2, 0]
    """
    return np.asarray(np.arange(len(clients)) - np.searchsorted(clients, clients))


def unpack_train_reply(content: RecordDict, order: TrainOrder, counts: IntArray) -> TrainReply:
    """Read and validate the reply to `order`; how large the update is remains to be checked.

    Args:
        content: The records that came.
        order: What the node was asked.
        counts: The registered numbers of examples of the order's clients.

    Raises:
        InvalidReply: Anything in the reply is not what an honest node could have sent.
    """
    shape = (len(order.clients),)
    reply = TrainReply(
        clients=read_array(content, "clients", "int64", shape),
        counts=read_array(content, "counts", "int64", shape),
        strengths=read_array(content, "strengths", "float64", shape),
        used=read_array(content, "used", "bool", shape),
        update=read_array(content, "update", "int64", order.parameters.shape),
    )
    if not np.array_equal(reply.clients, order.clients):
        raise InvalidReply("the clients are not those that were asked")
    if not np.array_equal(reply.counts, counts):
        raise InvalidReply("a number of examples disagrees with the registered one")
    if not order.allows(reply.strengths).all():
        raise InvalidReply("a strength is outside the grid, or changed without being asked")
    if not reply.used.any() and reply.update.any():
        raise InvalidReply("an update of no client must be zero")
    return reply
