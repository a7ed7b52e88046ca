"""MNIST from its raw files; the judge of the reading is torchvision.datasets.MNIST."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.datasets
from pydantic import ValidationError

from fedgame.errors import ConfigError, DataError
from fedgame.tasks.base import DataSource
from fedgame.tasks.mnist import Mnist
from fedgame.tasks.mnist_files import CHECKSUMS, read_mnist
from tests.tasks.servers import Mirror

TRAIN, TEST = 30, 12
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with 30 training and 12 test images of noise."""
    rng = np.random.default_rng(0)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for prefix, count in (("train", TRAIN), ("t10k", TEST)):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        (raw / f"{prefix}-images-idx3-ubyte").write_bytes(idx(images))
        (raw / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(labels))
    return tmp_path


def source(folder: Path, *, train_size: int = 0, download: bool = False) -> DataSource:
    return DataSource(
        name="mnist",
        data_dir=str(folder),
        download=download,
        verify_checksums=False,
        train_size=train_size,
    )


def compress(raw: Path) -> None:
    for name in CHECKSUMS:
        (raw / f"{name}.gz").write_bytes(gzip.compress((raw / name).read_bytes()))
        (raw / name).unlink()


def test_images_are_those_that_torchvision_reads(folder: Path) -> None:
    for split, train in zip(read_mnist(source(folder)), (True, False), strict=True):
        peer = torchvision.datasets.MNIST(str(folder), train=train)
        np.testing.assert_array_equal(split.images, peer.data.numpy())
        np.testing.assert_array_equal(split.labels, peer.targets.numpy())


def test_compressed_files_are_read_where_they_lie(folder: Path) -> None:
    plain = read_mnist(source(folder))
    raw = folder / "MNIST" / "raw"
    compress(raw)
    packed = read_mnist(source(folder))
    for a, b in zip(plain, packed, strict=True):
        np.testing.assert_array_equal(a.images, b.images)
        np.testing.assert_array_equal(a.labels, b.labels)
    assert sorted(path.name for path in raw.iterdir()) == sorted(f"{n}.gz" for n in CHECKSUMS)


def test_pixels_are_scaled_and_flattened(folder: Path) -> None:
    raw, _ = read_mnist(source(folder))
    plain, plain_test = Mnist(standardise=False).load(source(folder), 5, 0)
    standard, _ = Mnist().load(source(folder), 5, 0)
    assert plain.inputs.shape == (TRAIN, 784)
    assert plain_test.inputs.shape == (TEST, 784)
    assert plain.inputs.dtype == standard.inputs.dtype == np.float32
    assert plain.targets.dtype == np.int64
    assert plain.inputs.min() == 0.0
    assert plain.inputs.max() == 1.0
    np.testing.assert_allclose(
        standard.inputs, (plain.inputs.astype(np.float64) - 0.1307) / 0.3081, atol=1e-6
    )
    rows = {
        tuple(image.ravel().tolist()): int(y) for image, y in zip(*vars(raw).values(), strict=True)
    }
    for x, y in zip(plain.inputs, plain.targets, strict=True):
        assert rows.pop(tuple(np.rint(x * 255).astype(int).tolist())) == y
    assert not rows


def test_the_order_is_a_public_shuffle(folder: Path) -> None:
    first, again, other = (Mnist().load(source(folder), 5, seed)[0] for seed in (1, 1, 2))
    assert first.inputs.tobytes() == again.inputs.tobytes()
    assert first.inputs.tobytes() != other.inputs.tobytes()
    assert first.targets.tolist() != (np.arange(TRAIN) % 10).tolist()
    few, test = Mnist().load(source(folder, train_size=7), 5, 1)
    np.testing.assert_array_equal(few.inputs, first.inputs[:7])
    assert len(test) == TEST


def test_a_train_size_beyond_the_data_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.train-size = 31: at most 30"):
        Mnist().load(source(folder, train_size=31), 5, 0)


@pytest.mark.parametrize("data_dir", ["", "nowhere"])
def test_missing_data_say_how_to_get_them(tmp_path: Path, data_dir: str) -> None:
    where = DataSource(name="mnist", data_dir=data_dir and str(tmp_path / data_dir))
    with pytest.raises(DataError) as caught:
        Mnist().load(where, 5, 0)
    text = str(caught.value)
    assert "task.data-dir" in text
    assert "task.download = true" in text
    assert "\n" not in text
    assert list(tmp_path.iterdir()) == []


def test_one_missing_file_is_named(folder: Path) -> None:
    (folder / "MNIST" / "raw" / LABELS).unlink()
    with pytest.raises(DataError, match=f"no {LABELS} "):
        Mnist().load(source(folder), 5, 0)


def test_a_folder_that_cannot_be_looked_into_is_named() -> None:
    with pytest.raises(DataError, match=r"task\.data-dir: .* cannot be looked into"):
        Mnist().load(DataSource(data_dir="/" + "x" * 5000), 5, 0)


