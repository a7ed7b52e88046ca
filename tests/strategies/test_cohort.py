"""The client half: batched equals one by one, and a client's bits are its own business."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedgame import config
from fedgame.messages.privacy_game import RoundOrder
from fedgame.randomness import generator, secret_from_seed
from fedgame.strategies.cohort import Cohort
from fedgame.strategies.data import FederatedData, federated_data
from fedgame.strategies.local_model import LinearByCohort, ModuleByClient, local_model
from fedgame.strategies.settings import Experiment
from fedgame.tasks.base import Examples
from fedgame.tasks.evaluation import named_tensors

SECRET = secret_from_seed(0)


def _experiment(**overrides: Any) -> Experiment:
    flat = {key.replace("__", ".").replace("_", "-"): value for key, value in overrides.items()}
    return config.load({"num-clients": 7, **flat})


@pytest.mark.parametrize("task", ["quadratic", "logistic", "digits"])
def test_the_batched_cohort_equals_a_loop_over_clients(task: str) -> None:
    experiment = _experiment(task__name=task)
    data = federated_data(experiment)
    clients = [data.client(k) for k in range(7)]
    batched = local_model(experiment.task, clients)
    assert isinstance(batched, LinearByCohort)
    loop = ModuleByClient(experiment.task, clients)
    rng = np.random.default_rng(0)
    size = len(experiment.task.initial_parameters(0))
    states = rng.standard_normal((7, size))
    batches = [rng.random(len(own)) < 0.4 for own in clients]
    batches[3][:] = False
    for norm in (0.05, 1.0, np.inf):
        # what a client uses is the sum over its (expected) batch size
        sizes = np.maximum([batch.sum() for batch in batches], 1)[:, None]
        one = batched.clipped_sums(states, batches, norm) / sizes
        other = loop.clipped_sums(states, batches, norm) / sizes
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)
    several = rng.standard_normal((7, 3, size))
    pairs = zip(batched.losses(several, batches), loop.losses(several, batches), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=1e-6)


def _order(experiment: Experiment, clients: list[int]) -> RoundOrder:
    parameters = experiment.task.initial_parameters(0)
    return RoundOrder(
        round=1,
        parameters=parameters,
        mean_strength=0.01,
        grid=np.array([0.003, 0.01, 0.03]),
        choose=True,
        clients=np.array(clients),
        weights=np.full(len(clients), 0.1),
        turns=np.zeros(len(clients), dtype=np.int64),
        strengths=np.full(len(clients), 0.01),
        public_loss=np.empty(0),
        run_name="run",
        ledger="",
    )


@pytest.mark.parametrize("loss", ["measured", "surrogate", "quadratic"])
def test_a_clients_bits_do_not_depend_on_its_cohort(loss: str) -> None:
    experiment = _experiment(task__name="digits", mean_field__loss=loss)
    data = federated_data(experiment)
    found = {}
    for cohort in ([0, 1, 2, 3, 4, 5, 6], [2], [6, 2], [5, 4, 3, 2]):
        own = Cohort(experiment, data, cohort, SECRET)
        strengths = own.choose(_order(experiment, cohort))
        updates = own.train(1, experiment.task.initial_parameters(0), strengths).updates
        place = cohort.index(2)
        found[(strengths[place], updates[place].tobytes())] = cohort
    assert len(found) == 1


def test_a_choice_and_a_release_share_no_randomness() -> None:
    """A probe that reused the release's noise would leak it through the chosen strength."""
    experiment = _experiment(
        task__name="logistic", mean_field__loss="quadratic", mean_field__choice_sampling_rate=0.5
    )
    cohort = Cohort(experiment, federated_data(experiment), [0], SECRET)
    draws = {}
    original = cohort._draws

    def spy(
        round_: int, purpose: str, steps: NDArray[np.int64] | None = None
    ) -> Iterator[np.random.Generator]:
        draws[purpose] = next(original(round_, purpose, steps)).random()
        return original(round_, purpose, steps)

    cohort._draws = spy  # type: ignore[method-assign]
    strengths = cohort.choose(_order(experiment, [0]))
    cohort.train(1, experiment.task.initial_parameters(0), strengths)
    assert set(draws) == {
        "choice batch",
        "choice probe",
        "choice trace",
        "choice",
        "batch",
        "noise",
    }
    assert len(set(draws.values())) == len(draws)


def test_at_rate_1_every_example_is_in_every_batch() -> None:
    experiment = _experiment(cell="mfep", task__name="logistic", training__sampling_rate=1.0)
    cohort = Cohort(experiment, federated_data(experiment), [4, 1], SECRET)
    assert [batch.tolist() for batch in cohort._batches(1, "batch", 1.0)] == [[True] * 50] * 2


