"""From examples to particles: the ball, randomised response, the gradient in x, one step."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from fedgame.mechanisms.burn_in import (
    BurnInSettings,
    InputGradient,
    as_inputs,
    clipped,
    flow_step,
    randomised_response,
)
from fedgame.mechanisms.jko import Jko
from fedgame.tasks.base import Task
from fedgame.tasks.digits import Digits
from fedgame.tasks.logistic import Logistic
from fedgame.tasks.quadratic import Quadratic


def test_examples_outside_of_the_ball_are_moved_to_it() -> None:
    inputs = np.array([[[3.0, 4.0]], [[0.3, 0.4]], [[0.0, 0.0]], [[np.nan, 1.0]]], dtype=np.float32)
    found = clipped(inputs, 2.0)
    assert found.shape == (4, 2)
    np.testing.assert_allclose(
        found, np.array([[1.2, 1.6], [0.3, 0.4], [0.0, 0.0], [0.0, 0.0]]), rtol=1e-7
    )
    assert not np.isnan(clipped(np.array([[np.inf, 0.0]], dtype=np.float32), 1.0)).any()


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 1.0), (10, 2.0), (3, 0.1)])
def test_randomised_response_has_the_ratio_that_it_is_charged_for(
    classes: int, epsilon: float
) -> None:
    runs = 200_000
    labels = np.full(runs, classes - 1)
    found = randomised_response(labels, classes, epsilon, np.random.default_rng(0))
    shares = np.bincount(found, minlength=classes) / runs
    kept = exp(epsilon) / (exp(epsilon) + classes - 1)
    others = (1 - kept) / (classes - 1)
    assert log(kept / others) == pytest.approx(epsilon)
    expected = [others] * (classes - 1) + [kept]
    np.testing.assert_allclose(shares, expected, atol=5 * np.sqrt(0.25 / runs))


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_labels_keep_their_type_and_a_large_budget_keeps_them(kind: type) -> None:
    labels: NDArray[Any] = np.array([0, 1, 1, 0]).astype(kind)
    found = randomised_response(labels, 2, 100.0, np.random.default_rng(1))
    assert found.dtype == labels.dtype
    assert (found == labels).all()


@pytest.mark.parametrize(
    "task", [Quadratic(dim=4), Logistic(dim=4), Digits()], ids=lambda t: t.name
)
def test_the_gradient_in_x_is_the_slope_of_each_loss(task: Task) -> None:
    rng = np.random.default_rng(2)
    size = sum(p.numel() for p in task.module().parameters())
    parameters = rng.standard_normal(size).astype(np.float32)
    inputs = rng.standard_normal((5, task.module().in_features))  # type: ignore[arg-type]
    targets: NDArray[Any] = np.array([0, 1, 1, 0, 1])
    if task.name != "digits":
        targets = targets.astype(np.float32)
    weights = parameters.astype(np.float64)
    found = InputGradient(task.module(), task.losses, parameters)(inputs, targets)
    if task.name == "quadratic":
        expected = (inputs @ weights - targets)[:, None] * weights
    elif task.name == "logistic":
        expected = (1 / (1 + np.exp(-inputs @ weights)) - targets)[:, None] * weights
    else:
        matrix, bias = weights[:640].reshape(10, 64), weights[640:]
        logits = inputs @ matrix.T + bias
        shares = np.exp(logits - logits.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        expected = (shares - np.eye(10)[targets]) @ matrix
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_classes_are_counted_by_the_outputs() -> None:
    cases: tuple[tuple[Task, int, int], ...] = ((Logistic(dim=3), 3, 2), (Digits(), 64, 10))
    for task, width, classes in cases:
        initial = task.initial_parameters(0)
        gradient = InputGradient(task.module(), task.losses, initial)
        assert gradient.classes(np.zeros((1, width))) == classes


def test_one_step_is_the_printed_one() -> None:
    rng = np.random.default_rng(3)
    x, g, xi = rng.standard_normal((3, 6, 2))
    step = Jko(tau=0.2, strength=0.7, prior_std=1.5, lambda_=0.3)
    drift = g + 0.7 / 1.5**2 * x + 0.3 * (x - x.mean(axis=0))
    expected = x - 0.2 * drift + np.sqrt(2 * 0.7 * 0.2) * xi
    np.testing.assert_allclose(flow_step(x, g, xi, step), expected, rtol=1e-13)


def test_what_blew_up_is_cut_off() -> None:
    found = as_inputs(np.array([[1e300, np.nan], [-np.inf, 2.0]]), (2, 1, 2))
    assert found.shape == (2, 1, 2)
    assert np.isfinite(found).all()
    assert found[1, 0, 1] == 2.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("radius", 0.0),
        ("radius", float("nan")),
        ("learning_rate", float("inf")),
        ("labels", "private"),
        ("label_epsilon", 0.0),
    ],
)
def test_settings_out_of_range_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        BurnInSettings(**{field: value})  # type: ignore[arg-type]
