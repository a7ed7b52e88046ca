"""Flower records <-> validated payloads: the only place that reads what a peer sent.

Replies are untrusted: dtype, shape, finiteness, size and membership are checked before a value is
used, dtype and shape before the bytes are even read.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray

from fedgame.errors import InvalidReply

_ARRAYS = "arrays"
_SETTINGS = "settings"

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


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
class Registration:
    """What a node declares in public: its clients, their numbers of examples and preferences.

    Attributes:
        clients: Their numbers, shape (c,).
        counts: Their numbers of examples n_k, shape (c,).
        betas: Their privacy preferences, shape (c,).
        curvatures: Hessian traces of their own data where a game asks for them (an unaccounted
            release), else zeros, shape (c,).
        own_noise: Whether their noise comes from a secret of the node's own, shape (c,).
    """

    clients: IntArray
    counts: IntArray
    betas: FloatArray
    curvatures: FloatArray
    own_noise: NDArray[np.bool_]


@dataclass(frozen=True)
class RoundOrder:
    """What the server sends to one node at the start of a round; all of it is public.

    Attributes:
        round: Number of the round, from 1.
        parameters: The global model, flat float32.
        mean_strength: The broadcast s-bar.
        grid: The strengths to choose from, shape (m,); empty without a grid game.
        choose: Whether clients choose anew in this round.
        clients: The clients that take part, all hosted by the node.
        weights: Their public FedAvg weights p_k.
        strengths: Their present strengths.
        public_loss: Loss term at each grid point, measured on public data; empty unless the
            selection is public.
        run_name: Name of the run, under which a node keeps its files.
        ledger: Path of the node's ledger in a simulation; a deployed node keeps its own.
    """

    round: int
    parameters: NDArray[np.float32]
    mean_strength: float
    grid: FloatArray
    choose: bool
    clients: IntArray
    weights: FloatArray
    strengths: FloatArray
    public_loss: FloatArray
    run_name: str
    ledger: str


@dataclass(frozen=True)
class RoundReply:
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
    used: NDArray[np.bool_]
    update: IntArray


def _pack(arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> RecordDict:
    return RecordDict(
        {
            _ARRAYS: ArrayRecord({name: Array(array) for name, array in arrays.items()}),
            _SETTINGS: ConfigRecord(dict(settings)),
        }
    )


def _array(content: RecordDict, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Read one array after its declared dtype and shape were found to be as expected."""
    records = content.array_records
    if _ARRAYS not in records or name not in records[_ARRAYS]:
        raise InvalidReply(f"{name} is missing")
    array = records[_ARRAYS][name]
    if array.dtype != dtype or tuple(array.shape) != shape:
        raise InvalidReply(
            f"{name} has dtype {array.dtype} and shape {tuple(array.shape)}, "
            f"expected {dtype} and {shape}"
        )
    value = _decode(name, array.data, np.dtype(dtype), shape)
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise InvalidReply(f"{name} is not finite")
    return value


def _decode(name: str, data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Read an npy file that is known in advance up to its content.

    NumPy's own reader would look into whatever came: zip files, headers that are Python text, and
    shapes that no memory can hold.
    """
    header = io.BytesIO()
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    write_array_header_1_0(header, fields)
    start = header.tell()
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if data[:start] != header.getvalue() or len(data) != start + size:
        raise InvalidReply(f"{name} is not the array that its header declares")
    return np.frombuffer(data, dtype=dtype, offset=start).reshape(shape)


def _declared_length(content: RecordDict, name: str, limit: int) -> int:
    try:
        (length,) = content.array_records[_ARRAYS][name].shape
    except (KeyError, ValueError) as error:
        raise InvalidReply(f"{name} is missing or has no single axis") from error
    if not 0 <= length <= limit:
        raise InvalidReply(f"{name} has {length} entries, at most {limit} are possible")
    return int(length)


def pack_registration_order(order: RegistrationOrder) -> RecordDict:
    """Return the records of a registration order."""
    return _pack({}, vars(order))


def unpack_registration_order(content: RecordDict) -> RegistrationOrder:
    """Read a registration order."""
    settings: dict[str, Any] = dict(content.config_records[_SETTINGS])
    return RegistrationOrder(**settings)


def pack_registration(registration: Registration) -> RecordDict:
    """Return the records of a registration."""
    return _pack(vars(registration), {})


def unpack_registration(content: RecordDict, num_clients: int) -> Registration:
    """Read and validate a registration.

    Raises:
        InvalidReply: A client number outside the run or twice, a count or a preference that is not
            positive.
    """
    length = _declared_length(content, "clients", num_clients)
    clients = _array(content, "clients", "int64", (length,))
    counts = _array(content, "counts", "int64", (length,))
    betas = _array(content, "betas", "float64", (length,))
    curvatures = _array(content, "curvatures", "float64", (length,))
    own_noise = _array(content, "own_noise", "bool", (length,))
    if ((clients < 0) | (clients >= num_clients)).any():
        raise InvalidReply(f"client numbers must be 0 to {num_clients - 1}")
    if len(np.unique(clients)) != length:
        raise InvalidReply("a client is registered twice")
    if (counts < 1).any() or (betas <= 0).any():
        raise InvalidReply("counts must be at least 1 and preferences positive")
    return Registration(clients, counts, betas, curvatures, own_noise)


def pack_round_order(order: RoundOrder) -> RecordDict:
    """Return the records of a round order."""
    fields = vars(order)
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    settings = {name: value for name, value in fields.items() if name not in arrays}
    return _pack(arrays, settings)


def unpack_round_order(content: RecordDict) -> RoundOrder:
    """Read a round order."""
    fields: dict[str, Any] = dict(content.config_records[_SETTINGS])
    for name, array in content.array_records[_ARRAYS].items():
        fields[name] = array.numpy()
    return RoundOrder(**fields)


def pack_round_reply(reply: RoundReply) -> RecordDict:
    """Return the records of a round reply."""
    return _pack(vars(reply), {})


def unpack_round_reply(content: RecordDict, order: RoundOrder, counts: IntArray) -> RoundReply:
    """Read and validate the reply to `order`; how large the update is remains to be checked.

    Args:
        content: The records that came.
        order: What the node was asked.
        counts: The registered numbers of examples of the order's clients.

    Raises:
        InvalidReply: Anything in the reply is not what an honest node could have sent.
    """
    shape = (len(order.clients),)
    reply = RoundReply(
        clients=_array(content, "clients", "int64", shape),
        counts=_array(content, "counts", "int64", shape),
        strengths=_array(content, "strengths", "float64", shape),
        used=_array(content, "used", "bool", shape),
        update=_array(content, "update", "int64", order.parameters.shape),
    )
    if not np.array_equal(reply.clients, order.clients):
        raise InvalidReply("the clients are not those that were asked")
    if not np.array_equal(reply.counts, counts):
        raise InvalidReply("a number of examples disagrees with the registered one")
    allowed = (
        np.isin(reply.strengths, order.grid)
        if order.choose
        else (reply.strengths == order.strengths)
    )
    if not allowed.all():
        raise InvalidReply("a strength is outside the grid, or changed without being asked")
    if not reply.used.any() and reply.update.any():
        raise InvalidReply("an update of no client must be zero")
    return reply
