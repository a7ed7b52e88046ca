"""G_x against the Hessian in x that torch computes, over many examples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd.functional import hessian
from torch.func import functional_call

from fedgame.tasks.base import Task
from fedgame.tasks.cifar10 import Cifar10
from fedgame.tasks.digits import Digits
from fedgame.tasks.logistic import Logistic
from fedgame.tasks.mnist import Mnist
from fedgame.tasks.mnist_cnn import MnistCnn
from fedgame.tasks.quadratic import Quadratic


def largest_curvature(task: Task, parameters: np.ndarray, inputs: np.ndarray) -> float:
    """The largest spectral norm of a Hessian in x over the inputs, targets 0 and 1."""
    module = task.module().double()
    named = dict(module.named_parameters())
    pieces = np.split(parameters, np.cumsum([p.numel() for p in named.values()])[:-1])
    state = {
        name: torch.from_numpy(piece).double().view_as(named[name])
        for name, piece in zip(named, pieces, strict=True)
    }
    kind = torch.int64 if task.name in ("digits", "mnist") else torch.float64
    norms = []
    for x in inputs:
        for label in (0, 1):
            target = torch.tensor([label], dtype=kind)

            def loss(point: torch.Tensor, target: torch.Tensor = target) -> torch.Tensor:
                return task.losses(functional_call(module, state, (point[None],)), target).sum()

            matrix = hessian(loss, torch.from_numpy(x)).numpy()  # type: ignore[no-untyped-call]
            norms.append(np.linalg.norm(matrix, 2))
    return float(max(norms))


@pytest.mark.parametrize("scale", [0.3, 1.5])
@pytest.mark.parametrize(
    "task", [Quadratic(dim=6), Logistic(dim=6), Digits()], ids=lambda t: t.name
)
def test_no_hessian_is_larger(task: Task, scale: float) -> None:
    rng = np.random.default_rng(4)
    size = sum(p.numel() for p in task.module().parameters())
    parameters = (scale * rng.standard_normal(size)).astype(np.float32)
    inputs = rng.standard_normal((6, task.module().in_features))  # type: ignore[arg-type]
    bound = task.input_smoothness(parameters)
    assert bound is not None
    found = largest_curvature(task, parameters, np.vstack([0 * inputs[:1], inputs]))
    assert found <= bound * (1 + 1e-9)
    if task.name != "digits":
        # a quadratic has it everywhere, a logistic loss where x.w = 0
        assert found == pytest.approx(bound, rel=1e-6)


def test_softmax_attains_it_between_two_classes() -> None:
    task = Digits()
    parameters = np.zeros(650, dtype=np.float32)
    direction = np.random.default_rng(5).standard_normal(64)
    parameters[:64], parameters[64:128] = direction, -direction
    # the other classes are next to impossible
    parameters[642:650] = -50.0
    bound = task.input_smoothness(parameters)
    assert bound == pytest.approx(float(direction @ direction), rel=1e-6)
    assert largest_curvature(task, parameters, np.zeros((1, 64))) == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("task", [Quadratic(), Logistic(), Digits(), Mnist(hidden=())])
def test_a_linear_model_at_zero_has_none(task: Task) -> None:
    assert task.input_smoothness(task.initial_parameters(0)) == 0


@pytest.mark.parametrize("task", [Mnist(), MnistCnn(), Cifar10()], ids=lambda t: t.name)
def test_networks_have_no_known_one(task: Task) -> None:
    assert task.input_smoothness(task.initial_parameters(0)) is None
