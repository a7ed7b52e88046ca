"""CIFAR-10 from its batch files; the judge of the reading is torchvision.datasets.CIFAR10."""

from __future__ import annotations

import hashlib
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.datasets

from fedgame.errors import DataError
from fedgame.tasks.base import DataSource
from fedgame.tasks.cifar10_files import CHECKSUMS, read_cifar10
from tests.tasks.cifar_files import FOLDER, python2_batch, python3_batch
from tests.tasks.servers import Mirror

BATCH = "data_batch_3"
Peer = torchvision.datasets.CIFAR10


def source(folder: Path, *, download: bool = False, verify: bool = False) -> DataSource:
    return DataSource(
        name="cifar10", data_dir=str(folder), download=download, verify_checksums=verify
    )


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torchvision's reader, which does not ask for the published checksums."""
    for name in ("train_list", "test_list"):
        monkeypatch.setattr(Peer, name, [[file, None] for file, _ in getattr(Peer, name)])
    monkeypatch.setattr(Peer, "meta", {**Peer.meta, "md5": None})
    return Peer


def rewrite(folder: Path, write: Callable[[str, np.ndarray, list[int]], bytes]) -> None:
    for name in CHECKSUMS:
        path = folder / FOLDER / name
        old = pickle.loads(path.read_bytes(), encoding="latin1")
        path.write_bytes(write(name, old["data"], old["labels"]))


@pytest.mark.parametrize("write", [python2_batch, python3_batch])
def test_images_are_those_that_torchvision_reads(
    cifar_like: Path, peer: Any, write: Callable[..., bytes]
) -> None:
    rewrite(cifar_like, write)
    for split, train in zip(read_cifar10(source(cifar_like)), (True, False), strict=True):
        theirs = peer(str(cifar_like), train=train)
        assert split.images.shape == (60 if train else 20, 3, 32, 32)
        np.testing.assert_array_equal(split.images.transpose(0, 2, 3, 1), theirs.data)
        np.testing.assert_array_equal(split.labels, theirs.targets)


def test_an_array_in_fortran_order_is_read_as_torchvision_reads_it(
    cifar_like: Path, peer: Any
) -> None:
    rewrite(cifar_like, lambda name, x, y: python3_batch(name, np.asfortranarray(x), y))
    train, _ = read_cifar10(source(cifar_like))
    np.testing.assert_array_equal(
        train.images.transpose(0, 2, 3, 1), peer(str(cifar_like), train=True).data
    )


@pytest.mark.parametrize("data_dir", ["", "nowhere"])
def test_missing_data_say_how_to_get_them(tmp_path: Path, data_dir: str) -> None:
    where = DataSource(name="cifar10", data_dir=data_dir and str(tmp_path / data_dir))
    with pytest.raises(DataError, match=FOLDER) as caught:
        read_cifar10(where)
    text = str(caught.value)
    assert "task.data-dir" in text
    assert "task.download = true" in text
    assert "\n" not in text
    assert list(tmp_path.iterdir()) == []


def test_one_missing_file_is_named(cifar_like: Path) -> None:
    (cifar_like / FOLDER / BATCH).unlink()
    with pytest.raises(DataError, match=f"^CIFAR-10 is incomplete in .*: no {BATCH};"):
        read_cifar10(source(cifar_like))


def images(shape: tuple[int, ...] = (12, 3072), dtype: type = np.uint8) -> np.ndarray:
    return np.zeros(shape, dtype)


