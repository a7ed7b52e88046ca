"""The data reading in a run: when it happens, what it costs, and the particles themselves.

Each client's examples become particles once, before its first update; training sees those alone.
So a run of any length costs the burn-in, and the labels where they are released.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedgame.accountants.flow import BurnIn
from fedgame.errors import AccountingError, ConfigError, InvalidOrder
from fedgame.games.privacy.none import NoGame
from fedgame.ledger.events import LedgerRow, PrivacyEvent, PureDPChoice
from fedgame.mechanisms.burn_in import (
    RANDOMISED_RESPONSE,
    InputGradient,
    as_inputs,
    clipped,
    flow_step,
    randomised_response,
)
from fedgame.mechanisms.jko import Jko
from fedgame.randomness import generator
from fedgame.strategies.settings import Experiment
from fedgame.tasks.base import Examples, Task

FloatArray = NDArray[np.float64]

BEFORE = 0
"""The round of a burn-in: none yet."""

PURPOSE = "burn-in"


def burns_in(experiment: Experiment) -> bool:
    """Return whether examples become particles before training (`jko.reading = "data"`)."""
    mechanism = experiment.mechanism
    return isinstance(mechanism, Jko) and mechanism.reading == "data"


def burn_in_of(experiment: Experiment, num_examples: int) -> BurnIn:
    """Return the facts about the burn-in of a client with `num_examples` examples."""
    mechanism, settings = _mechanism(experiment), experiment.burn_in
    return BurnIn(
        radius=settings.radius,
        strength=mechanism.strength,
        tau=mechanism.tau,
        steps=settings.steps,
        smoothness=_smoothness(experiment.task, experiment.run.seed),
        num_examples=num_examples,
        neighbours=experiment.training.neighbours,
        first_send=settings.steps,
        public_settings=True,
        particles_only=True,
        labels=settings.labels,
        projection=mechanism.sinkhorn,
        prior_std=mechanism.prior_std,
        variance_penalty=mechanism.lambda_,
    )


def _mechanism(experiment: Experiment) -> Jko:
    if not isinstance(experiment.mechanism, Jko):
        raise TypeError("only the entropic mechanism has a data reading")
    return experiment.mechanism


@lru_cache(maxsize=8)
def _smoothness(task: Task, seed: int) -> float | None:
    return task.input_smoothness(task.initial_parameters(seed))


def burn_in_events(experiment: Experiment, num_examples: int) -> list[PrivacyEvent]:
    """Return what a client's whole run costs, however many rounds it takes part in."""
    events: list[PrivacyEvent] = [burn_in_of(experiment, num_examples).event()]
    if experiment.burn_in.labels == RANDOMISED_RESPONSE:
        neighbours = experiment.training.neighbours
        # a whole client is as many labels
        labels = 1 if neighbours == "example" else num_examples
        epsilon = labels * experiment.burn_in.label_epsilon
        events.append(PureDPChoice(epsilon, neighbours, RANDOMISED_RESPONSE))
    return events


def burn_in_noise_multipliers(experiment: Experiment, counts: NDArray[np.int64]) -> FloatArray:
    """Return 1/mu of each client: of the Gaussian release that costs what its burn-in does.

    Args:
        experiment: The experiment.
        counts: Number of examples of each client, shape (clients,).
    """
    found = {n: burn_in_of(experiment, n).event().noise_multiplier for n in set(counts.tolist())}
    return np.array([found[n] for n in counts.tolist()])


def burn_in_rows(experiment: Experiment, client: int, num_examples: int) -> list[LedgerRow]:
    """Return the ledger's rows of a client's burn-in; they are written once, before round 1."""
    purpose = burn_in_purpose(experiment)
    return [
        LedgerRow(client, BEFORE, step, purpose, event)
        for step, event in enumerate(burn_in_events(experiment, num_examples))
    ]


def burn_in_purpose(experiment: Experiment) -> str:
    """Return the purpose of rows and draws, which names the settings that particles depend on.

    Two burn-ins with different settings would be two releases: they share no noise, and a ledger
    can tell them apart.
    """
    run, source = experiment.run, experiment.source
    settings = (
        (run.seed, run.num_clients, source.train_size),
        (experiment.task, experiment.partition, experiment.mechanism),
        (experiment.burn_in, experiment.training.neighbours),
    )
    return f"{PURPOSE} {hashlib.blake2b(repr(settings).encode(), digest_size=8).hexdigest()}"


