"""MNIST's four idx files: found or downloaded, verified, and only then used.

torchvision.datasets.MNIST does not parse them, because that class verifies nothing once files are
unpacked, prefers the unverifiable `processed/*.pt` of its older versions, and cannot read a folder
that has only the compressed files.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np

from fedgame.tasks.base import DataSource
from fedgame.tasks.data_files import FileSet, Pixels, RawSplit, altered, read_content

CHECKSUMS = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
"""MD5 of each unpacked file."""

IMAGE_SHAPE = (28, 28)
UNSIGNED_BYTE = 8


def _fetch(root: Path) -> None:
    from torchvision.datasets import MNIST  # slow to import, and only needed here

    MNIST(str(root), download=True)


FILES = FileSet("MNIST", "MNIST/raw", CHECKSUMS, _fetch, compressed=True)


def read_mnist(source: DataSource) -> tuple[RawSplit, RawSplit]:
    """Return MNIST's (training, test) images from `source.data_dir`/MNIST/raw.

    Images have shape (n, 28, 28), labels are from 0 to 9.

    Raises:
        DataError: A file is missing and may not or cannot be downloaded, or is not what it should
            be; the text names the file and the keys to change.
    """
    paths = FILES.locate(source)
    return _read_split(paths, "train", source), _read_split(paths, "t10k", source)


def _read_split(paths: dict[str, Path], prefix: str, source: DataSource) -> RawSplit:
    images_path = paths[f"{prefix}-images-idx3-ubyte"]
    labels_path = paths[f"{prefix}-labels-idx1-ubyte"]
    images = _read(images_path, 3, source)
    labels = _read(labels_path, 1, source)
    if images.shape[1:] != IMAGE_SHAPE or len(images) == 0:
        raise altered(images_path, f"its images have shape {images.shape}, not (n, 28, 28)")
    if len(labels) != len(images):
        raise altered(labels_path, f"{len(labels)} labels for {len(images)} images")
    if labels.max() > 9:
        raise altered(labels_path, f"a label is {labels.max()}, more than 9")
    return RawSplit(images, labels)


def _read(path: Path, dimensions: int, source: DataSource) -> Pixels:
    content = read_content(path)
    array = _parse(path, content, dimensions)
    FILES.verify(path, content, source)
    return array


def _parse(path: Path, content: bytes, dimensions: int) -> Pixels:
    """Decode the idx format: two zero bytes, type, rank, then big-endian sizes, then the data."""
    header = 4 * (1 + dimensions)
    if len(content) < header or content[:4] != bytes((0, 0, UNSIGNED_BYTE, dimensions)):
        raise altered(path, f"it does not start like an idx file of rank {dimensions}")
    shape = tuple(np.frombuffer(content, ">u4", dimensions, offset=4).tolist())
    if len(content) != header + prod(shape):
        raise altered(
            path, f"{len(content)} bytes where its header asks for {header + prod(shape)}"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
