"""How players look for an equilibrium by exchanging noisy estimates of the mean strategy.

In iteration k player i sends o_i = v_i + noise, then moves (PML paper, algorithm A, Remark 1):

    x_i+ = Proj[x_i - lr_k F_i(x_i, v_i)]
    v_i+ = sum_j L_ij o_j + x_i+ - x_i                            rule "ye"
    v_i+ = v_i + gamma_k sum_j L_ij (o_j - o_i) + x_i+ - x_i      rule "wang"

Both x_i and v_i depend on what was sent and on the player's own cost function only, and x_i is
never sent. Iteration 0 sends x_0, which is public, so that message 0 leaks nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.aggregative.base import (
    AggregativeGame,
    Costs,
    GradientKind,
    check_feasible,
    pseudo_gradient,
    realised,
)
from fedgame.games.aggregative.graphs import Graph, require_row_stochastic
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.best_response import FloatArray, IntArray

Rule: TypeAlias = Literal["ye", "wang"]


class State(NamedTuple):
    """What a player keeps to itself.

    Attributes:
        x: Its strategy, shape (..., rows, n).
        v: Its estimate of the mean strategy, same shape.
    """

    x: FloatArray
    v: FloatArray


class Play(NamedTuple):
    """What happened in K iterations.

    Attributes:
        messages: o, what was sent, shape (..., K, N, n): the transcript.
        strategies: x_k, shape (..., K, N, n).
        estimates: v_k, shape (..., K, N, n).
    """

    messages: FloatArray
    strategies: FloatArray
    estimates: FloatArray


@dataclass(frozen=True)
class Dynamics:
    """Everything public about a run: whoever has this and the messages can follow each type.

    Attributes:
        game: The game; its feasible set is the one that strategies are projected on.
        graph: Who hears whom.
        schedules: Noise scales and step sizes.
        initial: x_0, shape (N, n); must be public or independent of the types.
        rule: How estimates are updated.
        gradient: "full" leads to the Nash equilibrium; "paper" leaves out that a player's own
            strategy moves the mean.

    Raises:
        ValueError: The graph has another number of players, its rows do not sum to 1 under the
            rule "ye", or `initial` is not one strategy a player, all in the feasible set.
    """

    game: AggregativeGame
    graph: Graph
    schedules: Schedules
    initial: ArrayLike
    rule: Rule = "ye"
    gradient: GradientKind = "full"

    def __post_init__(self) -> None:
        """Check that the parts fit."""
        players = self.game.num_players
        if self.graph.num_players != players:
            found = self.graph.num_players
            raise ValueError(f"graph of {found} players: the game has {players}")
        if self.rule == "ye":
            require_row_stochastic(self.graph)
        check_feasible(self.game, self.initial)

    def start(self, players: IntArray) -> State:
        """Return the state of some players before iteration 0, rows of shape (players,)."""
        x = np.asarray(self.initial, dtype=np.float64)[players]
        return State(x, x)

    def signal(self, messages: FloatArray) -> FloatArray:
        """Return all that players learn from messages (..., N, n), same shape, a row each."""
        everybody = np.arange(self.game.num_players)
        return self.signal_heard(self.graph.heard(messages, everybody), messages, everybody)

    def signal_heard(self, heard: FloatArray, own: FloatArray, players: IntArray) -> FloatArray:
        """Return what some players learn, to the bit as `signal` does for all.

        Args:
            heard: What was forwarded to them, as from `Graph.heard`, shape (..., players, w, n).
            own: What they sent themselves, shape (..., players, n).
            players: Who they are.
        """
        if self.rule == "ye":
            return self.graph.mix(heard, players)
        return self.graph.differences(heard, own, players)

    def step(self, costs: Costs, state: State, signal: FloatArray, k: int) -> State:
        """Return the next state of some players, each of one type.

        Args:
            costs: Their cost functions.
            state: Their state in iteration k.
            signal: Their rows of `signal` of the messages of iteration k, shape (..., rows, n).
            k: The iteration, from 0 to K - 2.
        """
        x, v = state
        schedules, players = self.schedules, self.game.num_players
        slope = pseudo_gradient(costs, x, v, players, self.gradient)
        moved = self.game.feasible.project(x - schedules.step[k] * slope)
        if self.rule == "ye":
            return State(moved, signal + (moved - x))
        return State(moved, v + schedules.gamma[k] * signal + (moved - x))


def play(dynamics: Dynamics, types: ArrayLike, noise: FloatArray) -> Play:
    """Return what happens when all players follow the rule with the given noise.

    Args:
        dynamics: The public part.
        types: Index of each player's type, shape (N,).
        noise: What is added to the estimates, shape (..., K, N, n): each number Laplace with the
            scale of its iteration, or 0. K is at most the length of the schedules.

    Raises:
        ValueError: A type or the shape of the noise is not what the dynamics need.
    """
    game = dynamics.game
    costs = realised(game, types)
    check_messages(dynamics, noise, "noise")
    state = dynamics.start(np.arange(game.num_players))
    kept: list[tuple[FloatArray, State]] = []
    for k in range(noise.shape[-3]):
        if k > 0:
            state = dynamics.step(costs, state, dynamics.signal(kept[-1][0]), k - 1)
        kept.append((state.v + noise[..., k, :, :], state))
    columns = [[sent, *state] for sent, state in kept]
    shape = (*noise.shape[:-3], *noise.shape[-2:])
    stacked = [
        np.stack([np.broadcast_to(array, shape) for array in column], axis=-3)
        for column in zip(*columns, strict=True)
    ]
    return Play(*stacked)


def check_messages(dynamics: Dynamics, messages: FloatArray, name: str) -> None:
    """Refuse an array that does not hold one message a player and iteration.

    Args:
        dynamics: The public part.
        messages: Should be of shape (..., K, N, n), 1 <= K <= length of the schedules, and finite.
        name: What it is called in an error.

    Raises:
        ValueError: It is not.
    """
    game, most = dynamics.game, len(dynamics.schedules)
    shape = np.shape(messages)
    if len(shape) < 3 or shape[-2:] != (game.num_players, game.dimension):
        wanted = f"(iterations, {game.num_players}, {game.dimension})"
        raise ValueError(f"{name} of shape {shape}: must be {wanted}")
    if not 1 <= shape[-3] <= most:
        raise ValueError(f"{name} of {shape[-3]} iterations: the schedules have {most}")
    if not np.isfinite(messages).all():
        raise ValueError(f"{name}: must be finite numbers")
