"""Writes tiny data sets in CIFAR-10's own file format."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = "cifar-10-batches-py"
BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
PER_BATCH, TEST = 12, 20


def _text(value: str) -> bytes:
    return b"U" + bytes([len(value)]) + value.encode("latin1")


def _integer(value: int) -> bytes:
    return b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value)


def _array(data: NDArray[np.uint8]) -> bytes:
    """Spell out numpy.core.multiarray._reconstruct(ndarray, (0,), "b") and its state."""
    name = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
    shape = b"".join(_integer(size) for size in data.shape) + b"\x86"
    kind = b"cnumpy\ndtype\n" + _text("u1") + b"K\x00K\x01\x87R(K\x03" + _text("|")
    kind += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    content = b"T" + struct.pack("<i", data.size) + data.tobytes()
    return (
        name + b"K\x00\x85" + _text("b") + b"\x87R(K\x01" + shape + kind + b"\x89" + content + b"tb"
    )


def python2_batch(title: str, data: NDArray[np.uint8], labels: list[int]) -> bytes:
    """Return a batch as Python 2 pickled it: protocol 2 with 8-bit strings, as in the original."""
    names = [f"{i}.png" for i in range(len(labels))]
    return b"".join(
        [
            b"\x80\x02}(",
            *(_text("batch_label"), _text(title)),
            *(_text("labels"), b"](", *(_integer(label) for label in labels), b"e"),
            *(_text("data"), _array(data)),
            *(_text("filenames"), b"](", *(_text(name) for name in names), b"e"),
            b"u.",
        ]
    )


def python3_batch(title: str, data: NDArray[np.uint8], labels: list[int]) -> bytes:
    """Return a batch as Python 3 pickles it with protocol 2, as other tools rewrite the files."""
    batch = {"batch_label": title, "labels": labels, "data": data, "filenames": ["a.png"]}
    return pickle.dumps(batch, protocol=2)


def write_cifar10(root: Path) -> Path:
    """Write 60 training and 20 test images of noise below `root`; return their folder."""
    folder = root / FOLDER
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in (*BATCHES, "test_batch"):
        count = TEST if name == "test_batch" else PER_BATCH
        data = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        labels = rng.integers(0, 10, count).tolist()
        (folder / name).write_bytes(python2_batch(name, data, labels))
    meta = {"label_names": [f"class {i}" for i in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
    return folder
