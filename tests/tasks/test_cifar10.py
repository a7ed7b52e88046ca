"""The convolutional network on CIFAR-10; the judge takes gradients one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedgame.errors import ConfigError, DataError
from fedgame.mechanisms.bookkeeping import PerExampleClipper
from fedgame.mechanisms.supported_layers import supported_layers
from fedgame.tasks import TASKS
from fedgame.tasks.base import DataSource
from fedgame.tasks.cifar10 import Cifar10
from fedgame.tasks.cifar10_files import read_cifar10
from tests.support import Run
from tests.tasks.peers import clipped_sum_by_loop, noise_examples

TASK = Cifar10()


def source(folder: Path, train_size: int = 0) -> DataSource:
    return DataSource(data_dir=str(folder), verify_checksums=False, train_size=train_size)


def peer() -> nn.Module:
    """The network as Tramer and Boneh's table lists it: each activation before its pooling."""

    def convolutions(inputs: int, outputs: int) -> list[nn.Module]:
        first = nn.Conv2d(inputs, outputs, 3, stride=1, padding=1)
        second = nn.Conv2d(outputs, outputs, 3, stride=1, padding=1)
        return [first, nn.Tanh(), second, nn.Tanh(), nn.MaxPool2d(2, stride=2)]

    return nn.Sequential(
        *(*convolutions(3, 32), *convolutions(32, 64), *convolutions(64, 128)),
        *(nn.Flatten(), nn.Linear(128 * 4 * 4, 128), nn.Tanh(), nn.Linear(128, 10)),
    )


def test_it_has_550570_parameters_in_the_peers_order() -> None:
    assert TASKS.get("cifar10") is Cifar10
    assert [p.shape for p in TASK.module().parameters()] == [p.shape for p in peer().parameters()]
    start = TASK.initial_parameters(1)
    assert start.shape == (550_570,)
    assert np.abs(start[:864]).max() <= 27**-0.5
    np.testing.assert_array_equal(start, TASK.initial_parameters(1))


def test_clipped_sums_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fedgame.mechanisms.supported_layers._opacus_rule",
        lambda title, _: pytest.fail(f"{title} falls back to Opacus"),
    )
    assert len(supported_layers(TASK.module())) == 8
    examples, parameters = noise_examples((3, 32, 32)), TASK.initial_parameters(0)
    _, norms = clipped_sum_by_loop(peer(), parameters, examples, 1.0)
    norm = float(np.median(norms))
    want, _ = clipped_sum_by_loop(peer(), parameters, examples, norm)
    got = PerExampleClipper(TASK.module(), TASK.losses).clipped_sum(
        parameters, examples.inputs, examples.targets, norm
    )
    assert np.abs(got.value - want).max() < 1e-5 * np.abs(want).max()


def test_pixels_are_standardised_by_channel(cifar_like: Path) -> None:
    raw, raw_test = read_cifar10(source(cifar_like))
    train, test = TASK.load(source(cifar_like), 5, 0)
    assert train.inputs.shape == (60, 3, 32, 32)
    assert train.inputs.dtype == test.inputs.dtype == np.float32
    assert train.targets.dtype == np.int64
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    colours_last = raw_test.images.transpose(0, 2, 3, 1) / 255.0
    want = ((colours_last - mean) / std).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(test.inputs, want, atol=1e-6)
    np.testing.assert_array_equal(test.targets, raw_test.labels)
    rows = {tuple(x.ravel().tolist()): int(y) for x, y in zip(*vars(raw).values(), strict=True)}
    back = (train.inputs.transpose(0, 2, 3, 1) * std + mean).transpose(0, 3, 1, 2)
    for x, y in zip(back, train.targets, strict=True):
        assert rows.pop(tuple(np.rint(x.ravel() * 255).astype(int).tolist())) == y
    assert not rows


def test_the_order_is_a_public_shuffle(cifar_like: Path) -> None:
    first, again, other = (TASK.load(source(cifar_like), 5, seed)[0] for seed in (1, 1, 2))
    assert first.inputs.tobytes() == again.inputs.tobytes()
    assert first.inputs.tobytes() != other.inputs.tobytes()
    few, test = TASK.load(source(cifar_like, train_size=7), 5, 1)
    np.testing.assert_array_equal(few.inputs, first.inputs[:7])
    assert len(test) == 20
    with pytest.raises(ConfigError, match=r"task\.train-size = 61: at most 60"):
        TASK.load(source(cifar_like, train_size=61), 5, 0)


def test_building_leaves_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    TASK.module()
    TASK.initial_parameters(0)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_federated_run(run: Run, cifar_like: Path) -> None:
    overrides = {
        "cell": "dp-sgd",
        "task.name": "cifar10",
        "task.data-dir": str(cifar_like),
        "task.verify-checksums": False,
        "partition.name": "similarity",
        "similarity.percent": 0.0,
        "rounds": 2,
    }
    summary = run(overrides).summary
    assert (summary["status"], summary["task"], summary["rounds"]) == ("finished", "cifar10", 2)


def test_a_run_on_altered_files_is_refused_before_it_starts(run: Run, cifar_like: Path) -> None:
    with pytest.raises(DataError, match="its MD5 is"):
        run({"task.name": "cifar10", "task.data-dir": str(cifar_like)})


@pytest.mark.data
def test_the_true_files_are_read_whole(data_dir: Path) -> None:
    if not (data_dir / "cifar-10-batches-py").is_dir():
        pytest.skip(f"no cifar-10-batches-py in {data_dir}: set FEDGAME_DATA_DIR")
    train, test = TASK.load(source(data_dir), 100, 42)
    assert train.inputs.shape == (50_000, 3, 32, 32)
    assert test.inputs.shape == (10_000, 3, 32, 32)
    assert set(np.bincount(train.targets)) == {5000}
    assert set(np.bincount(test.targets)) == {1000}
    assert np.abs(train.inputs.mean((0, 2, 3))).max() < 0.25
    assert np.abs(train.inputs.std((0, 2, 3)) - 1).max() < 0.2
