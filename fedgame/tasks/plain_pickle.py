"""Reading a pickle that holds data only, without running anything that it names.

A pickle is a program: it may call any function that it can name. Here it can name five things, all
that an array of bytes in a pickle needs, and each of them is a stand-in that checks its arguments
and keeps them. Not even NumPy's own code sees what the file says. A hostile file can still be made
to need much memory; it cannot run code.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

BYTE_TYPES = ("u1", "|u1")
LATIN_1 = ("latin1", "latin-1")
LONGEST_TEXT = 200
"""Characters of an error: a name inside a file can be as long as the file."""


class PickledArray:
    """A NumPy array of unsigned bytes as a pickle describes it.

    Attributes:
        values: The array; empty until the pickle has given its content.
    """

    def __init__(self) -> None:
        """Start without content, as NumPy does."""
        self.values: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)

    def __setstate__(self, state: Any) -> None:
        """Take (version, shape, dtype, whether in Fortran order, content)."""
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _ByteType):
            raise pickle.UnpicklingError("an array has no type")
        raw = content.encode("latin1") if isinstance(content, str) else content
        if not isinstance(raw, bytes) or not all(type(size) is int and size >= 0 for size in shape):
            raise pickle.UnpicklingError("an array is not made of bytes")
        if len(raw) != prod(shape):
            raise pickle.UnpicklingError(f"{len(raw)} bytes for an array of shape {shape}")
        values = np.frombuffer(raw, dtype=np.uint8)
        self.values = values.reshape(shape, order="F" if fortran else "C")


class _ByteType:
    """The stand-in of dtype("u1"); what else its state says has no meaning for single bytes."""

    def __init__(self, name: object, *_: object) -> None:
        if name not in BYTE_TYPES:
            raise pickle.UnpicklingError(f"an array has type {name!r}, not u1")

    def __setstate__(self, state: object) -> None:
        pass


class _StandIn:
    """Something that a pickle may name and call, and that it cannot change."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("a name is given a state")


def _reconstruct(*_: object) -> PickledArray:
    return PickledArray()


def _no_instance(*_: object) -> Any:
    raise pickle.UnpicklingError("numpy.ndarray is called")


def _encode(text: object, encoding: object) -> bytes:
    # the form in which Python 3 writes bytes for protocol 2
    if not isinstance(text, str) or encoding not in LATIN_1:
        raise pickle.UnpicklingError(f"a text is encoded by {encoding!r}, not latin1")
    return text.encode("latin1")


_NAMES: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _no_instance,
    ("numpy", "dtype"): _ByteType,
    ("_codecs", "encode"): _encode,
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> _StandIn:
        if (module, name) not in _NAMES:
            what = f"{module}.{name}"
            raise pickle.UnpicklingError(f"it names {what!r}, which is not data")
        return _StandIn(_NAMES[module, name])


def load_plain_pickle(content: bytes) -> object:
    """Return what a pickle of dicts, lists, texts, numbers and arrays of unsigned bytes holds.

    Args:
        content: The pickle; the 8-bit strings of Python 2 are read as Latin-1. Arrays come back as
            `PickledArray`.

    Raises:
        ValueError: It holds something else, is truncated or is no pickle; the text is one line.
    """
    stream = io.BytesIO(content)
    try:
        value = _PlainUnpickler(stream, encoding="latin1").load()
    except Exception as error:
        # a damaged pickle may raise anything
        text = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(text[:LONGEST_TEXT]) from error
    left = len(content) - stream.tell()
    if left:
        raise ValueError(f"{left} bytes after its end")
    return value
