"""Between strengths, noise multipliers and events, for the clients of one run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedgame.ledger.events import SampledGaussian
from fedgame.mechanisms.base import ClientContext, strength_to_noise_multiplier
from fedgame.strategies.burn_in import burn_in_noise_multipliers, burns_in
from fedgame.strategies.settings import Experiment

FloatArray = NDArray[np.float64]


def client_context(experiment: Experiment, num_examples: int) -> ClientContext:
    """Return the public quantities of a client that holds `num_examples` examples."""
    training = experiment.training
    return ClientContext(
        num_examples=num_examples,
        sampling_rate=training.sampling_rate,
        clipping_norm=training.clipping_norm,
        neighbours=training.neighbours,
    )


@dataclass(frozen=True)
class Bridge:
    """What a strength means for each client.

    Attributes:
        experiment: The experiment.
        counts: Number of examples of each client, shape (clients,).
    """

    experiment: Experiment
    counts: NDArray[np.int64]

    @cached_property
    def sensitivities(self) -> FloatArray:
        """L2 sensitivity of each client's averaged clipped gradient, shape (clients,)."""
        sizes, inverse = np.unique(self.counts, return_inverse=True)
        contexts = (client_context(self.experiment, count) for count in sizes.tolist())
        return np.array([context.sensitivity for context in contexts])[inverse]

    def noise_multipliers(self, strengths: FloatArray) -> FloatArray:
        """Return the noise multiplier of each client at the given strengths, shape (clients,)."""
        if burns_in(self.experiment):
            return burn_in_noise_multipliers(self.experiment, self.counts)
        step = self.experiment.mechanism.step_size
        noise_multipliers: FloatArray = np.sqrt(2.0 * strengths / step) / self.sensitivities
        return noise_multipliers

    def strengths_of(self, noise_multipliers: FloatArray) -> FloatArray:
        """Return the strength of each client at the given noise multipliers, shape (clients,)."""
        step = self.experiment.mechanism.step_size
        strengths: FloatArray = 0.5 * step * (noise_multipliers * self.sensitivities) ** 2
        return strengths

    def update_events(
        self, clients: NDArray[np.int64], strengths: FloatArray
    ) -> list[SampledGaussian]:
        """Return `update_event` of many clients at their strengths; equal events are one object."""
        of: dict[tuple[int, float], SampledGaussian] = {}
        events = []
        columns = (clients.tolist(), self.counts[clients].tolist(), strengths.tolist())
        for client, count, strength in zip(*columns, strict=True):
            key = (count, strength)
            if key not in of:
                of[key] = self.update_event(client, strength)
            events.append(of[key])
        return events

    def update_event(self, client: int, strength: float) -> SampledGaussian:
        """Return the event of one round's update of a client (its position) at a strength."""
        experiment = self.experiment
        context = client_context(experiment, int(self.counts[client]))
        step = experiment.mechanism.step_size
        return SampledGaussian(
            noise_multiplier=strength_to_noise_multiplier(strength, step, context.sensitivity),
            sampling_rate=context.amplifying_rate,
            steps=experiment.training.local_steps,
            neighbours=context.neighbours,
            mechanism=experiment.mechanism.name,
            strength=strength,
        )
