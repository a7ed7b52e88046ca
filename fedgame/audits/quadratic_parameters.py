"""The parameters of a quadratic game that an adversary must guess, as one vector a player."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml_logs import BoolArray, FloatArray, IntArray, log_sum
from fedgame.accountants.pml_prior import Prior
from fedgame.games.aggregative.base import GradientKind
from fedgame.games.aggregative.quadratic import QuadraticGame, times

MOST_PROFILES = 4096
"""Up to how many profiles of types an expectation is a sum over all of them."""

MOST_NUMBERS = 4_000_000


@dataclass(frozen=True, eq=False)
class Unknowns:
    """How the pseudo-gradient depends on what an adversary does not know.

    The vector theta_i of a player holds the entries of a, Q and S of its cost function
    a^T x + x^T Q x/2 + x^T S delta + c^T delta + delta^T R delta/2 that are not the same for all
    types and players; for the vaccination game these are A and -B^T (PML paper, section 5.2). The
    full gradient depends on c and R as well: the adversary knows that c = -S^T 1 where that holds
    for all candidates, as in the vaccination game, and otherwise counts on each player's mean over
    its types.

    Attributes:
        free: Which entries of (a, Q, S), flattened, are unknown, shape (n + 2 n^2,).
        known: All entries, 0 where unknown, same shape.
        share: The weight of the effect on the mean: 1/N, or 0 for the paper's gradient.
        tied: Whether c = -S^T 1.
        aggregate_linear: c, or 0 if it is tied, shape (N, n).
        aggregate_curvature: R, shape (N, n, n).
    """

    free: BoolArray
    known: FloatArray
    share: float
    tied: bool
    aggregate_linear: FloatArray
    aggregate_curvature: FloatArray

    @classmethod
    def of(cls, game: QuadraticGame, kind: GradientKind) -> Unknowns:
        """Return the unknowns of a game whose players follow one of the two gradients."""
        rows = _flat(game)
        free = np.asarray((rows != rows[:1, :1]).any(axis=(0, 1)))
        table = game.table
        tied = bool(np.allclose(table.aggregate_linear, -table.coupling.sum(axis=-2), atol=0))
        linear = table.aggregate_linear.mean(axis=1)
        return cls(
            free,
            np.where(free, 0.0, rows[0, 0]),
            1 / game.num_players if kind == "full" else 0.0,
            tied,
            np.zeros_like(linear) if tied else linear,
            table.aggregate_curvature.mean(axis=1),
        )

    @property
    def count(self) -> int:
        """The number of entries of theta_i, p."""
        return int(self.free.sum())

    def gradient(self, theta: FloatArray, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return F(x, delta), shape (..., N, n).

        Args:
            theta: Shape (..., N, p).
            x: Strategies, shape (..., N, n).
            aggregate: delta, same shape.
        """
        whole = np.broadcast_to(self.known, (*theta.shape[:-1], len(self.known))).copy()
        whole[..., self.free] = theta
        known = self.aggregate_linear + times(self.aggregate_curvature, aggregate)
        return self._linear(whole, x, aggregate) + self.share * known

    def change(self, theta: FloatArray, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return by how much F changes where theta changes by so much; same shapes."""
        whole = np.zeros((*theta.shape[:-1], len(self.known)))
        whole[..., self.free] = theta
        return self._linear(whole, x, aggregate)

    def slope(self, weights: FloatArray, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return the derivative of weights^T F by theta, shape (..., N, p).

        Args:
            weights: Shape (..., N, n).
            x: Strategies, same shape.
            aggregate: delta, same shape.
        """
        back = x - 1 if self.tied else x
        curvature = weights[..., :, None] * x[..., None, :]
        coupling = weights[..., :, None] * aggregate[..., None, :]
        coupling = coupling + self.share * back[..., :, None] * weights[..., None, :]
        lead = weights.shape[:-1]
        parts = [weights, curvature.reshape(*lead, -1), coupling.reshape(*lead, -1)]
        return np.asarray(np.concatenate(parts, axis=-1)[..., self.free])

    def _linear(self, whole: FloatArray, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return the part of F that is linear in (a, Q, S)."""
        n = x.shape[-1]
        square = (*whole.shape[:-1], n, n)
        curvature = whole[..., n : n + n * n].reshape(square)
        coupling = whole[..., n + n * n :].reshape(square)
        own = whole[..., :n] + times(curvature, x) + times(coupling, aggregate)
        back = x - 1 if self.tied else x
        return np.asarray(own + self.share * times(np.swapaxes(coupling, -1, -2), back))


def candidate_parameters(game: QuadraticGame) -> FloatArray:
    """Return theta of every type of every player, shape (N, m, p)."""
    rows = _flat(game)
    return np.asarray(rows[..., (rows != rows[:1, :1]).any(axis=(0, 1))])


def true_parameters(game: QuadraticGame, types: ArrayLike) -> FloatArray:
    """Return theta of every player, shape (..., N, p), for types of shape (..., N)."""
    chosen: IntArray = np.asarray(types)
    return np.asarray(candidate_parameters(game)[np.arange(game.num_players), chosen])


def blind_gain(
    game: QuadraticGame, prior: Prior, rng: np.random.Generator
) -> tuple[float, FloatArray]:
    """Return the best expected gain of guesses of theta that saw no message: 1 + |E theta/|theta||.

    The gain is the cosine similarity of guess and truth, plus 1; the best guess points in the
    direction of the mean of theta/|theta| under the prior.

    Args:
        game: The game, with its candidates.
        prior: What everybody knows about the types.
        rng: Draws profiles where there are more than 4096, at most so many of them; the gain for
            all players is then too large by at most about half of 1 over their number.

    Returns:
        The gain for the parameters of all players together, and for each player's own, shape (N,),
        which is exact.
    """
    candidates = candidate_parameters(game)
    marginals = np.exp(prior.log_marginals)
    alone = np.einsum("it,itp->ip", marginals, _directions(candidates))
    profiles, weights = _profiles(prior, rng, candidates[:, 0].size)
    chosen = candidates[np.arange(game.num_players), profiles].reshape(len(profiles), -1)
    together = weights @ _directions(chosen)
    return 1 + float(np.linalg.norm(together)), 1 + np.linalg.norm(alone, axis=-1)


def _profiles(prior: Prior, rng: np.random.Generator, numbers: int) -> tuple[IntArray, FloatArray]:
    """Return profiles and their weights in an expectation: all of them, or drawn ones."""
    players, types = prior.num_players, prior.num_types
    if players * np.log(types) <= np.log(MOST_PROFILES) + 1e-9:
        every = itertools.product(range(types), repeat=players)
        profiles = np.array(list(every), dtype=np.int64)
        with np.errstate(divide="ignore"):
            logs = np.log(prior.probabilities)[:, np.arange(players), profiles].sum(axis=-1)
            return profiles, np.exp(log_sum(logs + np.log(prior.weights)[:, None], axis=0))
    count = int(np.clip(MOST_NUMBERS // max(numbers, 1), 64, MOST_PROFILES))
    return prior.draw(rng, count), np.full(count, 1 / count)


def _directions(vectors: FloatArray) -> FloatArray:
    """Return vectors of length 1, and 0 for 0."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


def _flat(game: QuadraticGame) -> FloatArray:
    """Return (a, Q, S) of every type of every player, shape (N, m, n + 2 n^2)."""
    table = game.table
    lead = table.linear.shape[:2]
    squares = [table.curvature.reshape(*lead, -1), table.coupling.reshape(*lead, -1)]
    return np.concatenate([table.linear, *squares], axis=-1)
