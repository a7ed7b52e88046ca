"""MNIST's four idx files: found or downloaded, verified, and only then used.

torchvision defines the layout and does the downloading. The bytes are parsed here and not by
torchvision.datasets.MNIST, because that class verifies nothing once files are unpacked, prefers the
unverifiable `processed/*.pt` of its older versions, and cannot read a folder that has only the
compressed files.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from fedgame.errors import DataError
from fedgame.tasks.base import DataSource

CHECKSUMS = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""MD5 of each unpacked file."""

IMAGE_SHAPE = (28, 28)
UNSIGNED_BYTE = 8

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class RawSplit:
    """One of the two halves of MNIST as it is on disk.

    Attributes:
        images: uint8, shape (n, 28, 28).
        labels: uint8 from 0 to 9, shape (n,).
    """

    images: Pixels
    labels: Pixels


def read_mnist(source: DataSource) -> tuple[RawSplit, RawSplit]:
    """Return MNIST's (training, test) images from `source.data_dir`/MNIST/raw.

    Raises:
        DataError: A file is missing and may not or cannot be downloaded, or is not what it should
            be; the text names the file and the keys to change.
    """
    if not source.data_dir:
        raise DataError(
            "task.data-dir = '': must be the folder that holds MNIST/raw, or an empty one with"
            " task.download = true"
        )
    folder = Path(source.data_dir) / "MNIST" / "raw"
    paths = _locate(folder)
    missing = [name for name in CHECKSUMS if name not in paths]
    if missing and not source.download:
        raise DataError(
            f"MNIST is incomplete in {folder}: no {', '.join(missing)} (or .gz); set task.data-dir"
            " to the folder that holds MNIST/raw, or set task.download = true"
        )
    if missing:
        _download(Path(source.data_dir), missing)
        paths = _locate(folder)
    return _read_split(paths, "train", source), _read_split(paths, "t10k", source)


def _locate(folder: Path) -> dict[str, Path]:
    """Return where each file is; the unpacked one where both forms are there."""
    candidates = [(name, folder / (name + end)) for end in (".gz", "") for name in CHECKSUMS]
    try:
        return {name: path for name, path in candidates if path.is_file()}
    except OSError as error:
        raise DataError(
            f"task.data-dir: {folder} cannot be looked into: {error.strerror}"
        ) from error


def _download(root: Path, names: Sequence[str]) -> None:
    from torchvision.datasets import MNIST  # slow to import, and only needed here

    target = root / "MNIST" / "raw"
    try:
        target.mkdir(parents=True, exist_ok=True)
        # Moved into place whole: neither a crash nor a second process leaves half a file behind.
        with TemporaryDirectory(dir=root) as staging:
            MNIST(staging, download=True)
            for name in names:
                (Path(staging) / "MNIST" / "raw" / name).replace(target / name)
    except (RuntimeError, OSError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"MNIST could not be downloaded into {target} ({reason}): put the four files there by"
            " hand, or point task.data-dir to a folder that has them"
        ) from error


def _read_split(paths: dict[str, Path], prefix: str, source: DataSource) -> RawSplit:
    images_name, labels_name = f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"
    images_path, labels_path = paths[images_name], paths[labels_name]
    checksums = CHECKSUMS if source.verify_checksums else {}
    images = _read(images_path, 3, checksums.get(images_name))
    labels = _read(labels_path, 1, checksums.get(labels_name))
    if images.shape[1:] != IMAGE_SHAPE or len(images) == 0:
        raise _altered(images_path, f"its images have shape {images.shape}, not (n, 28, 28)")
    if len(labels) != len(images):
        raise _altered(labels_path, f"{len(labels)} labels for {len(images)} images")
    if labels.max() > 9:
        raise _altered(labels_path, f"a label is {labels.max()}, more than 9")
    return RawSplit(images, labels)


def _read(path: Path, dimensions: int, checksum: str | None) -> Pixels:
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _altered(path, str(error)) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    array = _parse(path, content, dimensions)
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if checksum not in (None, digest):
        raise _altered(
            path,
            f"its MD5 is {digest}, the published one {checksum} (task.verify-checksums = false"
            " takes it as it is)",
        )
    return array


def _parse(path: Path, content: bytes, dimensions: int) -> Pixels:
    """Decode the idx format: two zero bytes, type, rank, then big-endian sizes, then the data."""
    header = 4 * (1 + dimensions)
    if len(content) < header or content[:4] != bytes((0, 0, UNSIGNED_BYTE, dimensions)):
        raise _altered(path, f"it does not start like an idx file of rank {dimensions}")
    shape = tuple(np.frombuffer(content, ">u4", dimensions, offset=4).tolist())
    if len(content) != header + prod(shape):
        raise _altered(
            path, f"{len(content)} bytes where its header asks for {header + prod(shape)}"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _altered(path: Path, reason: str) -> DataError:
    return DataError(
        f"{path} is truncated or altered: {reason}; delete it and set task.download = true to get"
        " it again"
    )
