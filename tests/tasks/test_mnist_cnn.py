"""The convolutional network on MNIST; the judges are Opacus and gradients one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedgame.mechanisms.bookkeeping import PerExampleClipper
from fedgame.mechanisms.layer_gradients import Materialised, RankOne
from fedgame.mechanisms.supported_layers import supported_layers
from fedgame.tasks import TASKS
from fedgame.tasks.base import DataSource, Examples
from fedgame.tasks.evaluation import evaluate
from fedgame.tasks.mnist import Mnist
from fedgame.tasks.mnist_cnn import MnistCnn
from tests.support import Run
from tests.tasks.peers import clipped_sum_by_loop, clipped_sum_by_opacus, noise_examples

TASK = MnistCnn()


def peer() -> nn.Module:
    """The network as Opacus' MNIST example writes it: each activation before its pooling."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1)),
        *(nn.Flatten(), nn.Linear(32 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10)),
    )


def test_it_has_26010_parameters_in_the_peers_order() -> None:
    assert TASKS.get("mnist-cnn") is MnistCnn
    ours, theirs = TASK.module(), peer()
    assert [p.shape for p in ours.parameters()] == [p.shape for p in theirs.parameters()]
    start = TASK.initial_parameters(1)
    assert start.shape == (26_010,)
    assert np.abs(start[:1024]).max() <= 1 / 8
    np.testing.assert_array_equal(start, TASK.initial_parameters(1))
    assert not np.array_equal(start, TASK.initial_parameters(2))


def test_outputs_are_the_peers() -> None:
    ours, theirs, parameters = TASK.module(), peer(), torch.from_numpy(TASK.initial_parameters(0))
    inputs = torch.from_numpy(noise_examples((1, 28, 28)).inputs)
    for module in (ours, theirs):
        nn.utils.vector_to_parameters(parameters, module.parameters())
    with torch.no_grad():
        torch.testing.assert_close(ours(inputs), theirs(inputs), rtol=0, atol=2e-6)


@pytest.mark.filterwarnings("ignore")  # importing Opacus warns about torch's own deprecations
def test_clipped_sums_are_those_of_opacus_and_of_the_definition() -> None:
    examples, parameters = noise_examples((1, 28, 28), 12), TASK.initial_parameters(0)
    _, norms = clipped_sum_by_loop(peer(), parameters, examples, 1.0)
    norm = float(np.median(norms))
    want, _ = clipped_sum_by_loop(peer(), parameters, examples, norm)
    got = PerExampleClipper(TASK.module(), TASK.losses).clipped_sum(
        parameters, examples.inputs, examples.targets, norm
    )
    opacus = clipped_sum_by_opacus(peer(), parameters, examples, norm)
    scale = np.abs(want).max()
    assert np.abs(got.value - want).max() < 1e-5 * scale
    assert np.abs(opacus - want).max() < 1e-5 * scale


def test_every_layer_has_a_rule_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fedgame.mechanisms.supported_layers._opacus_rule",
        lambda title, _: pytest.fail(f"{title} falls back to Opacus"),
    )
    layers = supported_layers(TASK.module())
    assert [type(layer.module) for layer in layers] == [nn.Conv2d] * 2 + [nn.Linear] * 2
    kinds = []
    for layer, shapes in zip(
        layers,
        [((1, 28, 28), (16, 14, 14)), ((16, 13, 13), (32, 5, 5)), ((512,), (32,)), ((32,), (10,))],
        strict=True,
    ):
        kinds.append(type(layer.rule(*(torch.zeros(2, *shape) for shape in shapes))))
    assert kinds == [Materialised, Materialised, RankOne, RankOne]


def test_images_are_those_of_the_flat_task(mnist_like: Path) -> None:
    where = DataSource(data_dir=str(mnist_like), verify_checksums=False, train_size=25)
    for images, flat in zip(TASK.load(where, 5, 1), Mnist().load(where, 5, 1), strict=True):
        assert images.inputs.shape[1:] == (1, 28, 28)
        np.testing.assert_array_equal(images.inputs.reshape(len(flat), -1), flat.inputs)
        np.testing.assert_array_equal(images.targets, flat.targets)
        assert images.inputs.flags.writeable


def test_building_leaves_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    TASK.module()
    TASK.initial_parameters(0)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_federated_run_has_the_same_bits_on_any_number_of_nodes(
    run: Run, mnist_like: Path
) -> None:
    overrides = {
        "task.name": "mnist-cnn",
        "task.data-dir": str(mnist_like),
        "task.verify-checksums": False,
        "partition.name": "similarity",
        "similarity.percent": 30.0,
        "rounds": 2,
    }
    runs = [run(overrides, nodes=nodes) for nodes in (1, 2)]
    assert [finished.summary["status"] for finished in runs] == ["finished"] * 2
    assert len({finished.summary["model_sha256"] for finished in runs}) == 1


@pytest.mark.data
def test_the_loss_on_the_true_images_falls_under_clipping(data_dir: Path) -> None:
    if not (data_dir / "MNIST" / "raw").is_dir():
        pytest.skip(f"no MNIST/raw in {data_dir}: set FEDGAME_DATA_DIR")
    train, test = TASK.load(DataSource(data_dir=str(data_dir)), 100, 42)
    few = Examples(test.inputs[:1000], test.targets[:1000])
    clipper, parameters = PerExampleClipper(TASK.module(), TASK.losses), TASK.initial_parameters(42)
    before, _ = evaluate(TASK, TASK.module(), parameters, few)
    for step in range(40):
        part = train.subset(np.arange(200 * step, 200 * (step + 1)))
        total = clipper.clipped_sum(parameters, part.inputs, part.targets, 6.0)
        parameters = (parameters - 0.1 * total.value / 200).astype(np.float32)
    after, accuracy = evaluate(TASK, TASK.module(), parameters, few)
    assert after < 0.8 * before
    assert accuracy is not None
    assert accuracy > 0.4