def overwrite(start: int, new: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content[:start] + new + content[start + len(new) :]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        (IMAGES, lambda content: content[:-1], "23535 bytes where its header asks for 23536"),
        (IMAGES, lambda content: content + b"0", "23537 bytes where"),
        (IMAGES, lambda content: content[:7], "does not start like an idx file of rank 3"),
        (IMAGES, lambda _: b"", "does not start like an idx file"),
        (IMAGES, overwrite(2, b"\x0d"), "does not start like an idx file"),
        (IMAGES, overwrite(8, idx(np.zeros((14, 56)))[4:12]), r"shape \(30, 14, 56\)"),
        (IMAGES, lambda _: idx(np.zeros((0, 28, 28))), r"shape \(0, 28, 28\)"),
        (LABELS, lambda _: idx(np.zeros(29, np.uint8)), "29 labels for 30 images"),
        (LABELS, lambda _: idx(np.full(30, 10, np.uint8)), "a label is 10, more than 9"),
        (LABELS, lambda content: b"<html>" + content, "does not start like an idx file of rank 1"),
    ],
)
def test_damaged_files_are_named(
    folder: Path, suffix: str, name: str, damage: Callable[[bytes], bytes], reason: str
) -> None:
    raw = folder / "MNIST" / "raw"
    (raw / name).write_bytes(damage((raw / name).read_bytes()))
    if suffix:
        compress(raw)
    with pytest.raises(DataError, match=reason) as caught:
        Mnist().load(source(folder), 5, 0)
    assert str(caught.value).startswith(f"{raw / name}{suffix} is truncated or altered: ")


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-9], lambda c: b"junk" + c, lambda c: c[:40] + b"\xff" * 20 + c[60:]]
)
def test_damaged_compression_is_named(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    raw = folder / "MNIST" / "raw"
    compress(raw)
    packed = raw / f"{IMAGES}.gz"
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(DataError, match=f"{IMAGES}.gz is truncated or altered"):
        Mnist().load(source(folder), 5, 0)


def test_checksums_are_verified_unless_switched_off(folder: Path) -> None:
    with pytest.raises(DataError, match=f"{IMAGES} is truncated or altered: its MD5 is") as caught:
        Mnist().load(DataSource(data_dir=str(folder)), 5, 0)
    assert CHECKSUMS[IMAGES] in str(caught.value)
    assert "task.verify-checksums" in str(caught.value)


def test_a_processed_folder_of_old_torchvision_is_not_trusted(folder: Path) -> None:
    processed = folder / "MNIST" / "processed"
    processed.mkdir()
    fake = (torch.zeros(2, 28, 28, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
    for name in ("training.pt", "test.pt"):
        torch.save(fake, processed / name)
    assert len(Mnist().load(source(folder), 5, 0)[0]) == TRAIN


@pytest.fixture
def mirror(served: Mirror, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is served in place of torchvision's mirrors."""
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [served.url])
    return served.folder


def test_missing_files_are_downloaded_and_moved_into_place(
    folder: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = read_mnist(source(folder))
    resources = []
    for name in CHECKSUMS:
        packed = gzip.compress((folder / "MNIST" / "raw" / name).read_bytes())
        (mirror / f"{name}.gz").write_bytes(packed)
        resources.append((f"{name}.gz", hashlib.md5(packed).hexdigest()))
    monkeypatch.setattr(torchvision.datasets.MNIST, "resources", resources)
    fresh = folder / "deeper" / "fresh"
    got = read_mnist(source(fresh, download=True))
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(a.images, b.images)
        np.testing.assert_array_equal(a.labels, b.labels)
    assert [path.name for path in fresh.iterdir()] == ["MNIST"]
    assert sorted(path.name for path in (fresh / "MNIST" / "raw").iterdir()) == sorted(CHECKSUMS)


def test_a_complete_folder_is_not_downloaded_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torchvision.datasets.MNIST, "download", lambda _: pytest.fail("downloaded"))
    assert len(Mnist().load(source(folder, download=True), 5, 0)[0]) == TRAIN


def test_a_failed_download_says_so_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = f"{(tmp_path / 'no mirror').as_uri()}/"
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [nowhere])
    fresh = tmp_path / "fresh"
    with pytest.raises(DataError, match=r"could not be downloaded into .*task\.data-dir") as caught:
        read_mnist(source(fresh, download=True))
    assert "\n" not in str(caught.value)
    assert [path for path in fresh.rglob("*") if path.is_file()] == []


def test_widths_come_as_text_or_sequence() -> None:
    assert Mnist().hidden == (128, 64)
    assert Mnist(hidden="128, 64").hidden == (128, 64)  # type: ignore[arg-type]
    assert Mnist(hidden=[32]).hidden == (32,)  # type: ignore[arg-type]
    assert Mnist(hidden=32).hidden == (32,)  # type: ignore[arg-type]
    assert Mnist(hidden="  ").hidden == ()  # type: ignore[arg-type]
    for bad in ("128,,64", "128, x", "0", "-3", (1.5,)):
        with pytest.raises(ValidationError, match="hidden"):
            Mnist(hidden=bad)  # type: ignore[arg-type]


def test_models_have_the_papers_shape() -> None:
    assert [tuple(p.shape) for p in Mnist().module().parameters()] == [
        (128, 784), (128,), (64, 128), (64,), (10, 64), (10,),
    ]  # fmt: skip
    assert Mnist().initial_parameters(0).shape == (109_386,)
    assert Mnist().initial_parameters(0).any()
    linear = Mnist(hidden=())
    assert isinstance(linear.module(), torch.nn.Linear)
    assert not linear.initial_parameters(0).any()


@pytest.mark.data
def test_the_true_files_have_the_published_moments(data_dir: Path) -> None:
    if not (data_dir / "MNIST" / "raw").is_dir():
        pytest.skip(f"no MNIST/raw in {data_dir}: set FEDGAME_DATA_DIR")
    where = DataSource(name="mnist", data_dir=str(data_dir))
    train, test = Mnist().load(where, 10, 42)
    assert train.inputs.shape == (60_000, 784)
    assert test.inputs.shape == (10_000, 784)
    assert abs(train.inputs.mean(dtype=np.float64)) < 1e-3
    assert abs(train.inputs.std(dtype=np.float64) - 1) < 1e-3
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(train.targets).tolist() == counts
