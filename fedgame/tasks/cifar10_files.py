"""CIFAR-10's six batch files: found or downloaded, verified, and read as data only.

torchvision.datasets.CIFAR10 does not read them, because it runs whatever the pickles say, and
cannot be told to take files whose checksums are not the published ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedgame.tasks.base import DataSource
from fedgame.tasks.data_files import FileSet, Pixels, RawSplit, altered, read_content
from fedgame.tasks.plain_pickle import PickledArray, load_plain_pickle

CHECKSUMS = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
"""MD5 of each file."""

TEST = "test_batch"
IMAGE_SHAPE = (3, 32, 32)
PIXELS = 3072


def _fetch(root: Path) -> None:
    from torchvision.datasets import CIFAR10  # slow to import, and only needed here
    from torchvision.datasets.utils import download_and_extract_archive

    # the class itself would unpickle the files to see whether they are whole
    download_and_extract_archive(
        CIFAR10.url, str(root), filename=CIFAR10.filename, md5=CIFAR10.tgz_md5
    )


FILES = FileSet("CIFAR-10", "cifar-10-batches-py", CHECKSUMS, _fetch)


def read_cifar10(source: DataSource) -> tuple[RawSplit, RawSplit]:
    """Return CIFAR-10's (training, test) images from `source.data_dir`/cifar-10-batches-py.

    Images have shape (n, 3, 32, 32), red, green, blue; labels are from 0 to 9.

    Raises:
        DataError: A file is missing and may not or cannot be downloaded, or is not what it should
            be; the text names the file and the keys to change.
    """
    paths = FILES.locate(source)
    batches = [_read(path, source) for name, path in paths.items() if name != TEST]
    images = np.concatenate([batch.images for batch in batches])
    labels = np.concatenate([batch.labels for batch in batches])
    return RawSplit(images, labels), _read(paths[TEST], source)


def _read(path: Path, source: DataSource) -> RawSplit:
    content = read_content(path)
    FILES.verify(path, content, source)
    try:
        batch = load_plain_pickle(content)
    except ValueError as error:
        raise altered(path, str(error)) from error
    if not isinstance(batch, dict):
        raise altered(path, "it holds no dictionary")
    images = _images(path, batch.get("data"))
    return RawSplit(images, _labels(path, batch.get("labels"), len(images)))


def _images(path: Path, data: object) -> Pixels:
    if not isinstance(data, PickledArray):
        raise altered(path, "its 'data' is no array")
    shape = data.values.shape
    if shape[1:] != (PIXELS,) or shape[0] == 0:
        raise altered(path, f"its images have shape {shape}, not (n, {PIXELS})")
    return data.values.reshape(-1, *IMAGE_SHAPE)


def _labels(path: Path, labels: object, count: int) -> Pixels:
    if not isinstance(labels, list):
        raise altered(path, "its 'labels' is no list")
    if len(labels) != count:
        raise altered(path, f"{len(labels)} labels for {count} images")
    if not all(type(label) is int and 0 <= label <= 9 for label in labels):
        raise altered(path, "a label is not a whole number from 0 to 9")
    return np.array(labels, dtype=np.uint8)
