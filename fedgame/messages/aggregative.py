"""What the messages of an aggregative game carry: never a strategy, an estimate or a type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flwr.app import RecordDict

from fedgame.errors import InvalidOrder, InvalidReply
from fedgame.messages.records import BoolArray, FloatArray, IntArray, read_array, read_order
from fedgame.messages.registration import Declaration, read_declaration

LARGEST = 1e12
"""What is heard beyond this would drown the noise in rounding."""


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
    try:
        order = MessageOrder(**read_order(content))
    except (KeyError, TypeError) as error:
        raise InvalidOrder(f"it is no order for messages ({error})") from error
    _check_types(order)
    steps, players = order.iteration - order.first, len(order.players)
    if not 0 <= order.first <= order.iteration < iterations:
        raise InvalidOrder(f"iterations {order.first} to {order.iteration}: {iterations} exist")
    fits = (
        order.heard.shape[:2] == order.own.shape[:2] == (players, steps)
        and order.own.shape[2] == order.heard.shape[3]
        and order.scales.shape == (players,)
    )
    if not fits or not (np.diff(order.players) > 0).all():
        raise InvalidOrder("the arrays of the order do not fit each other")
    return order


def _check_types(order: MessageOrder) -> None:
    """Refuse what is not of the type and the number of axes that it should have, or no number."""
    if type(order.iteration) is not int or type(order.first) is not int:
        raise InvalidOrder("iterations must be whole numbers")
    wanted = {"players": ("int64", 1), "scales": ("float64", 1)}
    wanted |= {"heard": ("float64", 4), "own": ("float64", 3)}
    for name, (dtype, axes) in wanted.items():
        array = getattr(order, name)
        if not isinstance(array, np.ndarray) or (array.dtype, array.ndim) != (dtype, axes):
            raise InvalidOrder(f"{name} must be {dtype} with {axes} axes")
        if dtype == "float64" and not (np.abs(array) <= LARGEST).all():
            raise InvalidOrder(f"{name} must be numbers up to {LARGEST:g}")


def unpack_message_reply(content: RecordDict, order: MessageOrder, dimension: int) -> MessageReply:
    """Read and validate the messages that an order asked for.

    Raises:
        InvalidReply: They have another shape, or are not finite.
    """
    shape = (len(order.players), dimension)
    arrays = [set(record) for record in content.array_records.values()]
    settings = [dict(record) for record in content.config_records.values()]
    if arrays != [{"messages"}] or any(settings) or content.metric_records:
        raise InvalidReply("the reply holds something else than messages")
    return MessageReply(read_array(content, "messages", "float64", shape))
