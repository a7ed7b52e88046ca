"""An attack on particles: which of two neighbouring examples was the one that burnt in?

The adversary knows both candidates and the flow, and sees the whole particle at the end of the
burn-in and in every later round, more than any message that is trained on it tells. Later states
are functions of the first one and of fresh noise, so that they add nothing; the attack may try.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedgame.audits.attack_bounds import (
    CONFIDENCE,
    RateBounds,
    choose_threshold,
    linear_score,
    rate_bounds,
)

FloatArray = NDArray[np.float64]

Map: TypeAlias = Callable[[FloatArray], FloatArray]
"""One step without its noise, of particles of shape (runs, d)."""


@dataclass(frozen=True)
class FlowGame:
    """Particles that flow by x <- phi(x) + N(0, 2 s tau I) from one of two starts.

    Attributes:
        flow: phi.
        starts: The clipped example of world 0 and that of world 1, shape (2, d); the examples of a
            whole client one after the other, where that is what differs.
        noise_std: sqrt(2 s tau), > 0.
        burn_in: K >= 1, steps before anything is seen.
        rounds: States that are seen, >= 1; a step lies between two of them.
    """

    flow: Map
    starts: FloatArray
    noise_std: float
    burn_in: int
    rounds: int = 1

    def __post_init__(self) -> None:
        starts = np.asarray(self.starts, dtype=np.float64)
        if starts.ndim != 2 or len(starts) != 2 or not np.isfinite(starts).all():
            raise ValueError(f"starts: must be two finite vectors, not of shape {starts.shape}")
        if min(self.burn_in, self.rounds) < 1 or not 0 < self.noise_std < np.inf:
            raise ValueError(
                f"burn_in = {self.burn_in}, rounds = {self.rounds} and noise_std = "
                f"{self.noise_std}: must be at least 1, at least 1, and finite and > 0"
            )
        object.__setattr__(self, "starts", starts)

    def play(self, repetitions: int, rng: np.random.Generator, *, world: int) -> FloatArray:
        """Run one world and return what is seen of each run, shape (repetitions, rounds, d)."""
        particles = np.tile(self.starts[world], (repetitions, 1))
        seen = []
        for step in range(1, self.burn_in + self.rounds):
            noise = rng.standard_normal(particles.shape)
            particles = self.flow(particles) + self.noise_std * noise
            if step >= self.burn_in:
                seen.append(particles)
        return np.stack(seen, axis=1)


def attack_flow(
    game: FlowGame, repetitions: int, rng: np.random.Generator, confidence: float = CONFIDENCE
) -> RateBounds:
    """Tell the worlds apart by a linear score of everything seen, and return the bounds.

    Score and threshold are learnt on as many other runs as are counted; the threshold is the one
    that proves the largest mu there. For a linear flow no score does better.

    Args:
        game: The flow.
        repetitions: Runs of each world that are counted.
        rng: Draws all noise.
        confidence: Of the bounds.
    """
    learnt = [_features(game.play(repetitions, rng, world=world)) for world in (0, 1)]
    weights = linear_score(learnt[0], learnt[1])
    null, alternative = (features @ weights for features in learnt)
    threshold = choose_threshold(null, alternative, RateBounds.mu, confidence)
    counted = [_features(game.play(repetitions, rng, world=world)) @ weights for world in (0, 1)]
    return rate_bounds(counted[0], counted[1], threshold, confidence)


def _features(seen: FloatArray) -> FloatArray:
    return seen.reshape(len(seen), -1)
