"""Who may send what, decided and audited message by message, from public data alone.

A plain loop around this class and a server that talks to players over a network do the same thing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml import exact_leakage, individual_leakage
from fedgame.accountants.pml_distances import type_distances
from fedgame.accountants.pml_filter import Decision, PmlFilter
from fedgame.accountants.pml_prior import Prior
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.likelihood import Follower, log_densities
from fedgame.games.aggregative.transcript import Transcript
from fedgame.games.best_response import BoolArray, FloatArray, IntArray

TAIL = 100.0
"""A Laplace draw beyond so many scales has a probability below 1e-43."""

DIVERGED = 1e12
"""Messages beyond this are given up: differences between types would be lost to rounding."""


class Referee:
    """The public side of a run: it keeps the transcript and holds each message against a budget.

    In each iteration: `decide` or, player by player, `decide_player`; `hear` what came; `close`.

    Attributes:
        iteration: The iteration whose messages are due.
        latest: Each player's last message, or x_0, shape (N, n).
    """

    def __init__(self, dynamics: Dynamics, prior: Prior, pml_filter: PmlFilter) -> None:
        """Stand before message 0.

        Raises:
            ValueError: The prior is about other players or types than the game.
        """
        game = dynamics.game
        players, types = game.num_players, game.num_types
        if (prior.num_players, prior.num_types) != (players, types):
            raise ValueError(
                f"prior of {prior.num_players} players and {prior.num_types} types: the game has "
                f"{players} and {types}"
            )
        self._dynamics, self._prior, self._filter = dynamics, prior, pml_filter
        self._follower = Follower(dynamics, support=prior.support)
        self._logs = np.zeros((players, types))
        self.latest = np.array(dynamics.initial, dtype=np.float64)
        self._messages: list[FloatArray] = []
        self._scales: list[FloatArray] = []
        self._sent: list[BoolArray] = []
        self._open()

    @property
    def iteration(self) -> int:
        """The iteration whose messages are due, k."""
        return len(self._messages)

    @property
    def is_sequential(self) -> bool:
        """Whether players send one after the other."""
        return self._filter.is_sequential(self._prior)

    @property
    def planned(self) -> float:
        """M_k, the noise that was planned for this iteration."""
        return float(self._dynamics.schedules.noise[self.iteration])

    @property
    def leakage(self) -> float:
        """l(F -> o) of all that was heard so far."""
        return float(exact_leakage(self._prior, self._logs))

    @property
    def individual_leakage(self) -> FloatArray:
        """l(F_i -> o) of all that was heard so far, shape (N,)."""
        return individual_leakage(self._prior, self._logs)

    def sensitivities(self, players: IntArray) -> FloatArray:
        """Return how far apart, in L1, messages of this iteration can be, shape (players,)."""
        return sensitivities(self._follower.next_messages[players], self._prior, players)

    @property
    def has_diverged(self) -> bool:
        """Whether what some type would send is beyond all bounds, so that nothing can follow."""
        return not bool((np.abs(self._follower.next_messages) <= DIVERGED).all())

    def decide(self) -> Decision:
        """Decide about the messages of all players at once; scalars."""
        v = self._follower.next_messages
        return self._filter.decide_round(self._prior, self._logs, v, self.planned)

    def decide_player(self, player: int) -> Decision:
        """Decide about one player's message, given all that was heard before; scalars."""
        v = self._follower.next_messages[player]
        return self._filter.decide_player(self._prior, self._logs, player, v, self.planned)

    def is_plausible(self, players: IntArray, messages: FloatArray, scales: ArrayLike) -> BoolArray:
        """Return which messages an honest player could have sent, shape (players,).

        Args:
            players: Whose they are.
            messages: Shape (players, n).
            scales: M of their noise, broadcast to (players,).
        """
        v = self._follower.next_messages[players]
        apart = np.abs(messages[:, None, :] - v).max(axis=-1).min(axis=-1)
        return np.asarray(apart <= TAIL * np.asarray(scales))

    def hear(self, players: IntArray, messages: FloatArray, scales: ArrayLike) -> None:
        """Take messages of this iteration, of players from whom none came in it yet.

        Args:
            players: Who sent.
            messages: Shape (players, n).
            scales: M of their noise, broadcast to (players,).
        """
        self.latest = self.latest.copy()
        self.latest[players] = messages
        self._used[players] = scales
        self._came[players] = True
        v = self._follower.next_messages[players]
        self._logs[players] += log_densities(messages, v, self._used[players])
        # differences are all that counts, and those of small numbers are exact for longer
        self._logs = self._prior.centred(self._logs)

    def close(self) -> None:
        """End the iteration: what did not come is replaced by its sender's last message."""
        self._messages.append(self.latest)
        self._scales.append(self._used)
        self._sent.append(self._came)
        if self.iteration < len(self._dynamics.schedules):
            with np.errstate(over="ignore", invalid="ignore"):  # `has_diverged` tells
                self._follower.advance(self.latest)
            self._open()

    def forwarded(self, players: IntArray, first: int) -> tuple[FloatArray, FloatArray]:
        """Return what players hear of the iterations from `first` on that are closed.

        Args:
            players: Who hears.
            first: The iteration to begin with.

        Returns:
            What the graph allows, shape (players, steps, w, n), and what is on record as their own
            messages, shape (players, steps, n).
        """
        past = np.stack(self._messages[first:]) if first < self.iteration else self._nothing()
        heard = self._dynamics.graph.heard(past, players)
        return np.swapaxes(heard, 0, 1).copy(), np.swapaxes(past[:, players], 0, 1).copy()

    @property
    def noise_used(self) -> float:
        """The largest scale of a message of the last iteration that is closed; 0 without any."""
        return float(self._scales[-1][self._sent[-1]].max(initial=0.0))

    def transcript(self) -> Transcript:
        """Return the transcript of the iterations that are closed."""
        if not self._messages:
            shape = self.latest.shape
            none = np.empty((0, shape[0]))
            return Transcript(self._nothing(), none, none.astype(np.bool_))
        return Transcript(np.stack(self._messages), np.stack(self._scales), np.stack(self._sent))

    def _open(self) -> None:
        players = self._dynamics.game.num_players
        self._used = np.full(players, self.planned)
        self._came = np.zeros(players, dtype=np.bool_)

    def _nothing(self) -> FloatArray:
        return np.empty((0, *self.latest.shape))


def sensitivities(
    messages: FloatArray, prior: Prior, players: IntArray | None = None
) -> FloatArray:
    """Return how far apart, in L1, the messages of a player's possible types are, shape (p,).

    Args:
        messages: v, what each type would send without noise, shape (p, m, n).
        prior: Which types are possible.
        players: Whose they are; by default all players in order.
    """
    support = prior.support if players is None else prior.support[players]
    possible = support[:, :, None] & support[:, None, :]
    return np.asarray(np.where(possible, type_distances(messages), 0.0).max(axis=(-2, -1)))
