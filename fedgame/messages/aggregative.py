"""What the messages of an aggregative game carry: never a strategy, an estimate or a type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flwr.app import RecordDict

from fedgame.errors import InvalidOrder, InvalidReply
from fedgame.messages.records import BoolArray, FloatArray, IntArray, read_array, read_order
from fedgame.messages.registration import Declaration, read_declaration


@dataclass(frozen=True)
class PlayerDeclaration(Declaration):
    """A declaration of players.

    Attributes:
        own_types: Whether their cost functions are secrets of their node's own, and not drawn from
            the public seed, shape (c,).
    """

    own_types: BoolArray


@dataclass(frozen=True)
class MessageOrder:
    """Asks a node for its players' noisy messages, and tells them what they may hear.

    Attributes:
        iteration: k, whose messages are asked for.
        first: The iteration of the first step of `heard`.
        players: Numbers of the players, ascending, shape (p,).
        scales: M of the noise of each message, shape (p,).
        heard: What the graph lets each player see of the iterations first to k - 1, shape
            (p, steps, w, n).
        own: What is on record as each player's own messages of them, shape (p, steps, n).
        run_name: Name of the run, under which a node keeps its files.
        ledger: Path of the node's ledger in a simulation; a deployed node keeps its own.
    """

    iteration: int
    first: int
    players: IntArray
    scales: FloatArray
    heard: FloatArray
    own: FloatArray
    run_name: str
    ledger: str


@dataclass(frozen=True)
class MessageReply:
    """What players send: o_i, and nothing else.

    Attributes:
        messages: Shape (p, n), in the order of the players asked.
    """

    messages: FloatArray


def unpack_player_declaration(content: RecordDict, num_clients: int) -> PlayerDeclaration:
    """Read and validate a declaration of players.

    Raises:
        InvalidReply: As for `read_declaration`.
    """
    fields = read_declaration(content, num_clients, {"own_types": "bool"})
    return PlayerDeclaration(**fields)


def unpack_message_order(content: RecordDict, iterations: int) -> MessageOrder:
    """Read and validate an order.

    Args:
        content: The records that came.
        iterations: How many iterations there are, K.

    Raises:
        InvalidOrder: Shapes disagree, a number is not finite, or an iteration does not exist.
    """
    order = MessageOrder(**read_order(content))
    steps, players = order.iteration - order.first, len(order.players)
    if not 0 <= order.first <= order.iteration < iterations:
        raise InvalidOrder(f"iterations {order.first} to {order.iteration}: {iterations} exist")
    fits = (
        order.heard.shape[:2] == order.own.shape[:2] == (players, steps)
        and order.heard.ndim == 4
        and order.own.shape[2:] == order.heard.shape[3:]
        and order.scales.shape == (players,)
    )
    if not fits or not (np.diff(order.players) > 0).all():
        raise InvalidOrder("the arrays of the order do not fit each other")
    if not (np.isfinite(order.heard).all() and np.isfinite(order.own).all()):
        raise InvalidOrder("messages that are forwarded must be finite")
    return order


def unpack_message_reply(content: RecordDict, order: MessageOrder, dimension: int) -> MessageReply:
    """Read and validate the messages that an order asked for.

    Raises:
        InvalidReply: They have another shape, or are not finite.
    """
    shape = (len(order.players), dimension)
    if len(content.array_records) != 1:
        raise InvalidReply("the reply holds other records than messages")
    return MessageReply(read_array(content, "messages", "float64", shape))
