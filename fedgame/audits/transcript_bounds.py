"""All bounds on what a transcript leaked, some iterations at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fedgame.accountants.pml_bounds import (
    Bound,
    composition,
    corollary_1,
    corollary_2,
    fixed_prior_composition,
    group_dp,
    individual_dp,
    theorem_1,
)
from fedgame.accountants.pml_distances import (
    REALISED,
    Source,
    bounded_distances,
    closed_form,
    gradient_sensitivities,
    sampled,
    simplex_factor,
    type_distances,
)
from fedgame.accountants.pml_individual import lemma_5_upper
from fedgame.accountants.pml_logs import FloatArray
from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import tabulated
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.likelihood import Follower
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Box, Everywhere, Simplex
from fedgame.randomness import public_generator

EVERY = ", every transcript"
"""What the names of bounds end in that are not about the transcript at hand."""

SAMPLES = 64
"""How many transcripts are drawn where nothing bounds the distances in closed form."""

MOST_SAMPLED = 60_000_000
"""Up to how many numbers these transcripts may take; above, the bounds are left out."""

MOST_DISTANCES = 20_000_000
"""Likewise for distances that are the same along every transcript."""

MOST_PROFILES = 32
"""Up to how many profiles a prior is tabulated; bounds then cost their number squared."""

BLOCK_NUMBERS = 2_000_000


def exact_floors(prior: Prior) -> Prior:
    """Return the same prior in a form in which bounds take exact minima over profiles, if small.

    Args:
        prior: It stays as it is where its minima are exact or it has more than 32 profiles.
    """
    if prior.floor_is_exact or prior.num_types**prior.num_players > MOST_PROFILES:
        return prior
    return tabulated(prior)


def blocks(prior: Prior, dynamics: Dynamics, iterations: int) -> Iterator[slice]:
    """Yield stretches of iterations whose arrays fit in memory; an empty one if there are none.

    Args:
        prior: Its number of components counts.
        dynamics: Its numbers of types and dimensions count.
        iterations: K'.
    """
    width = prior.num_types * max(prior.num_types, dynamics.game.dimension)
    length = max(1, BLOCK_NUMBERS // (len(prior.weights) * prior.num_players * width))
    for first in range(0, max(iterations, 1), length):
        yield slice(first, min(first + length, iterations))


class RunningBounds:
    """Bounds as a transcript grows; the last values are carried from stretch to stretch.

    Attributes:
        prior: What everybody knows about the types.
    """

    def __init__(self, prior: Prior, source: Source = REALISED) -> None:
        """Stand before iteration 0.

        Args:
            prior: What everybody knows about the types.
            source: Where the distances come from.
        """
        self.prior, self._source = prior, source
        shape = (1, prior.num_players, prior.num_types, prior.num_types)
        self._total, self._largest = np.zeros(shape), np.zeros(shape)
        self._parts: dict[str, list[Bound]] = {}

    def extend(self, gaps: FloatArray) -> None:
        """Go on with Theorem 1, Corollary 2 and group DP.

        Args:
            gaps: Distances over the noise, shape (iterations, N, m, m).
        """
        rows = self._with_total(gaps)
        self._follow(theorem_1(self.prior, rows, self._source))
        self._sum_up(corollary_2(self.prior, gaps, self._source))
        self._follow(group_dp(self.prior, rows, self._source))
        self._total = rows.sum(axis=0, keepdims=True)

    def extend_realised(self, gaps: FloatArray, before: FloatArray, logs: FloatArray) -> None:
        """Go on with all bounds.

        Args:
            gaps: Distances over the noise along the transcript, shape (iterations, N, m, m).
            before: log L_i(t) before the first of these iterations, shape (1, N, m).
            logs: log L_i(t) after each of them, shape (iterations, N, m).
        """
        prior, rows = self.prior, self._with_total(gaps)
        self._follow(individual_dp(prior, rows, self._source))
        self.extend(gaps)
        # Corollary 1 adds up the largest distance of each type, whatever the other one
        self._follow(corollary_1(prior, np.concatenate([self._largest, gaps])))
        largest = gaps.max(axis=-2, keepdims=True).sum(axis=0, keepdims=True)
        self._largest = self._largest + largest
        still = np.concatenate([np.zeros_like(self._total), gaps])
        self._sum_up(_from_second(composition(prior, np.concatenate([before, logs]), still)))
        self._sum_up(fixed_prior_composition(prior, gaps))

    def bounds(self) -> dict[str, Bound]:
        """Return all bounds by name, over all iterations so far."""
        return {
            name: replace(parts[0], value=np.concatenate([part.value for part in parts]))
            for name, parts in self._parts.items()
        }

    def _with_total(self, gaps: FloatArray) -> FloatArray:
        return np.concatenate([self._total, gaps])

    def _follow(self, bound: Bound) -> None:
        """Keep a bound whose first value is that of what was carried."""
        self._parts.setdefault(bound.name, []).append(_from_second(bound))

    def _sum_up(self, bound: Bound) -> None:
        """Keep a bound that is a sum over iterations."""
        parts = self._parts.setdefault(bound.name, [])
        so_far = parts[-1].value[-1] if parts else 0.0
        parts.append(replace(bound, value=bound.value + so_far))


def _from_second(bound: Bound) -> Bound:
    return replace(bound, value=bound.value[1:])


def realised_bounds(running: RunningBounds) -> tuple[Bound, ...]:
    """Return the bounds along a transcript, Lemma 5 (1) included, in the order of reports.

    Args:
        running: Extended over the whole transcript by `extend_realised`.
    """
    found = running.bounds()
    order = ("Theorem 1", "Corollary 1", "Corollary 2", "composition", "Remark 5", "group DP")
    ordered = [found[name] for name in (*order, "DP of one player")]
    return (*ordered, lemma_5_upper(running.prior, found["group DP"]))


def every_transcript(prior: Prior, dynamics: Dynamics, iterations: int) -> tuple[Bound, ...]:
    """Return Theorem 1, Corollary 2 and group DP for every transcript of the planned noise.

    On a bounded feasible set they are rigorous, since two types' strategies are no farther apart
    than the set is wide; and without a set where the gradients of a player's types differ by
    constants, so that its types are equally far apart along every transcript. More noise than
    planned, or fewer messages, can only lower them. Otherwise they are estimates, from transcripts
    that are drawn from a public stream; for large games they are left out.

    Args:
        prior: What everybody knows about the types.
        dynamics: The public part of the run.
        iterations: K'.

    Returns:
        Values of shape (K',); nothing where they are left out.
    """
    found = _in_bounded_set(dynamics, iterations)
    if found is None and _differ_by_constants(dynamics):
        found = _along_any(dynamics, iterations)
    elif found is None:
        found = _sampled(prior, dynamics, iterations)
    if found is None:
        return ()
    distances, source = found
    running = RunningBounds(prior, source)
    for block in blocks(prior, dynamics, iterations):
        running.extend(distances[block])
    return tuple(replace(bound, name=name + EVERY) for name, bound in running.bounds().items())


def _in_bounded_set(dynamics: Dynamics, iterations: int) -> tuple[FloatArray, Source] | None:
    """Return distances over the planned noise that no transcript exceeds, (K', N, m, m)."""
    game, feasible = dynamics.game, dynamics.game.feasible
    factor, diameter = 1.0, math.inf
    if isinstance(feasible, Box):
        widths = np.asarray(feasible.upper) - np.asarray(feasible.lower)
        diameter = float(np.broadcast_to(widths, game.dimension).sum())
    elif isinstance(feasible, Simplex):
        factor, diameter = simplex_factor(game.dimension), 2.0
    else:
        return None
    schedules = dynamics.schedules
    sizes = gradient_sensitivities(
        np.append(schedules.step, 0.0),
        math.inf,
        dynamics.rule,
        projection_factor=factor,
        diameter=diameter,
    )
    noise = schedules.noise[:iterations]
    distances = bounded_distances(sizes[:iterations], noise, game.num_players, game.num_types)
    text = f"strategies stay in a set that is {diameter:g} wide in the L1 norm"
    return distances, closed_form(text)


def _differ_by_constants(dynamics: Dynamics) -> bool:
    """Return whether a player's types follow the same affine rule but for constants."""
    game = dynamics.game
    if not (isinstance(game, QuadraticGame) and isinstance(game.feasible, Everywhere)):
        return False
    table = game.table
    matrices = [table.curvature, table.coupling]
    if dynamics.gradient == "full":
        matrices.append(table.aggregate_curvature)
    return all(bool((matrix == matrix[:, :1]).all()) for matrix in matrices)


def _along_any(dynamics: Dynamics, iterations: int) -> tuple[FloatArray, Source] | None:
    """Return the distances over the planned noise along one transcript, (K', N, m, m)."""
    game = dynamics.game
    pairs = game.num_players, game.num_types, game.num_types
    if iterations * math.prod(pairs) > MOST_DISTANCES:
        return None
    follower = Follower(dynamics)
    nothing = np.zeros((game.num_players, game.dimension))
    distances = np.zeros((iterations, *pairs))
    for k, scale in enumerate(dynamics.schedules.noise[:iterations]):
        if k > 0:
            follower.advance(nothing)
        distances[k] = type_distances(follower.next_messages) / scale
    return distances, closed_form("types are equally far apart along every transcript")


def _sampled(prior: Prior, dynamics: Dynamics, iterations: int) -> tuple[FloatArray, Source] | None:
    """Return the largest distances over the noise on drawn transcripts, shape (K', N, m, m)."""
    game = dynamics.game
    players, types = game.num_players, game.num_types
    width = types * max(types, game.dimension)
    if SAMPLES * iterations * players * width > MOST_SAMPLED:
        return None
    rng = public_generator(0, "sampled transcripts")
    profiles = prior.draw(rng, SAMPLES)[..., None, None]
    follower = Follower(dynamics, support=prior.support)
    shape = (SAMPLES, players, types, game.dimension)
    messages = np.zeros((SAMPLES, players, game.dimension))
    largest = np.zeros((iterations, players, types, types))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is left out just below
        for k, scale in enumerate(dynamics.schedules.noise[:iterations]):
            if k > 0:
                follower.advance(messages)
            v = np.broadcast_to(follower.next_messages, shape)
            largest[k] = type_distances(v).max(axis=0) / scale
            sent = np.take_along_axis(v, profiles, axis=-2)[..., 0, :]
            messages = sent + rng.laplace(0.0, scale, sent.shape)
    return (largest, sampled(SAMPLES)) if np.isfinite(largest).all() else None
