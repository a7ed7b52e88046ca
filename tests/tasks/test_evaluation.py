"""Losses, accuracy and loading of flat vectors; the judge is plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedgame.tasks.base import DataSource, Examples
from fedgame.tasks.digits import Digits
from fedgame.tasks.evaluation import evaluate, load_parameters, named_tensors, per_example_losses
from fedgame.tasks.logistic import Logistic
from fedgame.tasks.mnist import Mnist
from fedgame.tasks.models import multilayer_perceptron
from fedgame.tasks.quadratic import Quadratic


def test_losses_of_each_task_match_numpy() -> None:
    rng = np.random.default_rng(0)
    x5, x20 = (rng.standard_normal((9, d)).astype(np.float32) for d in (5, 20))
    w5, w20 = rng.standard_normal(5), rng.standard_normal(20)
    b = rng.standard_normal(9).astype(np.float32)
    y = rng.integers(0, 2, 9).astype(np.float32)

    quadratic = Quadratic()
    got = per_example_losses(quadratic, quadratic.module(), w5, Examples(x5, b))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, 0.5 * (x5 @ w5 - b) ** 2, rtol=1e-4, atol=1e-6)

    logistic = Logistic()
    got = per_example_losses(logistic, logistic.module(), w20, Examples(x20, y))
    np.testing.assert_allclose(got, np.log1p(np.exp(-(2 * y - 1) * (x20 @ w20))), rtol=1e-4)

    digits = Digits()
    x, w = rng.standard_normal((9, 64)).astype(np.float32), rng.standard_normal(650)
    labels = rng.integers(0, 10, 9)
    logits = x @ w[:640].reshape(10, 64).T + w[640:]
    want = np.log(np.exp(logits).sum(1)) - logits[np.arange(9), labels]
    got = per_example_losses(digits, digits.module(), w, Examples(x, labels))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    loss, accuracy = evaluate(digits, digits.module(), w, Examples(x, labels))
    assert loss == got.mean()
    assert accuracy == (logits.argmax(1) == labels).mean()


@pytest.mark.parametrize("task", [Logistic(), Digits()], ids=lambda t: t.name)
def test_losses_stay_finite_at_huge_logits(task: Logistic | Digits) -> None:
    _, test = task.load(DataSource(), 2, 0)
    size = sum(p.numel() for p in task.module().parameters())
    huge = 1e6 * np.random.default_rng(0).standard_normal(size)
    assert np.isfinite(per_example_losses(task, task.module(), huge, test)).all()


@pytest.mark.parametrize("task", [Logistic(), Digits()], ids=lambda t: t.name)
def test_leading_dimensions_change_no_bit_of_losses_and_slopes(task: Logistic | Digits) -> None:
    width = 1 if task.name == "logistic" else 10
    rng = np.random.default_rng(0)
    for clients, examples in ((3, 4), (5, 37), (2, 65), (7, 1)):
        values = rng.standard_normal((clients, examples, width)).astype(np.float32)
        outputs = torch.from_numpy(values).requires_grad_()
        whole = rng.integers(0, 2 if width == 1 else 10, (clients, examples))
        targets = torch.from_numpy(whole if width == 10 else whole.astype(np.float32))
        losses, correct = task.losses(outputs, targets), task.correct(outputs, targets)
        (slopes,) = torch.autograd.grad(losses.sum(), outputs)
        assert losses.shape == correct.shape == (clients, examples)
        for k in range(clients):
            alone = torch.from_numpy(values[k]).requires_grad_()
            own = task.losses(alone, targets[k])
            assert torch.equal(losses[k], own)
            assert torch.equal(slopes[k], torch.autograd.grad(own.sum(), alone)[0])
            assert torch.equal(correct[k], task.correct(alone, targets[k]))


def test_cross_entropy_and_binary_cross_entropy_match_torch() -> None:
    rng = np.random.default_rng(1)
    outputs = torch.from_numpy(rng.standard_normal((8, 10)) * 5)
    labels = torch.from_numpy(rng.integers(0, 10, 8))
    want = nn.functional.cross_entropy(outputs, labels, reduction="none")
    torch.testing.assert_close(Digits().losses(outputs, labels), want)
    torch.testing.assert_close(Mnist().losses(outputs, labels), want)
    binary = (labels > 4).double()
    torch.testing.assert_close(
        Logistic().losses(outputs[:, :1], binary),
        nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], binary, reduction="none"),
    )


def test_a_regression_has_no_accuracy_and_the_mean_is_of_all_batches() -> None:
    task = Quadratic()
    _, test = task.load(DataSource(), 2, 0)
    w = np.arange(5.0)
    whole = evaluate(task, task.module(), w, test)
    in_parts = evaluate(task, task.module(), w, test, batch=37)
    assert whole[1] is None
    assert in_parts[0] == pytest.approx(whole[0], rel=1e-6)
    assert evaluate(task, task.module(), w, test) == whole


def test_accuracy_is_over_all_batches() -> None:
    task = Digits()
    _, test = task.load(DataSource(), 2, 0)
    w = np.random.default_rng(0).standard_normal(650)
    assert evaluate(task, task.module(), w, test, batch=100)[1] == pytest.approx(
        evaluate(task, task.module(), w, test)[1]
    )


def test_loading_fills_parameters_in_order_and_copies() -> None:
    module = multilayer_perceptron((3, 2, 4))
    flat = np.arange(20, dtype=np.float32)
    load_parameters(module, flat)
    back = torch.cat([p.detach().flatten() for p in module.parameters()])
    np.testing.assert_array_equal(back.numpy(), flat)
    assert list(named_tensors(module, flat)) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    flat[:] = -1
    assert float(next(module.parameters()).detach()[0, 1]) == 1.0


@pytest.mark.parametrize("size", [19, 21, 0])
def test_a_vector_of_the_wrong_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="for a model with 20"):
        load_parameters(multilayer_perceptron((3, 2, 4)), np.zeros(size))
