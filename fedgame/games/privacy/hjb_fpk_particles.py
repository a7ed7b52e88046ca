"""The finite population behind the equations: N clients who all play the mean-field strengths.

Clients meet only in their mean state, so that as N grows each one's law tends to the solution's
density (propagation of chaos), and the empirical distribution does so like N^(-1/2). The explicit
Euler scheme adds a bias of the order of its step, which would be a floor under that: let the step
shrink with N, and solve the equations with steps and cells fine enough.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.privacy.hjb_fpk import HjbFpkSolution
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk

FINITE_DIFFERENCE: Final = 1e-5


@dataclass(frozen=True, eq=False)
class Particles:
    """Clients at time T.

    Attributes:
        state: Their states, shape (N,).
        kind: Index of each one's type, shape (N,), non-decreasing.
    """

    state: FloatArray
    kind: IntArray


@dataclass(frozen=True)
class ChaosRate:
    """How far finite populations are from the solution's densities at time T.

    Attributes:
        sizes: N, one a population.
        distances: Mean Wasserstein-1 distance over the repeats, in units of x.
        errors: Standard error of that mean; 0 for one repeat.
        slope: Least-squares slope of ln(distance) over ln(N): -1/2 by theory.
    """

    sizes: tuple[int, ...]
    distances: tuple[float, ...]
    errors: tuple[float, ...]
    slope: float


def steps_for(num_particles: int) -> int:
    """Return 2 sqrt(N) Euler steps, at least 20, so that the bias falls as fast as the noise."""
    return max(20, math.ceil(2 * math.sqrt(num_particles)))


def simulate(
    solution: HjbFpkSolution, num_particles: int, steps: int, generator: np.random.Generator
) -> Particles:
    """Move N clients from time 0 to T by explicit Euler steps under the solution's strengths.

    Strengths are interpolated linearly between the centres of cells; the mean state is that of the
    clients, with each type at its share of the population.

    Args:
        solution: A solution.
        num_particles: N, at least one a type.
        steps: Euler steps, at least 1.
        generator: Source of all randomness.

    Raises:
        ValueError: There are fewer clients than types, or no steps.
    """
    settings = solution.settings
    if num_particles < len(settings.betas):
        raise ValueError(
            f"num-particles = {num_particles}: must be at least {len(settings.betas)}, one a type"
        )
    if steps < 1:
        raise ValueError(f"steps = {steps}: must be at least 1")
    kind = _kinds(settings, num_particles)
    weight = (settings.shares() / np.bincount(kind))[kind]
    state = _initial_states(solution, kind, generator)
    dt = settings.horizon / steps
    for step in range(steps):
        # The solution's step that holds at the middle of this one.
        index = int((step + 0.5) * settings.time_steps / steps)
        strength = _at_states(solution, index, state, kind)
        drift = _drift(settings, state, strength, float(weight @ state))
        noise = generator.standard_normal(num_particles)
        state = state + drift * dt + np.sqrt(2 * strength * dt) * noise
    return Particles(state, kind)


def distance(solution: HjbFpkSolution, particles: Particles) -> float:
    """Return the Wasserstein-1 distance to the densities at time T, averaged over the types.

    It is the integral of |F_N - F| over the states of the range, by the rule of rectangles on the
    interfaces of the cells, with the types' shares as weights.
    """
    settings = solution.settings
    edges = _edges(solution)
    total = 0.0
    for j, share in enumerate(settings.shares()):
        states = np.sort(particles.state[particles.kind == j])
        empirical = np.searchsorted(states, edges, side="right") / len(states)
        exact = _cumulative(solution.mu[j, -1])
        total += float(share * np.abs(empirical - exact).sum() * (edges[1] - edges[0]))
    return total


def measure_chaos(
    solution: HjbFpkSolution,
    sizes: Sequence[int],
    generator: np.random.Generator,
    repeats: int = 1,
) -> ChaosRate:
    """Measure how the distance of N clients to the solution falls with N.

    Args:
        solution: A solution; its own error must be below the smallest distance.
        sizes: N, at least two different ones; each takes `steps_for(N)` Euler steps.
        generator: Source of all randomness.
        repeats: Independent populations of each size, at least 1.

    Raises:
        ValueError: There are fewer than two sizes, or one of them is too small.
    """
    if len(set(sizes)) < 2:
        raise ValueError(f"sizes = {tuple(sizes)}: must be at least two different ones")
    if repeats < 1:
        raise ValueError(f"repeats = {repeats}: must be at least 1")
    measured = np.array(
        [
            [
                distance(solution, simulate(solution, size, steps_for(size), generator))
                for _ in range(repeats)
            ]
            for size in sizes
        ]
    )
    means = measured.mean(axis=1)
    spread = measured.std(axis=1, ddof=1) if repeats > 1 else np.zeros(len(sizes))
    slope = np.polyfit(np.log(sizes), np.log(means), 1)[0]
    return ChaosRate(
        sizes=tuple(sizes),
        distances=tuple(means.tolist()),
        errors=tuple((spread / math.sqrt(repeats)).tolist()),
        slope=float(slope),
    )


def _kinds(settings: HjbFpk, num_particles: int) -> IntArray:
    """Share the clients out by type, at least one each, and otherwise by rounding."""
    types = len(settings.betas)
    bounds = np.cumsum(settings.shares())[:-1] * (num_particles - types)
    counts = np.diff(np.rint(bounds), prepend=0, append=num_particles - types) + 1
    return np.repeat(np.arange(types, dtype=np.int64), counts.astype(np.int64))


def _edges(solution: HjbFpkSolution) -> FloatArray:
    settings = solution.settings
    return np.linspace(settings.x_min, settings.x_max, settings.points + 1)


def _cumulative(density: FloatArray) -> FloatArray:
    sums = np.concatenate([[0.0], np.cumsum(density)])
    return np.asarray(sums / sums[-1])


def _initial_states(
    solution: HjbFpkSolution, kind: IntArray, generator: np.random.Generator
) -> FloatArray:
    """Draw from the density at time 0, which is the same for all types, constant in each cell."""
    uniform = generator.random(len(kind))
    return np.asarray(np.interp(uniform, _cumulative(solution.mu[0, 0]), _edges(solution)))


def _at_states(
    solution: HjbFpkSolution, index: int, state: FloatArray, kind: IntArray
) -> FloatArray:
    strength = np.empty(len(state))
    ends = np.searchsorted(kind, np.arange(len(solution.settings.betas) + 1))
    for j, (low, high) in enumerate(itertools.pairwise(ends)):
        strength[low:high] = np.interp(state[low:high], solution.x, solution.s_star[j, index])
    return strength


def _drift(
    settings: HjbFpk, state: FloatArray, strength: FloatArray, mean_state: float
) -> FloatArray:
    h = FINITE_DIFFERENCE
    slope = (settings.loss_at(state + h) - settings.loss_at(state - h)) / (2 * h)
    prior = strength * state / settings.prior_std**2
    return np.asarray(-slope - prior - settings.variance_penalty * (state - mean_state))
