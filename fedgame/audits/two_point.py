"""The two-point attack: does a client with constant gradients take part, or contribute nothing?

In world 1 every clipped gradient of one client is C in one known direction; in world 0 it is zero
(relation "client"), or C in the opposite direction ("client-replace"). No two clients are easier to
tell apart, so what the attack finds is what the noise of the mechanism leaves. The direction is
the one along which all entries are equal: there a barycentric projection changes nothing, since it
keeps the mean of a tensor's entries, and lambda pulls nowhere. Noise is Gaussian and all else is
linear, so the log-likelihood ratio of what is seen is known in closed form, and by Neyman and
Pearson no other score does better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from fedgame.ledger.events import SampledGaussian
from fedgame.mechanisms.base import ClientContext
from fedgame.mechanisms.jko import Jko

FloatArray = NDArray[np.float64]

Seen: TypeAlias = Literal["every state", "last state"]
"""Whether a client sends its state after every step, or after the last one alone."""

Relation: TypeAlias = Literal["client", "client-replace"]


class Sends(NamedTuple):
    """What an adversary sees, along the direction of the gradients.

    Attributes:
        starts: The public states from which a client set out before each send, shape (runs, sends).
        states: What it sent, shape (runs, sends).
    """

    starts: FloatArray
    states: FloatArray


@dataclass(frozen=True)
class TwoPointGame:
    """Runs of the JKO step in both worlds, and how well they can be told apart.

    Attributes:
        mechanism: The mechanism that is attacked; it takes the steps itself.
        strength: Entropic strength s of all clients, > 0.
        steps: K >= 1.
        dimension: Parameters of the model, one tensor, >= 1.
        clipping_norm: C > 0.
        neighbours: What world 0 is.
        seen: What the adversary sees of the states.
        num_clients: N >= 1: the adversary sees the mean of so many clients' states, from which all
            take the next step. The others' gradients are zero, which is as good for it as any that
            it knows.
    """

    mechanism: Jko
    strength: float
    steps: int
    dimension: int = 5
    clipping_norm: float = 1.0
    neighbours: Relation = "client"
    seen: Seen = "every state"
    num_clients: int = 1
    _context: ClientContext = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not (0 < self.strength < np.inf and 0 < self.clipping_norm < np.inf):
            raise ValueError(
                f"strength = {self.strength} and clipping_norm = {self.clipping_norm}: must be "
                "finite and > 0"
            )
        if min(self.steps, self.dimension, self.num_clients) < 1:
            raise ValueError(
                f"steps = {self.steps}, dimension = {self.dimension} and num_clients = "
                f"{self.num_clients}: must be at least 1"
            )
        if self.seen not in get_args(Seen) or self.neighbours not in get_args(Relation):
            raise ValueError(
                f"seen = {self.seen!r} and neighbours = {self.neighbours!r}: must be one of "
                f"{get_args(Seen)} and of {get_args(Relation)}"
            )
        context = ClientContext(1, 1.0, self.clipping_norm, self.neighbours)
        object.__setattr__(self, "_context", context)

    @property
    def direction(self) -> FloatArray:
        """The direction of the gradients, of length 1, shape (dimension,)."""
        return np.full(self.dimension, 1 / np.sqrt(self.dimension))

    @property
    def kept(self) -> float:
        """What a step keeps of a state along `direction`."""
        return 1 - self.mechanism.tau * self.strength / self.mechanism.prior_std**2

    @property
    def mu(self) -> float:
        """The distance of the two worlds: what is seen tells them apart as N(0, 1) and N(mu, 1)."""
        low, high, deviation = self._moments()
        return abs(high - low) / deviation

    def events(self) -> tuple[SampledGaussian, ...]:
        """Return what one client's steps cost, as the mechanism itself says."""
        state = np.zeros((1, self.dimension))
        release = self._release(state, state, np.zeros_like(state))
        return release[1] * self.steps

    def play(self, repetitions: int, rng: np.random.Generator, *, present: bool) -> Sends:
        """Run one world and return what is seen of each run.

        Args:
            repetitions: Independent runs.
            rng: Draws the noise of all clients.
            present: World 1 rather than world 0.
        """
        absent = -self.clipping_norm if self.neighbours == "client-replace" else 0.0
        states = self._run(repetitions, rng, self.clipping_norm if present else absent)
        if self.seen == "last state":
            states = states[:, [0, -1]]
        return Sends(states[:, :-1], states[:, 1:])

    def scores(self, sends: Sends) -> FloatArray:
        """Return the log-likelihood ratio of world 1 over world 0.

        A score above epsilon is the set of outcomes with which delta at epsilon is attained.

        Args:
            sends: What is seen, K sends or the last alone.

        Returns:
            Shape (runs,).
        """
        kept = self.kept if self.seen == "every state" else self.kept**self.steps
        moved = (sends.states - kept * sends.starts).sum(axis=1)
        low, high, deviation = self._moments()
        return np.asarray((high - low) / deviation**2 * (moved - (low + high) / 2))

    def _moments(self) -> tuple[float, float, float]:
        """Return the mean of the sum of moves in world 0 and in world 1, and its deviation."""
        tau, count = self.mechanism.tau, self.num_clients
        kept = self.kept if self.seen == "last state" else 1.0
        weights: FloatArray = np.power(kept, np.arange(self.steps))
        high = -tau * self.clipping_norm / count * float(weights.sum())
        low = -high if self.neighbours == "client-replace" else 0.0
        variance = 2 * self.strength * tau / count * float(weights @ weights)
        return low, high, float(np.sqrt(variance))

    def _run(self, repetitions: int, rng: np.random.Generator, gradient: float) -> FloatArray:
        """Return the mean states along `direction`, shape (repetitions, K + 1)."""
        states: FloatArray = np.zeros((repetitions, self.dimension))
        gradients = np.broadcast_to(gradient * self.direction, states.shape)
        seen = [states @ self.direction]
        for _ in range(self.steps):
            total, _ = self._release(states, gradients, rng.standard_normal(states.shape))
            for _ in range(self.num_clients - 1):
                nothing, noise = np.zeros_like(states), rng.standard_normal(states.shape)
                total += self._release(states, nothing, noise)[0]
            states = total / self.num_clients
            seen.append(states @ self.direction)
        return np.stack(seen, axis=1)

    def _release(
        self, states: FloatArray, gradients: FloatArray, noise: FloatArray
    ) -> tuple[FloatArray, tuple[SampledGaussian, ...]]:
        """Let the mechanism take one step of many clients at once."""
        contexts: Sequence[ClientContext] = [self._context] * len(states)
        strengths = np.full(len(states), self.strength)
        release = self.mechanism.release(
            states, gradients, strengths, contexts, noise, [self.dimension]
        )
        return release.value, release.events
