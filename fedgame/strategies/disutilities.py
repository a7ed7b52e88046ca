"""Disutilities over the strength grid: what a client weighs, from data that the caller hands in.

The same functions serve a client (its own examples, its own batch) and the server (public
examples), so that a certificate speaks of the game that was played.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgame.accountants.lsi import lsi_delta
from fedgame.accountants.rdp import RdpAccountant, gaussian_epsilon
from fedgame.games.privacy.mean_field import MeanField
from fedgame.games.privacy.utilities import (
    capped_mean,
    effective_strength,
    measured_loss,
    privacy_cost,
    quadratic_loss,
    surrogate_loss,
)
from fedgame.ledger.events import SampledGaussian
from fedgame.mechanisms.base import ClientContext, strength_to_noise_multiplier
from fedgame.mechanisms.jko import Jko
from fedgame.strategies.bridge import client_context
from fedgame.strategies.local_model import LocalModel
from fedgame.strategies.settings import Experiment
from fedgame.tasks.base import Examples
from fedgame.tasks.curvature import per_example_curvature

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FIXED_EPSILON = 1.0
"""The epsilon at which the privacy term "delta" is read."""

CLIENTS_AT_ONCE = 4096
"""Clients whose loss terms are computed together; more only take more memory."""


@dataclass(frozen=True)
class Probe:
    """What loss terms are measured with, for a cohort of clients.

    Attributes:
        model: The model over the clients' examples.
        examples: Each client's examples.
        batches: For each client, which of its examples count.
        divisors: The public expected number of examples that count, shape (clients,).
        noise: Standard normal draws common to all grid points, shape (clients, parameters),
            independent of the noise of every release.
        rngs: A generator for each client, for stochastic trace estimates; each may be good only
            until the next one is taken.
    """

    model: LocalModel
    examples: Iterable[Examples]
    batches: Sequence[NDArray[np.bool_]]
    divisors: FloatArray
    noise: FloatArray
    rngs: Iterable[np.random.Generator]


def loss_terms(
    experiment: Experiment,
    game: MeanField,
    parameters: NDArray[np.float32],
    mean_strength: float,
    grid: FloatArray,
    probe: Probe,
) -> FloatArray:
    """Return each client's loss term at each strength of the grid, shape (clients, m).

    Args:
        experiment: The experiment.
        game: Its game.
        parameters: The public state to which noise is added, shape (parameters,).
        mean_strength: The broadcast s-bar.
        grid: Strengths, shape (m,).
        probe: What to measure with.
    """
    effective = effective_strength(grid, mean_strength, experiment.run.num_clients, game.coupling)
    if game.loss == "measured":
        variances = 2.0 * experiment.mechanism.step_size * effective
        return _measured(game, parameters, variances * experiment.training.local_steps, probe)
    if game.loss == "surrogate":
        return surrogate_loss(_mean_losses(game, parameters, probe), grid, game.offset)
    return quadratic_loss(
        _mean_curvatures(experiment, game, parameters, probe),
        experiment.mechanism.step_size,
        effective,
        experiment.training.local_steps,
    )


def _measured(
    game: MeanField, parameters: NDArray[np.float32], variances: FloatArray, probe: Probe
) -> FloatArray:
    scales = np.sqrt(variances)[:, None]
    states = parameters + scales * probe.noise[:, None, :]
    losses = probe.model.losses(states, probe.batches)
    terms = np.empty((len(losses), len(variances)))
    for rows in _equal_batches(losses):
        values = np.stack([losses[row] for row in rows]).transpose(2, 0, 1)
        terms[rows] = measured_loss(values, game.loss_cap, probe.divisors[rows, None])
    return terms


def _mean_losses(game: MeanField, parameters: NDArray[np.float32], probe: Probe) -> FloatArray:
    shape = (len(probe.noise), 1, len(parameters))
    states = np.broadcast_to(parameters.astype(np.float64), shape)
    losses = probe.model.losses(states, probe.batches)
    means = np.empty(len(losses))
    for rows in _equal_batches(losses):
        values = np.stack([losses[row][0] for row in rows]).T
        means[rows] = capped_mean(values, game.loss_cap, probe.divisors[rows])
    return means


def _equal_batches(losses: Sequence[FloatArray]) -> Iterator[IntArray]:
    """Yield the rows of clients that have equally many examples, not too many rows at once.

    Sums over examples then are those of a single client to the last bit: each runs over one
    client's values, which stay side by side in memory.
    """
    sizes = np.array([own.shape[-1] for own in losses])
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        for start in range(0, len(rows), CLIENTS_AT_ONCE):
            yield rows[start : start + CLIENTS_AT_ONCE]


def _mean_curvatures(
    experiment: Experiment, game: MeanField, parameters: NDArray[np.float32], probe: Probe
) -> FloatArray:
    means = []
    for examples, batch, divisor, rng in zip(
        probe.examples, probe.batches, probe.divisors, probe.rngs, strict=True
    ):
        traces = per_example_curvature(experiment.task, parameters, examples, rng)
        means.append(capped_mean(traces[batch], game.curvature_cap, float(divisor)))
    return np.array(means, dtype=np.float64)


def privacy_terms(
    experiment: Experiment, game: MeanField, num_examples: int, grid: FloatArray
) -> FloatArray:
    """Return the priced privacy term of a client at each strength, shape (m,); public.

    Args:
        experiment: The experiment.
        game: Its game.
        num_examples: The client's number of examples.
        grid: Strengths, shape (m,).
    """
    steps = experiment.run.rounds * experiment.training.local_steps
    if game.privacy == "lsi":
        return privacy_cost(_claimed_delta(experiment, grid, steps), game.cost)
    context = client_context(experiment, num_examples)
    step_size = experiment.mechanism.step_size
    noise_multipliers = np.array(
        [strength_to_noise_multiplier(float(s), step_size, context.sensitivity) for s in grid]
    )
    if game.privacy == "epsilon":
        delta = experiment.accounting.delta
        values = gaussian_epsilon(noise_multipliers, context.amplifying_rate, steps, delta)
    else:
        values = np.array([_delta(float(z), steps, context) for z in noise_multipliers])
    return privacy_cost(np.asarray(values), game.cost)


def _delta(noise_multiplier: float, steps: int, context: ClientContext) -> float:
    event = SampledGaussian(
        noise_multiplier=noise_multiplier,
        sampling_rate=context.amplifying_rate,
        steps=steps,
        neighbours=context.neighbours,
        mechanism="planned",
    )
    return RdpAccountant().delta([event], FIXED_EPSILON)


def _claimed_delta(experiment: Experiment, grid: FloatArray, steps: int) -> FloatArray:
    mechanism = experiment.mechanism
    # the claim knows the entropic flow only; a Gaussian step is one without prior and penalty
    prior_std = mechanism.prior_std if isinstance(mechanism, Jko) else 1.0
    variance_penalty = mechanism.lambda_ if isinstance(mechanism, Jko) else 0.0
    claimed = lsi_delta(
        grid,
        steps=steps,
        tau=mechanism.step_size,
        prior_std=prior_std,
        variance_penalty=variance_penalty,
        gradient_bound=experiment.training.clipping_norm,
        dimension=sum(p.numel() for p in experiment.task.module().parameters()),
        num_clients=experiment.run.num_clients,
    )
    return np.asarray(claimed)
