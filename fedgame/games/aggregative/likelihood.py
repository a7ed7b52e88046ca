"""How likely each type of each player made what was sent.

Given the transcript, a player's trajectory is a function of its own cost function alone, so that
P(o | f) is a product of one factor a player (PML paper, Lemma 2).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.aggregative.dynamics import Dynamics, State, check_messages
from fedgame.games.best_response import BoolArray, FloatArray, IntArray


class Follower:
    """Every type of some players, followed through a transcript as it grows.

    Attributes:
        state: The strategy and estimate that each type would have, rows of shape (..., players m);
            can be kept and set again.
        iteration: The coming iteration.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        players: IntArray | None = None,
        support: BoolArray | None = None,
    ) -> None:
        """Stand before iteration 0.

        Args:
            dynamics: The public part of the run.
            players: Whom to follow; by default all, in order.
            support: Which types are possible, shape (N, m); by default all. A player's first
                possible type stands for those that are not, whose trajectories may lead anywhere.
        """
        game = dynamics.game
        self._dynamics = dynamics
        self.players = np.arange(game.num_players) if players is None else players
        self._shape = (len(self.players), game.num_types, game.dimension)
        rows = np.repeat(self.players, game.num_types)
        types = np.tile(np.arange(game.num_types), len(self.players))
        if support is not None:
            first = np.argmax(support, axis=1)[rows]
            types = np.where(support[rows, types], types, first)
        self._costs = game.costs(rows, types)
        self.state: State = dynamics.start(rows)
        self.iteration = 0

    @property
    def next_messages(self) -> FloatArray:
        """v, what each type would send in the coming iteration but for noise, (..., p, m, n)."""
        v = self.state.v
        return v.reshape(*v.shape[:-2], *self._shape)

    def advance(self, messages: FloatArray) -> None:
        """Move on by one iteration, at most K - 1 times.

        Args:
            messages: What all players sent in it, shape (..., N, n); a sender's last message where
                it sent none.
        """
        self.advance_by(self._dynamics.signal(messages)[..., self.players, :])

    def advance_by(self, signal: FloatArray) -> None:
        """Move on by one iteration, by what each player makes of what it heard.

        Args:
            signal: The players' rows of `Dynamics.signal`, shape (..., players, n).
        """
        rows = np.repeat(signal, self._shape[1], axis=-2)
        self.state = self._dynamics.step(self._costs, self.state, rows, self.iteration)
        self.iteration += 1


def follow(dynamics: Dynamics, transcript: FloatArray) -> Iterator[FloatArray]:
    """Yield, iteration by iteration, what each type would have sent without noise.

    Args:
        dynamics: The public part of the run.
        transcript: o, shape (..., K, N, n); a sender's last message where it sent none.

    Yields:
        v_k given the transcript before k, shape (..., N, m, n); without the leading axes for k = 0.

    Raises:
        ValueError: The transcript does not fit the dynamics.
    """
    check_messages(dynamics, transcript, "transcript")
    follower = Follower(dynamics)
    yield follower.next_messages
    for k in range(transcript.shape[-3] - 1):
        follower.advance(transcript[..., k, :, :])
        yield follower.next_messages


def trajectories(dynamics: Dynamics, transcript: FloatArray) -> FloatArray:
    """Return all that `follow` yields, shape (..., K, N, m, n).

    Args:
        dynamics: The public part of the run.
        transcript: o, shape (..., K, N, n).

    Raises:
        ValueError: The transcript does not fit the dynamics.
    """
    game = dynamics.game
    shape = (*np.shape(transcript)[:-3], game.num_players, game.num_types, game.dimension)
    steps = [np.broadcast_to(v, shape) for v in follow(dynamics, transcript)]
    return np.stack(steps, axis=-4)


def log_densities(messages: FloatArray, v: FloatArray, scales: ArrayLike) -> FloatArray:
    """Return the log density of each player's message under each type, shape (..., N, m).

    Nothing is left out: -n log(2 M) - |o_i - v_i|_1/M.

    Args:
        messages: o of one iteration, shape (..., N, n).
        v: What the types would have sent without noise, shape (..., N, m, n).
        scales: M, a number or one a player, shape (..., N).

    Raises:
        ValueError: A scale is not finite and positive.
    """
    m = np.asarray(scales, dtype=np.float64)[..., None]
    if not (np.isfinite(m) & (m > 0)).all():
        raise ValueError("a noise scale is not a finite number > 0")
    distance = np.abs(messages[..., None, :] - v).sum(axis=-1)
    return np.asarray(-messages.shape[-1] * np.log(2 * m) - distance / m)


def log_likelihoods(
    transcript: FloatArray, v: FloatArray, scales: ArrayLike, sent: BoolArray | None = None
) -> FloatArray:
    """Return log L_i(t; o up to k), shape (..., K, N, m).

    These are log densities with every factor, so that log P(o | f) is the sum over players of the
    last row at the players' types.

    Args:
        transcript: o, shape (..., K, N, n).
        v: As `trajectories` returns it, shape (..., K, N, m, n).
        scales: M_k, shape (K,), or of each message, shape (K, N) or (..., K, N).
        sent: Which messages were sent, shape (K, N) or (..., K, N); by default all. What was not
            sent, and stands in the transcript only because its sender's last message does, says
            nothing.

    Raises:
        ValueError: A scale is not finite and positive.
    """
    densities = log_densities(transcript, v, _each(scales))
    if sent is not None:
        densities = np.where(sent[..., None], densities, 0.0)
    return np.cumsum(densities, axis=-3)


def final_log_likelihoods(
    dynamics: Dynamics, transcript: FloatArray, scales: ArrayLike, sent: BoolArray | None = None
) -> FloatArray:
    """Return the last of `log_likelihoods`, shape (..., N, m), at the memory of one iteration.

    Args:
        dynamics: The public part of the run.
        transcript: o, shape (..., K, N, n).
        scales: As for `log_likelihoods`.
        sent: As for `log_likelihoods`.

    Raises:
        ValueError: The transcript does not fit the dynamics, or a scale is not finite and positive.
    """
    game, each = dynamics.game, _each(scales)
    shape = (*np.shape(transcript)[:-3], game.num_players, game.num_types)
    total = np.zeros(shape)
    for k, v in enumerate(follow(dynamics, transcript)):
        densities = log_densities(transcript[..., k, :, :], v, each[..., k, :])
        total += densities if sent is None else np.where(sent[..., k, :, None], densities, 0.0)
    return total


def _each(scales: ArrayLike) -> FloatArray:
    """Return scales of shape (K, 1) or (..., K, N)."""
    each = np.asarray(scales, dtype=np.float64)
    return each[:, None] if each.ndim == 1 else each
