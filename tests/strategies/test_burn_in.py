"""The burn-in of a cohort: its exact cost, charged once, and no raw data after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgame import config
from fedgame.accountants.pld import PldAccountant
from fedgame.errors import ConfigError, InvalidOrder
from fedgame.ledger.events import LedgerRow, PureDPChoice, SampledGaussian
from fedgame.randomness import secret_from_seed
from fedgame.strategies import burn_in
from fedgame.strategies.bounds import update_bound
from fedgame.strategies.burn_in import (
    burn_in_events,
    burn_in_note,
    burn_in_of,
    burn_in_rows,
    burnt_in,
    unwritten,
)
from fedgame.strategies.cohort import Cohort
from fedgame.strategies.data import FederatedData, federated_data
from fedgame.strategies.plan import make_plan
from fedgame.strategies.settings import Experiment
from fedgame.tasks.base import Examples
from fedgame.tasks.quadratic import Quadratic
from tests.accountants.exact_chains import gaussian_mu

SECRET = secret_from_seed(0)
DATA: dict[str, Any] = {
    "cell": "mfep",
    "jko.reading": "data",
    "jko.sinkhorn": False,
    "jko.tau": 0.1,
    "jko.strength": 1.0,
    "task.name": "logistic",
    "num-clients": 4,
    "training.sampling-rate": 0.5,
}
RANDOM_LABELS = {"burn-in.labels": "randomised-response"}


def load(**overrides: Any) -> Experiment:
    flat = {key.replace("__", ".").replace("_", "-"): value for key, value in overrides.items()}
    return config.load({**DATA, **flat})


@pytest.mark.parametrize(
    ("radius", "steps", "mu"),
    [(2.0, 1, 4.0249223595), (2.0, 10, 0.7252119605), (2.0, 50, 0.0100466908)],
)
def test_the_mu_of_a_run(radius: float, steps: int, mu: float) -> None:
    experiment = load(burn_in__radius=radius, burn_in__steps=steps)
    assert burn_in_of(experiment, 50).mu == pytest.approx(mu, abs=6e-11)
    (event,) = burn_in_events(experiment, 50)
    assert isinstance(event, SampledGaussian)
    assert event.noise_multiplier == pytest.approx(1 / mu, rel=1e-8)


class Still:
    """A generator of zeros: what is left of a step is its deterministic part."""

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the noise and the single precision out of the product's burn-in."""
    monkeypatch.setattr(burn_in, "generator", lambda *_: Still())
    monkeypatch.setattr(burn_in, "as_inputs", lambda particles, _: particles)


def initial(monkeypatch: pytest.MonkeyPatch, weights: np.ndarray) -> None:
    monkeypatch.setattr(
        Quadratic, "initial_parameters", lambda *_: weights.astype(np.float32).copy()
    )
    burn_in._smoothness.cache_clear()