def batch(**changes: object) -> bytes:
    return pickle.dumps({"data": images(), "labels": [0] * 12} | changes, protocol=2)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-1], "."),
        (lambda content: content[:5000], "truncated"),
        (lambda content: content + b"0", "1 bytes after its end"),
        (lambda _: b"", "Ran out of input"),
        (lambda _: b"<html>", "invalid load key"),
        (lambda _: pickle.dumps([1], 2), "it holds no dictionary"),
        (lambda _: pickle.dumps({}, 2), "its 'data' is no array"),
        (lambda _: batch(data=b"bytes"), "its 'data' is no array"),
        (lambda _: batch(data=images((12, 3, 1024))), r"shape \(12, 3, 1024\), not \(n, 3072\)"),
        (lambda _: batch(data=images((3072,))), r"shape \(3072,\)"),
        (lambda _: batch(data=images(())), r"shape \(\)"),
        (lambda _: batch(data=images(dtype=np.float32)), "an array has type 'f4', not u1"),
        (lambda _: batch(labels=None), "its 'labels' is no list"),
        (lambda _: batch(labels=[0] * 11), "11 labels for 12 images"),
        (lambda _: batch(labels=[0] * 11 + [10]), "a label is not a whole number from 0 to 9"),
        (lambda _: batch(labels=[0] * 11 + [-1]), "a label is not"),
        (lambda _: batch(labels=[0] * 11 + [0.5]), "a label is not"),
        (lambda _: batch(labels=[0] * 11 + [10**5000]), "a label is not"),
    ],
)
@pytest.mark.parametrize("name", [BATCH, "test_batch"])
def test_damaged_files_are_named(
    cifar_like: Path, name: str, damage: Callable[[bytes], bytes], reason: str
) -> None:
    path = cifar_like / FOLDER / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=reason) as caught:
        read_cifar10(source(cifar_like))
    assert str(caught.value).startswith(f"{path} is truncated or altered: ")
    assert "\n" not in str(caught.value)


class Hostile:
    """Pickled as a call that makes a folder."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (str(self._target),)


def test_a_malicious_pickle_is_refused_in_one_line(cifar_like: Path, peer: Any) -> None:
    path, target = cifar_like / FOLDER / BATCH, cifar_like / "made by the pickle"
    path.write_bytes(batch(filenames=Hostile(target)))
    with pytest.raises(DataError, match=r"names '[\w.]+\.mkdir', which is not data; delete it"):
        read_cifar10(source(cifar_like))
    assert not target.exists()
    # the file does work where pickles are run
    peer(str(cifar_like), train=True)
    assert target.is_dir()


def test_checksums_are_verified_before_anything_is_read(
    cifar_like: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fedgame.tasks.cifar10_files.load_plain_pickle", lambda _: pytest.fail("read")
    )
    with pytest.raises(DataError, match=r"data_batch_1 is truncated or altered: its MD5") as caught:
        read_cifar10(source(cifar_like, verify=True))
    assert CHECKSUMS["data_batch_1"] in str(caught.value)
    assert "task.verify-checksums" in str(caught.value)


def test_the_checksums_are_torchvisions() -> None:
    assert dict(Peer.train_list + Peer.test_list) == CHECKSUMS


@pytest.fixture
def archive(cifar_like: Path, served: Mirror, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny data set as an archive that torchvision downloads."""
    path: Path = served.folder / Peer.filename
    with tarfile.open(path, "w:gz") as tar:
        tar.add(cifar_like / FOLDER, FOLDER)
    monkeypatch.setattr(Peer, "url", served.url + Peer.filename)
    monkeypatch.setattr(Peer, "tgz_md5", hashlib.md5(path.read_bytes()).hexdigest())
    return path


@pytest.mark.usefixtures("archive")
@pytest.mark.filterwarnings("ignore:.*filter:DeprecationWarning")  # torchvision's use of tarfile
def test_missing_files_are_downloaded_and_moved_into_place(cifar_like: Path) -> None:
    want = read_cifar10(source(cifar_like))
    fresh = cifar_like / "deeper" / "fresh"
    got = read_cifar10(source(fresh, download=True))
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(a.images, b.images)
        np.testing.assert_array_equal(a.labels, b.labels)
    assert [path.name for path in fresh.iterdir()] == [FOLDER]
    assert sorted(path.name for path in (fresh / FOLDER).iterdir()) == sorted(CHECKSUMS)


def test_an_altered_archive_is_not_unpacked(cifar_like: Path, archive: Path) -> None:
    archive.write_bytes(archive.read_bytes() + b"0")
    fresh = cifar_like / "fresh"
    with pytest.raises(
        DataError, match=r"CIFAR-10 could not be downloaded into .*data-dir"
    ) as caught:
        read_cifar10(source(fresh, download=True))
    assert "\n" not in str(caught.value)
    assert [path for path in fresh.rglob("*") if path.is_file()] == []


def test_a_complete_folder_is_not_downloaded_again(
    cifar_like: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Peer, "url", "http://127.0.0.1:9/nothing is here")
    assert len(read_cifar10(source(cifar_like, download=True))[0].labels) == 60
