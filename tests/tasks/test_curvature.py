"""Hessian traces; the judge is a brute-force Hessian by torch, and the textbook closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.autograd.functional import hessian
from torch.func import functional_call

from fedgame.tasks.base import DataSource, Examples, Task
from fedgame.tasks.curvature import per_example_curvature
from fedgame.tasks.digits import Digits
from fedgame.tasks.logistic import Logistic
from fedgame.tasks.mnist import Mnist
from fedgame.tasks.models import multilayer_perceptron
from fedgame.tasks.quadratic import Quadratic


def few(task: Task, count: int) -> Examples:
    train, _ = task.load(DataSource(), 4, 0)
    return train.subset(np.arange(count))


def random_parameters(task: Task, scale: float = 0.5) -> NDArray[np.float32]:
    size = sum(p.numel() for p in task.module().parameters())
    return (scale * np.random.default_rng(1).standard_normal(size)).astype(np.float32)


def full_hessians(
    task: Task, parameters: NDArray[np.float32], examples: Examples
) -> NDArray[np.float64]:
    """Full Hessian matrix of each example's loss, one example at a time, in float64."""
    module = task.module().double()
    own = dict(module.named_parameters())
    hessians = []
    for x, y in zip(examples.inputs, examples.targets, strict=True):
        inputs, target = torch.from_numpy(x[None]).double(), torch.tensor(y)[None]

        def loss(
            flat: torch.Tensor, inputs: torch.Tensor = inputs, target: torch.Tensor = target
        ) -> torch.Tensor:
            pieces = torch.split(flat, [value.numel() for value in own.values()])
            state = {k: part.view_as(own[k]) for k, part in zip(own, pieces, strict=True)}
            return task.losses(functional_call(module, state, (inputs,)), target).sum()

        flat = torch.from_numpy(parameters).double()
        hessians.append(hessian(loss, flat).numpy())  # type: ignore[no-untyped-call]
    return np.array(hessians)


def brute_force_traces(
    task: Task, parameters: NDArray[np.float32], examples: Examples
) -> NDArray[np.float64]:
    diagonals = np.diagonal(full_hessians(task, parameters, examples), axis1=1, axis2=2)
    return np.asarray(diagonals.sum(1), dtype=np.float64)


class SmallNetwork(Mnist):
    """A network small enough for a full Hessian: 6 pixels, one hidden layer of 5, 10 classes."""

    def module(self) -> torch.nn.Module:
        return multilayer_perceptron((6, 5, 10))


def small_examples(count: int = 7) -> Examples:
    rng = np.random.default_rng(2)
    inputs = rng.standard_normal((count, 6)).astype(np.float32)
    return Examples(inputs, rng.integers(0, 10, count))


@pytest.mark.parametrize("task", [Quadratic(), Logistic(), Digits()], ids=lambda t: t.name)
def test_exact_traces_match_the_full_hessian(task: Task) -> None:
    examples = few(task, 4)
    parameters = random_parameters(task)
    got = per_example_curvature(task, parameters, examples, np.random.default_rng(0))
    assert got.shape == (4,)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, brute_force_traces(task, parameters, examples), rtol=1e-10)


def test_exact_traces_match_the_closed_forms() -> None:
    rng = np.random.default_rng(0)
    task: Task = Quadratic()
    examples = few(task, 60)
    squares = np.square(examples.inputs.astype(np.float64)).sum(1)
    got = per_example_curvature(task, random_parameters(task), examples, rng)
    np.testing.assert_allclose(got, squares, rtol=1e-12)

    task = Logistic()
    examples = few(task, 60)
    x, w = examples.inputs.astype(np.float64), random_parameters(task).astype(np.float64)
    p = 1 / (1 + np.exp(-x @ w))
    got = per_example_curvature(task, random_parameters(task), examples, rng)
    np.testing.assert_allclose(got, p * (1 - p) * np.square(x).sum(1), rtol=1e-12)

    task = Digits()
    examples = few(task, 60)
    x, w = examples.inputs.astype(np.float64), random_parameters(task).astype(np.float64)
    logits = x @ w[:640].reshape(10, 64).T + w[640:]
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    want = (p * (1 - p)).sum(1) * (np.square(x).sum(1) + 1)
    got = per_example_curvature(task, random_parameters(task), examples, rng)
    np.testing.assert_allclose(got, want, rtol=1e-10)


def test_exact_traces_do_not_depend_on_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Logistic()
    examples, parameters = few(task, 30), random_parameters(task)
    rng = np.random.default_rng(0)
    whole = per_example_curvature(task, parameters, examples, rng)
    monkeypatch.setattr("fedgame.tasks.curvature.BATCH", 7)
    np.testing.assert_allclose(
        per_example_curvature(task, parameters, examples, rng), whole, rtol=1e-12
    )


def test_one_probe_gives_the_quadratic_form_of_the_full_hessian() -> None:
    task, examples = SmallNetwork(), small_examples(3)
    parameters = random_parameters(task)
    got = per_example_curvature(task, parameters, examples, np.random.default_rng(5), probes=1)
    v = np.random.default_rng(5).integers(0, 2, 95) * 2.0 - 1.0
    want = np.einsum("i,nij,j->n", v, full_hessians(task, parameters, examples), v)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_probes_average_to_the_trace_of_a_network() -> None:
    task, examples = SmallNetwork(), small_examples()
    parameters = random_parameters(task)
    want = brute_force_traces(task, parameters, examples)
    rng = np.random.default_rng(3)
    draws = np.array(
        [per_example_curvature(task, parameters, examples, rng, probes=20) for _ in range(30)]
    )
    error = draws.std(0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - want) < 5 * error).all()
    assert (error < 0.2 * want.mean()).all()


def test_an_examples_estimate_does_not_depend_on_the_other_examples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedgame.tasks.curvature.BATCH", 3)
    task, examples = SmallNetwork(), small_examples()
    parameters = random_parameters(task)
    rest = examples.subset(np.array([1, 2, 3, 4, 5, 6]))
    whole = per_example_curvature(task, parameters, examples, np.random.default_rng(4))
    without = per_example_curvature(task, parameters, rest, np.random.default_rng(4))
    np.testing.assert_allclose(without, whole[1:], rtol=1e-5, atol=1e-5)