def particles_of(experiment: Experiment, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    raw = Examples(inputs.astype(np.float32), targets.astype(np.float32))
    return np.asarray(burnt_in(experiment, 0, raw, SECRET).inputs)


@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize(
    ("tau", "strength", "slope", "tight"),
    [
        (0.1, 1.0, 0.0, True),
        # a step that overshoots: the loss drives along with the pull, and the bound is attained
        (1.0, 1.1, 0.5, True),
        (0.1, 1.0, 0.5, False),
    ],
)
def test_realised_steps_are_as_far_apart_as_mu_says(
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
    tau: float,
    strength: float,
    slope: float,
    tight: bool,
) -> None:
    """Two data sets that differ in one example, in the direction of w0, through the same code."""
    weights = slope * np.array([1.0, 0.0, 0.0])  # exact in single precision
    initial(monkeypatch, weights)
    experiment = load(
        task__name="quadratic",
        quadratic__dim=3,
        jko__tau=tau,
        jko__strength=strength,
        burn_in__steps=steps,
    )
    rng = np.random.default_rng(6)
    inputs, targets = 0.2 * rng.standard_normal((4, 3)), rng.standard_normal(4)
    inputs[1] = [1.0, 0.0, 0.0]
    neighbour = inputs.copy()
    neighbour[1] = 0.0
    shift = particles_of(experiment, inputs, targets) - particles_of(experiment, neighbour, targets)
    assert not shift[[0, 2, 3]].any()
    # covariance by the same step, which is affine: its columns are differences
    one = load(**{**_flat(experiment), "burn_in__steps": 1})
    basis = np.eye(3)
    origin = particles_of(one, np.zeros((1, 3)), targets[:1])[0]
    step = np.stack([particles_of(one, e[None], targets[:1])[0] - origin for e in basis], axis=1)
    covariance = np.zeros((3, 3))
    for _ in range(steps):
        covariance = step @ covariance @ step.T + 2 * strength * tau * np.eye(3)
    exact, mu = gaussian_mu(shift[1], covariance), burn_in_of(experiment, 4).mu
    assert burn_in_of(experiment, 4).smoothness == slope**2
    if tight:
        assert exact == pytest.approx(mu, rel=1e-12)
    else:
        assert 0.5 * mu < exact < mu


def _flat(experiment: Experiment) -> dict[str, Any]:
    return {key: value for key, value in experiment.flat.items() if key != "burn-in.steps"}


def test_particles_are_a_function_of_secret_data_and_settings() -> None:
    experiment = load()
    raw = federated_data(experiment).client(1)
    one, two = (burnt_in(experiment, 1, raw, SECRET) for _ in range(2))
    assert one.inputs.tobytes() == two.inputs.tobytes()
    assert one.inputs.dtype == np.float32
    assert one.inputs.shape == raw.inputs.shape
    for other in (
        burnt_in(experiment, 2, raw, SECRET),
        burnt_in(experiment, 1, raw, secret_from_seed(1)),
        # other settings share no noise, or their difference would tell
        burnt_in(load(burn_in__radius=0.9), 1, raw, SECRET),
    ):
        assert np.abs(other.inputs - one.inputs).min() > 0


def test_particles_have_the_variance_of_the_flow() -> None:
    experiment = load(burn_in__steps=8)
    raw = Examples(np.zeros((20_000, 3), dtype=np.float32), np.zeros(20_000, dtype=np.float32))
    experiment = load(logistic__dim=3, burn_in__steps=8)
    found = burnt_in(experiment, 0, raw, SECRET).inputs.astype(np.float64).var()
    assert found == pytest.approx(0.2 * (1 - 0.9**16) / (1 - 0.81), rel=0.02)


def test_randomised_labels_are_what_burn_in_and_training_use() -> None:
    experiment = load(**RANDOM_LABELS, burn_in__label_epsilon=0.5)
    data = federated_data(experiment)
    cohort = Cohort(experiment, data, range(4), SECRET)
    flipped = [
        float((own.targets != data.client(k).targets).mean())
        for k, own in enumerate(cohort.particles)
    ]
    assert 0.2 < np.mean(flipped) < 0.55


@pytest.mark.parametrize("labels", ["public", "randomised-response"])
def test_raw_data_are_never_touched_after_the_burn_in(labels: str) -> None:
    experiment = load(burn_in__labels=labels, training__local_steps=2)
    source = federated_data(experiment)
    data = FederatedData(
        Examples(source.train.inputs.copy(), source.train.targets.copy()),
        source.indices,
        source.test,
    )
    strengths, start = np.ones(4), experiment.task.initial_parameters(0)
    reference = Cohort(experiment, data, range(4), SECRET)
    burnt = Cohort(experiment, data, range(4), SECRET)
    data.train.inputs[:] = np.nan
    data.train.targets[:] = 7
    for round_ in (1, 2):
        one = reference.train(round_, start, strengths)
        two = burnt.train(round_, start, strengths)
        assert np.isfinite(one.updates).all()
        assert np.abs(one.updates).max() > 0
        assert one.updates.tobytes() == two.updates.tobytes()
        assert one.events == ()
    # the data did change: whoever looks at them now finds something else
    changed = Cohort(experiment, data, range(4), SECRET).train(1, start, strengths)
    assert changed.updates.tobytes() != reference.train(1, start, strengths).updates.tobytes()


def test_a_clients_particles_do_not_depend_on_who_else_is_there() -> None:
    experiment = load(task__name="digits", num_clients=6)
    data = federated_data(experiment)
    whole = Cohort(experiment, data, range(6), SECRET)
    alone = Cohort(experiment, data, [4], SECRET)
    assert whole.particles[4].inputs.tobytes() == alone.particles[0].inputs.tobytes()


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_honest_updates_are_within_the_bound_and_the_bound_is_attained(rate: float) -> None:
    experiment = load(
        training__local_steps=3,
        training__clipping_norm=0.01,
        training__sampling_rate=rate,
        burn_in__learning_rate=0.7,
        logistic__dim=1,
    )
    cohort = Cohort(experiment, federated_data(experiment), range(4), SECRET)
    start = np.zeros(1, dtype=np.float32)
    found = np.linalg.norm(cohort.train(1, start, np.ones(4)).updates, axis=1)
    bound = update_bound(experiment, start, [1], 1.0)
    assert bound.norm == pytest.approx(3 * 0.7 * 0.01 / rate, rel=1e-3)
    assert (found <= bound.norm).all()


def plan_of(experiment: Experiment, counts: list[int]) -> Any:
    ones = np.ones(len(counts))
    return make_plan(experiment, np.array(counts), ones, ones, PldAccountant())


def test_the_guarantee_does_not_depend_on_the_number_of_rounds() -> None:
    experiment = load(**RANDOM_LABELS)
    plan = plan_of(experiment, [30, 50])
    assert plan.guarantee(1, 1, plan.strengths) == plan.guarantee(1, 10**6, plan.strengths)
    assert plan.guarantee(1, 1, plan.strengths) == burn_in_events(experiment, 50)
    np.testing.assert_allclose(
        plan.noise_multipliers(plan.strengths), 1 / burn_in_of(experiment, 50).mu
    )


def test_a_whole_client_pays_for_all_its_examples_and_labels() -> None:
    experiment = load(**RANDOM_LABELS, burn_in__label_epsilon=0.25, training__neighbours="client")
    flow, labels = burn_in_events(experiment, 36)
    one, _ = burn_in_events(load(**RANDOM_LABELS), 36)
    assert isinstance(flow, SampledGaussian)
    assert isinstance(one, SampledGaussian)
    assert flow.noise_multiplier == pytest.approx(one.noise_multiplier / 6)
    assert labels == PureDPChoice(9.0, "client", "randomised-response")
    plan = plan_of(experiment, [36, 9, 64])
    assert plan.weakest_client(plan.strengths) == 2


def test_rows_are_written_once_and_a_second_burn_in_is_refused() -> None:
    experiment = load(**RANDOM_LABELS)
    rows = [row for k in range(3) for row in burn_in_rows(experiment, k, 50)]
    assert len({(row.client, row.round, row.step, row.purpose) for row in rows}) == 6
    assert {row.round for row in rows} == {0}
    assert unwritten(rows, []) == rows
    assert unwritten(rows, rows[:3]) == rows[3:]
    assert unwritten(rows, rows) == []
    other = LedgerRow(1, 0, 0, "curvature", rows[0].event)
    assert unwritten(rows, [other]) == rows
    again = burn_in_rows(load(**RANDOM_LABELS, seed=7), 1, 50)
    with pytest.raises(InvalidOrder, match="client 1 burnt in with other settings in this run"):
        unwritten(again, rows)


def test_the_note_says_what_a_reader_must_know() -> None:
    counts = np.array([30, 50])
    note = burn_in_note(load(burn_in__steps=12), counts)
    assert note is not None
    for part in ("K = 12", "c = 0.9", "mu = 0.2", "and labels", "costs nothing more", "utility"):
        assert part in note
    slow = burn_in_note(load(**RANDOM_LABELS, jko__strength=25.0), counts)
    assert slow is not None
    assert "c = 1.5, the particles do not forget exponentially" in slow
    assert "and labels" not in slow
    assert burn_in_note(load(jko__reading="parameters"), counts) is None


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"cell": "mfpg"}, 'jko.reading = .data.: is for cell = "mfep" alone'),
        (
            {"strategy": "jsam", "cell": "mfpg", "mechanism__name": "jko"},
            "jko.reading = .data.: is for cell",
        ),
        ({"jko__sinkhorn": True}, "jko.sinkhorn = True: .*burn-in can expand"),
        ({"jko__noise_multiplier": 3.0}, "jko.noise-multiplier = 3.0: must be 0"),
        (
            {"task__name": "mnist"},
            "jko.reading = .data.: task mnist: flow: the loss gradient in x has no Lipschitz",
        ),
        ({"task__name": "cifar10"}, "task cifar10: flow: the loss gradient in x has no"),
        (
            {"task__name": "quadratic", **RANDOM_LABELS},
            "burn-in.labels = 'randomised-response': .* a regression has no classes",
        ),
        (
            {"training__clip": "average", "training__neighbours": "client"},
            "training.clip = 'average'",
        ),
        ({"burn_in__steps": 0}, "burn-in.steps = 0"),
    ],
)
def test_what_does_not_go_together_is_named(overrides: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        load(**overrides)
    assert "\n" not in str(caught.value)


def test_another_cell_takes_no_notice() -> None:
    assert load(cell="dp-sgd", jko__sinkhorn=True).mechanism.name == "gaussian"
