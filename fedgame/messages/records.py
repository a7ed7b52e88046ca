"""Arrays and settings in Flower's records, read with suspicion."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Collection, Mapping
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
BoolArray = NDArray[np.bool_]


def pack(payload: object) -> RecordDict:
    """Return the records of a payload, a dataclass of arrays and scalars."""
    fields = vars(payload)
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    settings = {name: value for name, value in fields.items() if name not in arrays}
    return RecordDict(
        {
            _ARRAYS: ArrayRecord({name: Array(array) for name, array in arrays.items()}),
            _SETTINGS: ConfigRecord(settings),
        }
    )


def read_order(content: RecordDict) -> dict[str, Any]:
    """Return the fields of an order: what a node believes of the server that it works for."""
    fields: dict[str, Any] = dict(content.config_records[_SETTINGS])
    for name, array in content.array_records[_ARRAYS].items():
        fields[name] = array.numpy()
    return fields


def read_array(content: RecordDict, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Read one array after its declared dtype and shape were found to be as expected.

    Raises:
        InvalidReply: It is missing, is not what it should be, or is not finite.
    """
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


def read_length(content: RecordDict, name: str, limit: int) -> int:
    """Return the declared length of an array with one axis.

    Raises:
        InvalidReply: It is missing, has another number of axes, or is longer than `limit`.
    """
    try:
        (length,) = content.array_records[_ARRAYS][name].shape
    except (KeyError, ValueError) as error:
        raise InvalidReply(f"{name} is missing or has no single axis") from error
    if not 0 <= length <= limit:
        raise InvalidReply(f"{name} has {length} entries, at most {limit} are possible")
    return int(length)


def read_columns(
    content: RecordDict, columns: Mapping[str, str], length: int
) -> dict[str, NDArray[Any]]:
    """Return arrays of one entry a client, by name; `columns` gives their dtypes.

    Raises:
        InvalidReply: As for `read_array`.
    """
    return {name: read_array(content, name, dtype, (length,)) for name, dtype in columns.items()}


def digest(content: RecordDict, leave_out: Collection[str] = ()) -> bytes:
    """Return a digest of a packed payload: equal for equal fields, and for no others.

    Args:
        content: The records.
        leave_out: Names of fields that do not count.
    """
    sums = hashlib.blake2b(digest_size=32)
    for name, array in sorted(content.array_records[_ARRAYS].items()):
        if name not in leave_out:
            head = json.dumps([name, array.dtype, list(array.shape), len(array.data)])
            sums.update(head.encode() + array.data)
    for name, value in sorted(content.config_records[_SETTINGS].items()):
        if name not in leave_out:
            sums.update(json.dumps([name, value]).encode())
    return sums.digest()


def to_bytes(content: RecordDict) -> bytes:
    """Return a packed payload as bytes, to keep on disk."""
    stream = io.BytesIO()
    arrays: dict[str, Any] = read_order(content)
    settings = {name: arrays.pop(name) for name in content.config_records[_SETTINGS]}
    arrays[_SETTINGS] = np.frombuffer(json.dumps(settings).encode(), dtype=np.uint8)
    np.savez(stream, **arrays)
    return stream.getvalue()


def from_bytes(data: bytes) -> RecordDict:
    """Return what `to_bytes` was given; nothing is unpickled.

    Raises:
        ValueError: The bytes are not such a payload.
    """
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    settings = json.loads(arrays.pop(_SETTINGS).tobytes())
    return RecordDict(
        {
            _ARRAYS: ArrayRecord({name: Array(array) for name, array in arrays.items()}),
            _SETTINGS: ConfigRecord(settings),
        }
    )