def test_batches_are_poisson_draws_of_each_clients_own_stream() -> None:
    experiment = _experiment(cell="mfep", task__name="digits")
    cohort = Cohort(experiment, federated_data(experiment), [4, 1, 1], SECRET)
    steps = np.array([0, 0, 1])
    found = cohort._batches(3, "batch", 0.3, steps)
    triples = zip(cohort.clients, cohort.counts.tolist(), steps.tolist(), strict=True)
    for batch, (client, count, step) in zip(found, triples, strict=True):
        own = generator(SECRET, client, 3, "batch", step).random(count) < 0.3
        assert np.array_equal(batch, own)


def test_noise_has_the_promised_size() -> None:
    """All gradients are zero here, so an update is noise alone: sd = sqrt(2 s tau)."""
    experiment = _experiment(
        cell="mfep", task__name="logistic", jko__sinkhorn=False, training__sampling_rate=1e-9
    )
    cohort = Cohort(experiment, federated_data(experiment), [0], SECRET)
    parameters = np.zeros(20, dtype=np.float32)
    strength = 0.02
    noise = np.concatenate(
        [cohort.train(r, parameters, np.array([strength])).updates[0] for r in range(500)]
    )
    expected = np.sqrt(2 * strength * 2.0)
    assert noise.std() == pytest.approx(expected, rel=0.03)
    assert abs(noise.mean()) < 4 * expected / np.sqrt(len(noise))


def test_local_steps_draw_fresh_noise_and_batches() -> None:
    experiment = _experiment(cell="mfep", task__name="logistic", training__local_steps=3)
    cohort = Cohort(experiment, federated_data(experiment), [0, 1], SECRET)
    local = cohort.train(1, np.zeros(20, dtype=np.float32), np.full(2, 0.01))
    assert [event.steps for event in local.events] == [3, 3]
    single = _experiment(cell="mfep", task__name="logistic")
    once = Cohort(single, federated_data(single), [0, 1], SECRET)
    assert not np.allclose(
        local.updates, 3 * once.train(1, np.zeros(20, dtype=np.float32), np.full(2, 0.01)).updates
    )


def _one_example(data: FederatedData, scale: float) -> FederatedData:
    """Make client 0's first example so large that only clipping bounds it."""
    inputs = data.train.inputs.copy()
    inputs[data.indices[0][0]] *= scale
    return FederatedData(Examples(inputs, data.train.targets), data.indices, data.test)


@pytest.mark.parametrize("clip", ["per-example", "average"])
@pytest.mark.parametrize("scale", [0.0, 1e4])
def test_a_client_moves_its_gradient_by_at_most_the_clipping_norm(clip: str, scale: float) -> None:
    experiment = _experiment(
        cell="mfep",
        task__name="digits",
        training__neighbours="client",
        training__clip=clip,
        training__clipping_norm=0.3,
        training__sampling_rate=0.5,
    )
    data = _one_example(federated_data(experiment), scale)
    cohort = Cohort(experiment, data, [0, 1], SECRET)
    states = np.random.default_rng(0).standard_normal((2, 650))
    for round_ in range(5):
        norms = np.linalg.norm(
            cohort._clipped_gradients(round_, np.zeros(2, dtype=np.int64), states), axis=1
        )
        assert (norms <= 0.3 * (1 + 1e-9)).all()
        assert norms.max() > 0


def test_averaged_clipping_is_the_papers() -> None:
    experiment = _experiment(
        cell="mfep",
        task__name="digits",
        training__neighbours="client",
        training__clip="average",
        training__clipping_norm=1e6,
        training__sampling_rate=1.0,
    )
    data = federated_data(experiment)
    cohort = Cohort(experiment, data, [0], SECRET)
    state = np.random.default_rng(0).standard_normal(650).astype(np.float32)
    module = experiment.task.module()
    tensors = {k: v.requires_grad_() for k, v in named_tensors(module, state).items()}
    own = data.client(0)
    outputs = torch.func.functional_call(module, tensors, (torch.from_numpy(own.inputs),))
    loss = experiment.task.losses(outputs, torch.from_numpy(own.targets)).mean()
    gradients = torch.autograd.grad(loss, list(tensors.values()))
    expected = np.concatenate([gradient.numpy().ravel() for gradient in gradients])
    found = cohort._clipped_gradients(
        0, np.zeros(1, dtype=np.int64), state[None].astype(np.float64)
    )[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