def unwritten(rows: Sequence[LedgerRow], written: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Return the rows of burn-ins that a ledger lacks.

    Args:
        rows: What the burn-ins cost.
        written: What the ledger holds.

    Raises:
        InvalidOrder: A client burnt in with other settings in this run: its particles would be a
            second release of the same examples.
    """
    before = {(row.client, row.step): row for row in written if row.purpose.startswith(PURPOSE)}
    missing = []
    for row in rows:
        there = before.get((row.client, row.step))
        if there is None:
            missing.append(row)
        elif there != row:
            raise InvalidOrder(f"client {row.client} burnt in with other settings in this run")
    return missing


def data_digest(raw: Examples, secret: bytes) -> bytes:
    """Return what tells a client's examples from others, to who knows its secret only.

    The noise of a burn-in belongs to one set of examples: with others it would show the difference.
    """
    sums = hashlib.blake2b(key=secret, digest_size=32)
    for part in (raw.inputs, raw.targets):
        sums.update(
            f"{part.dtype.str} {part.shape} ".encode() + np.ascontiguousarray(part).tobytes()
        )
    return sums.digest()


def burnt_in(experiment: Experiment, client: int, raw: Examples, secret: bytes) -> Examples:
    """Return a client's particles and labels: a function of secret, data and settings alone.

    Computing them again gives the same bits, so that it reveals nothing new.

    Args:
        experiment: The experiment.
        client: The client's number.
        raw: Its examples, which nobody needs afterwards.
        secret: Key of all private draws.
    """
    mechanism, settings = _mechanism(experiment), experiment.burn_in
    task, purpose = experiment.task, burn_in_purpose(experiment)
    initial = task.initial_parameters(experiment.run.seed)
    gradient = InputGradient(task.module(), task.losses, initial)
    particles, shape = clipped(raw.inputs, settings.radius), raw.inputs.shape
    labels = raw.targets
    if settings.labels == RANDOMISED_RESPONSE:
        rng = generator(secret, client, BEFORE, f"{purpose} labels")
        classes = gradient.classes(np.zeros((1, *shape[1:])))
        labels = randomised_response(labels, classes, settings.label_epsilon, rng)
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(settings.steps):
            noise = generator(secret, client, BEFORE, purpose, step).standard_normal(
                particles.shape
            )
            slopes = gradient(particles.reshape(shape), labels).reshape(particles.shape)
            particles = flow_step(particles, slopes, noise, mechanism)
    return Examples(as_inputs(particles, shape), labels)


def check_burn_in(experiment: Experiment) -> None:
    """Check that the data reading can be accounted.

    Raises:
        ConfigError: Two values that do not go together, by the key of one of them.
    """
    if not burns_in(experiment):
        return
    mechanism, training, task = _mechanism(experiment), experiment.training, experiment.task
    game, strategy, labels = experiment.game, experiment.run.strategy, experiment.burn_in.labels
    refusals = (
        (
            strategy != "mfpg" or not isinstance(game, NoGame),
            ("jko.reading", "data", 'is for cell = "mfep" alone: a game has nothing to choose'),
        ),
        (
            mechanism.sinkhorn,
            (
                "jko.sinkhorn",
                mechanism.sinkhorn,
                'must be false with jko.reading = "data": Sinkhorn during the burn-in can expand',
            ),
        ),
        (
            mechanism.noise_multiplier > 0,
            (
                "jko.noise-multiplier",
                mechanism.noise_multiplier,
                'must be 0 with jko.reading = "data": set jko.strength and burn-in.steps',
            ),
        ),
        (
            training.clip != "per-example",
            ("training.clip", training.clip, 'must be "per-example" with jko.reading = "data"'),
        ),
        (
            labels == RANDOMISED_RESPONSE and task.kind != "classification",
            (
                "burn-in.labels",
                labels,
                f'must be "public" with task.name = "{task.name}": a regression has no classes '
                "to draw from",
            ),
        ),
    )
    for fails, refusal in refusals:
        if fails:
            raise ConfigError(*refusal)
    try:
        _ = burn_in_of(experiment, 1).mu
    except AccountingError as error:
        raise ConfigError("jko.reading", "data", f"task {task.name}: {error}") from error


def burn_in_note(experiment: Experiment, counts: NDArray[np.int64]) -> str | None:
    """Say what a run in the data reading rests on; None for any other run.

    Args:
        experiment: The experiment.
        counts: Number of examples of each client, shape (clients,).
    """
    if not burns_in(experiment):
        return None
    settings, largest = experiment.burn_in, burn_in_of(experiment, int(counts.max()))
    public = "numbers of examples"
    if settings.labels == "public":
        public += " and labels"
    return (
        f"Data reading: examples clipped to norm {settings.radius:g} became particles in K = "
        f"{settings.steps} noisy steps ({largest.activation}), mu = {largest.mu:.4g} for the "
        f"client with the most examples; declared public: {public}; every later round uses the "
        "particles alone and costs nothing more, and what decays with K is the influence of the "
        "data, so that utility decays too."
    )
