"""Nodes and messages: wait for nodes, send orders, collect the replies that can be trusted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedgame.errors import InvalidReply, RunFailed
from fedgame.messages.registration import Declaration

log = logging.getLogger(__name__)

R = TypeVar("R")

REGISTER = "query.register"
CONTRACT = "query.contract"
MESSAGE = "query.message"
TRAIN = "train"

_SETTLE_SECONDS = 2.0
_POLL_SECONDS = 0.2
_FIRST_PAUSE = 0.005


@dataclass(frozen=True)
class Hosts:
    """Which node hosts which client; arrays are over the registered clients in order.

    Attributes:
        clients: Numbers of the registered clients, ascending, shape (clients,).
        counts: Their numbers of examples.
        own_noise: Whether their noise comes from a secret of their node's own.
        declared: All that they declared, by the name of the field, each of shape (clients,).
        positions: For each node, the positions of its clients in these arrays.
        places: For each node, its place among the nodes.
    """

    clients: NDArray[np.int64]
    counts: NDArray[np.int64]
    own_noise: NDArray[np.bool_]
    declared: Mapping[str, NDArray[Any]]
    positions: Mapping[int, NDArray[np.int64]]
    places: Mapping[int, int]

    @classmethod
    def gather(cls, nodes: list[int], declarations: Mapping[int, Declaration]) -> Hosts:
        """Put declarations together; a node that names another node's client is left out."""
        accepted: dict[int, Declaration] = {}
        taken: set[int] = set()
        for node in nodes:
            declaration = declarations.get(node)
            if declaration is None or not len(declaration.clients):
                continue
            if taken & set(declaration.clients.tolist()):
                log.warning("node %d names a client of another node: left out", node)
                continue
            taken |= set(declaration.clients.tolist())
            accepted[node] = declaration
        clients = np.array(sorted(taken), dtype=np.int64)
        positions = {node: np.searchsorted(clients, own.clients) for node, own in accepted.items()}

        order = np.argsort(np.concatenate([own.clients for own in accepted.values()] or [clients]))

        def ordered(field: str) -> NDArray[Any]:
            values = [getattr(own, field) for own in accepted.values()]
            return np.concatenate(values)[order] if values else np.empty(0)

        names = [name for own in accepted.values() for name in vars(own)]
        declared = {name: ordered(name) for name in names}
        return cls(
            clients=clients,
            counts=declared.get("counts", np.empty(0, dtype=np.int64)),
            own_noise=declared.get("own_noise", np.empty(0, dtype=np.bool_)),
            declared=declared,
            positions=positions,
            places={node: place for place, node in enumerate(nodes)},
        )


def wait_for_nodes(grid: Grid, wanted: int, timeout: float) -> list[int]:
    """Return the sorted ids of the nodes that take part.

    Nodes register one by one, so with `wanted` = 0 the nodes count as complete when their number
    has not changed for two seconds.

    Raises:
        RunFailed: Fewer than `wanted` nodes (or none) came in `timeout` seconds.
    """
    start = time.monotonic()
    seen: list[int] = []
    changed = start
    while time.monotonic() - start < timeout:
        nodes = sorted(grid.get_node_ids())
        if wanted and len(nodes) >= wanted:
            return nodes[:wanted]
        if nodes != seen:
            seen, changed = nodes, time.monotonic()
        if not wanted and seen and time.monotonic() - changed >= _SETTLE_SECONDS:
            return seen
        time.sleep(_POLL_SECONDS)
    expected = str(wanted) if wanted else "at least 1"
    raise RunFailed(
        f"nodes = {wanted}: {len(seen)} nodes came in {timeout:g} s, {expected} are needed"
    )


def check_same_clients(
    before: Mapping[str, NDArray[np.int64]], now: Mapping[str, NDArray[np.int64]]
) -> None:
    """Refuse to go on with a run whose clients are not those that it was begun with.

    Args:
        before: `clients`, their numbers, and `noise`, what their noise is known by.
        now: The same of those that have registered.

    Raises:
        RunFailed: Some are absent or new, or have other noise.
    """
    absent = np.setdiff1d(before["clients"], now["clients"])
    new = np.setdiff1d(now["clients"], before["clients"])
    if len(absent) or len(new):
        raise RunFailed(
            f"the run was begun with other clients: {len(absent)} are absent now "
            f"({_some(absent)}), {len(new)} are new ({_some(new)})"
        )
    other = now["clients"][before["noise"] != now["noise"]]
    if len(other):
        raise RunFailed(
            f"the run was begun with other noise of {len(other)} clients ({_some(other)}): go on "
            "with the same nodes and their data folders, and deployed if they were"
        )


def _some(clients: NDArray[np.int64]) -> str:
    shown = ", ".join(str(client) for client in clients[:3].tolist())
    return (shown or "none") + (", .." if len(clients) > 3 else "")


def exchange(
    grid: Grid,
    orders: Mapping[int, RecordDict],
    message_type: str,
    round_: int,
    timeout: float,
    read: Callable[[int, RecordDict], R],
) -> dict[int, R]:
    """Send one order to each node and return the replies that pass validation, by node.

    A missing reply, an error reply and a reply that `read` refuses are logged and left out.

    Args:
        grid: Flower's grid.
        orders: Content of the message to each node.
        message_type: Flower's message type, which routes to the client's function.
        round_: Number of the round, used as the group of the messages.
        timeout: Seconds to wait for replies.
        read: Turns the content of a node's reply into a payload, or raises InvalidReply.
    """
    messages = [
        Message(content, node, message_type, group_id=str(round_), ttl=2 * timeout)
        for node, content in orders.items()
    ]
    pushed = grid.push_messages(messages)
    asked = {name: node for name, node in zip(pushed, orders, strict=True) if name}
    replies: dict[int, R] = {}
    for reply in _collect(grid, set(asked), timeout):
        node = asked[reply.metadata.reply_to_message_id]
        if reply.has_error():
            log.warning("round %d: node %d failed (code %d)", round_, node, reply.error.code)
            continue
        if reply.metadata.src_node_id != node:
            log.warning("round %d: an answer for node %d from another: rejected", round_, node)
            continue
        try:
            replies[node] = read(node, reply.content)
        except InvalidReply as error:
            log.warning("round %d: reply of node %d rejected: %s", round_, node, error)
        except Exception as error:  # noqa: BLE001  (a peer must not be able to end the run)
            kind = type(error).__name__
            log.warning("round %d: reply of node %d cannot be read (%s)", round_, node, kind)
    for node in orders.keys() - replies.keys():
        log.warning("round %d: no valid reply of node %d", round_, node)
    return replies


def _collect(grid: Grid, pending: set[str], timeout: float) -> Iterator[Message]:
    """Pull until every message has its one reply or the time is over.

    Flower's own send_and_receive sleeps three seconds between two looks.
    """
    deadline = time.monotonic() + timeout
    pause = _FIRST_PAUSE
    while pending and time.monotonic() < deadline:
        for reply in grid.pull_messages(pending):
            if reply.metadata.reply_to_message_id in pending:
                pending.remove(reply.metadata.reply_to_message_id)
                pause = _FIRST_PAUSE
                yield reply
        if pending:
            time.sleep(pause)
            pause = min(2 * pause, _POLL_SECONDS)
