"""What every task promises, and what the generated and packaged data look like."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression

from fedgame.errors import ConfigError
from fedgame.tasks import synthetic
from fedgame.tasks.base import DataSource, Examples, Task
from fedgame.tasks.digits import Digits
from fedgame.tasks.evaluation import evaluate, load_parameters
from fedgame.tasks.initial import initial_parameters
from fedgame.tasks.logistic import Logistic
from fedgame.tasks.models import multilayer_perceptron
from fedgame.tasks.quadratic import Quadratic
from fedgame.tasks.train_size import train_indices

TASKS: list[Task] = [Quadratic(), Logistic(), Digits()]
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


def gradient_descent(task: Task, examples: Examples, steps: int, rate: float) -> np.ndarray:
    module = task.module()
    load_parameters(module, task.initial_parameters(0))
    inputs, targets = torch.from_numpy(examples.inputs), torch.from_numpy(examples.targets)
    for _ in range(steps):
        loss = task.losses(module(inputs), targets).mean()
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(module.parameters(), gradients, strict=True):
                parameter.sub_(rate * gradient)
    return torch.cat([p.detach().flatten() for p in module.parameters()]).numpy()


@every_task
def test_loading_twice_gives_the_same_bits_and_another_seed_other_data(task: Task) -> None:
    first, again, other = (task.load(DataSource(), 4, seed) for seed in (3, 3, 4))
    for a, b, c in zip(first, again, other, strict=True):
        assert a.inputs.tobytes() == b.inputs.tobytes()
        assert a.targets.tobytes() == b.targets.tobytes()
        assert a.inputs.tobytes() != c.inputs.tobytes()


@pytest.mark.parametrize("task", [Quadratic(dim=7), Logistic()], ids=lambda task: task.name)
def test_examples_do_not_depend_on_how_many_are_drawn_at_once(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = task.load(DataSource(), 7, 0)
    monkeypatch.setattr(synthetic, "BLOCK_ROWS", 64)
    for one, other in zip(whole, task.load(DataSource(), 7, 0), strict=True):
        assert one.inputs.tobytes() == other.inputs.tobytes()
        assert one.targets.tobytes() == other.targets.tobytes()


@every_task
def test_types_shapes_and_start(task: Task) -> None:
    train, test = task.load(DataSource(), 4, 0)
    for examples in (train, test):
        assert examples.inputs.dtype == np.float32
        assert examples.targets.dtype == (np.int64 if task.name == "digits" else np.float32)
        assert examples.targets.shape == (len(examples),)
        assert examples.inputs.flags.writeable
    start = task.initial_parameters(7)
    assert start.dtype == np.float32
    assert start.shape == (sum(p.numel() for p in task.module().parameters()),)
    assert not start.any()
    outputs = task.module()(torch.from_numpy(test.inputs))
    assert task.losses(outputs, torch.from_numpy(test.targets)).shape == (len(test),)


@every_task
def test_building_and_loading_leave_the_global_generators_alone(task: Task) -> None:
    torch_state, numpy_state = torch.get_rng_state(), repr(np.random.get_state())  # noqa: NPY002
    task.load(DataSource(), 2, 0)
    task.module()
    task.initial_parameters(0)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert repr(np.random.get_state()) == numpy_state  # noqa: NPY002


@every_task
def test_train_size_keeps_the_first_of_a_public_shuffle(task: Task) -> None:
    everything, test = task.load(DataSource(), 4, 0)
    some, same_test = task.load(DataSource(train_size=10), 4, 0)
    assert len(some) == 10
    np.testing.assert_array_equal(some.inputs, everything.inputs[:10])
    np.testing.assert_array_equal(some.targets, everything.targets[:10])
    np.testing.assert_array_equal(test.inputs, same_test.inputs)


@every_task
def test_a_train_size_beyond_the_data_is_refused(task: Task) -> None:
    available = len(task.load(DataSource(), 4, 0)[0])
    task.load(DataSource(train_size=available), 4, 0)
    with pytest.raises(ConfigError, match=rf"^task\.train-size = {available + 1}: at most"):
        task.load(DataSource(train_size=available + 1), 4, 0)


@given(available=st.integers(1, 50), size=st.integers(0, 50), seed=st.integers(0, 5))
def test_train_indices_are_distinct(available: int, size: int, seed: int) -> None:
    if size > available:
        with pytest.raises(ConfigError):
            train_indices(available, DataSource(train_size=size), seed)
        return
    chosen = train_indices(available, DataSource(train_size=size), seed)
    assert len(set(chosen.tolist())) == len(chosen) == (size or available)
    assert set(chosen.tolist()) <= set(range(available))


def test_sizes_follow_the_number_of_clients() -> None:
    assert len(Quadratic(examples_per_client=7).load(DataSource(), 3, 0)[0]) == 21
    assert len(Logistic(examples_per_client=7).load(DataSource(), 3, 0)[0]) == 21


def test_train_and_test_are_different_draws() -> None:
    for task in (Quadratic(), Logistic()):
        train, test = task.load(DataSource(), 20, 0)
        assert not set(train.inputs[:, 0].tolist()) & set(test.inputs[:, 0].tolist())


@settings(max_examples=20, deadline=None)
@given(dim=st.integers(1, 30), seed=st.integers(0, 1000))
def test_quadratic_scale(dim: int, seed: int) -> None:
    task = Quadratic(dim=dim, examples_per_client=40 * dim)
    train, test = task.load(DataSource(), 5, seed)
    hessian = train.inputs.T.astype(np.float64) @ train.inputs / len(train)
    values = np.linalg.eigvalsh(hessian) * dim
    assert 0.5 < values[0] <= values[-1] < 1.6
    assert np.linalg.norm(task.planted_parameters(seed)) == pytest.approx(dim**0.5)
    assert 0.7 < test.targets.var() < 1.35


def test_quadratic_minimum_is_the_planted_vector_up_to_noise() -> None:
    task = Quadratic(noise_std=0.1)
    train, test = task.load(DataSource(), 20, 1)
    best = np.linalg.lstsq(train.inputs, train.targets, rcond=None)[0]
    assert np.abs(best - task.planted_parameters(1)).max() < 0.05
    floor, _ = evaluate(task, task.module(), task.planted_parameters(1), test)
    assert floor == pytest.approx(0.005, rel=0.15)
    exact = Quadratic(noise_std=0.0)
    floor, _ = evaluate(
        exact, exact.module(), exact.planted_parameters(1), exact.load(DataSource(), 1, 1)[1]
    )
    assert floor < 1e-12


def test_quadratic_descent_is_stable_at_learning_rate_two() -> None:
    task = Quadratic()
    train, test = task.load(DataSource(), 5, 42)
    start, _ = evaluate(task, task.module(), task.initial_parameters(42), test)
    assert start == pytest.approx(0.5, rel=0.2)
    loss, _ = evaluate(task, task.module(), gradient_descent(task, train, 60, 2.0), test)
    assert loss < 0.006


@pytest.mark.parametrize("seed", [0, 1, 42])
def test_logistic_bayes_accuracy_is_one_minus_the_label_noise(seed: int) -> None:
    task = Logistic()
    _, test = task.load(DataSource(), 8, seed)
    _, bayes = evaluate(task, task.module(), task.planted_parameters(seed), test)
    assert bayes == pytest.approx(0.9, abs=0.035)
    assert set(np.unique(test.targets)) == {0.0, 1.0}
    assert abs(test.targets.mean() - 0.5) < 0.06
    clean = Logistic(label_noise=0.0)
    _, perfect = evaluate(
        clean, clean.module(), clean.planted_parameters(seed), clean.load(DataSource(), 8, seed)[1]
    )
    assert perfect == 1.0


def test_logistic_descent_gets_near_the_bayes_accuracy() -> None:
    task = Logistic()
    train, test = task.load(DataSource(), 8, 42)
    _, accuracy = evaluate(task, task.module(), gradient_descent(task, train, 100, 2.0), test)
    assert accuracy is not None
    assert accuracy > 0.82


def test_digits_are_sklearns_split_in_1437_and_360() -> None:
    from sklearn.datasets import load_digits

    train, test = Digits().load(DataSource(), 10, 0)
    assert (len(train), len(test)) == (1437, 360)
    pixels, labels = load_digits(return_X_y=True)
    want = sorted(
        (*row, label) for row, label in zip((pixels / 16 - 0.3).tolist(), labels, strict=True)
    )
    inputs = np.concatenate([train.inputs, test.inputs])
    got = sorted(
        (*row, label)
        for row, label in zip(
            np.round(inputs.astype(np.float64), 6).tolist(),
            np.concatenate([train.targets, test.targets]),
            strict=True,
        )
    )
    np.testing.assert_allclose(np.array(got), np.array(want), atol=1e-6)


def test_digits_descent_beats_nine_tenths_like_sklearn() -> None:
    task = Digits()
    train, test = task.load(DataSource(), 10, 42)
    _, ours = evaluate(task, task.module(), gradient_descent(task, train, 150, 1.0), test)
    peer = LogisticRegression(max_iter=500).fit(train.inputs, train.targets)
    theirs = peer.score(test.inputs, test.targets)
    assert ours is not None
    assert ours > 0.93
    assert abs(ours - theirs) < 0.03


def test_network_start_follows_torchs_default_rule() -> None:
    module = multilayer_perceptron((100, 50, 10))
    flat = initial_parameters(module, 3)
    assert flat.dtype == np.float32
    np.testing.assert_array_equal(flat, initial_parameters(module, 3))
    assert not np.array_equal(flat, initial_parameters(module, 4))
    sizes = [5000, 50, 500, 10]
    bounds = [0.1, 0.1, 50**-0.5, 50**-0.5]
    for part, bound in zip(np.split(flat, np.cumsum(sizes)[:-1]), bounds, strict=True):
        assert np.abs(part).max() <= bound
        assert np.abs(part).max() > 0.6 * bound
    assert flat[:5000].std() == pytest.approx(0.1 / 3**0.5, rel=0.03)
    torchs = torch.nn.Linear(100, 50).weight.detach()
    assert float(torchs.std()) == pytest.approx(flat[:5000].std(), rel=0.05)


def test_a_convolution_starts_by_its_receptive_field() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 5), torch.nn.Flatten())
    assert np.abs(initial_parameters(module, 0)).max() == pytest.approx(0.1, rel=0.01)


def test_layers_without_a_rule_are_refused() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    with pytest.raises(ConfigError, match="model = 'BatchNorm1d'"):
        initial_parameters(module, 0)


@pytest.mark.parametrize(
    "bad",
    [
        (Quadratic, {"dim": 0}),
        (Quadratic, {"noise_std": -0.1}),
        (Quadratic, {"noise_std": float("nan")}),
        (Quadratic, {"examples_per_client": 0}),
        (Quadratic, {"unknown": 1}),
        (Logistic, {"label_noise": 0.5}),
        (Logistic, {"dim": 0}),
        (Digits, {"unknown": 1}),
    ],
)
def test_values_out_of_range_are_refused(bad: tuple[type, dict[str, float]]) -> None:
    section, values = bad
    with pytest.raises(ValidationError, match=next(iter(values))):
        section(**values)
