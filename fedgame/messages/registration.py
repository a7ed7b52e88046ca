"""Registration: which clients a node hosts, and what they declare in public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedgame.errors import InvalidReply
from fedgame.messages.records import (
    BoolArray,
    IntArray,
    read_columns,
    read_length,
    read_order,
)


@dataclass(frozen=True)
class RegistrationOrder:
    """Asks a node which clients it hosts: in a simulation those with number = place mod nodes.

    Attributes:
        place: The node's place among the nodes, from 0.
        nodes: How many nodes take part.
        run_name: Name of the run, under which a node keeps its files.
        ledger: Path of the node's ledger in a simulation; a deployed node keeps its own.
    """

    place: int
    nodes: int
    run_name: str
    ledger: str


@dataclass(frozen=True)
class Declaration:
    """What a node declares whatever the system.

    Attributes:
        clients: The numbers of its clients, shape (c,).
        counts: Their numbers of examples n_k, shape (c,).
        own_noise: Whether their noise comes from a secret of the node's own, shape (c,).
        noise: What their noise of this run is known by, shape (c,): the same after a restart, and
            another one for another secret, of which it says nothing else.
    """

    clients: IntArray
    counts: IntArray
    own_noise: BoolArray
    noise: IntArray


_COLUMNS = {"clients": "int64", "counts": "int64", "own_noise": "bool", "noise": "int64"}


def unpack_registration_order(content: RecordDict) -> RegistrationOrder:
    """Read a registration order."""
    return RegistrationOrder(**read_order(content))


def read_declaration(
    content: RecordDict, num_clients: int, columns: dict[str, str]
) -> dict[str, NDArray[Any]]:
    """Read and validate the fields of a declaration.

    Args:
        content: The records that came.
        num_clients: Number of clients of the run.
        columns: Name and dtype of what a system's declaration has beyond the common fields.

    Raises:
        InvalidReply: A client number outside the run or twice, or a count below 1.
    """
    length = read_length(content, "clients", num_clients)
    fields = read_columns(content, {**_COLUMNS, **columns}, length)
    clients = fields["clients"]
    if ((clients < 0) | (clients >= num_clients)).any():
        raise InvalidReply(f"client numbers must be 0 to {num_clients - 1}")
    if len(np.unique(clients)) != length:
        raise InvalidReply("a client is registered twice")
    if (fields["counts"] < 1).any():
        raise InvalidReply("counts must be at least 1")
    return fields
