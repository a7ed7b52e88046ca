"""N-player games on a grid of strengths, and iterated best response.

A game is anything that tells each player its disutility for each of its own actions while all
others keep theirs; the solvers ask for no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray, best_response
from fedgame.games.certificate import Exploitability, exploitability
from fedgame.games.privacy.equilibrium import Disutility
from fedgame.games.privacy.tables import allowed_gains, check_finite, check_grid

Order: TypeAlias = Literal["damped", "one-at-a-time", "simultaneous"]
"""Who moves in a round of iterated best response."""


class NPlayerGame(Protocol):
    """A game of N players who choose from one grid."""

    @property
    def grid(self) -> FloatArray:
        """The actions, shape (m,), increasing."""
        ...

    @property
    def num_players(self) -> int:
        """N."""
        ...

    def table(self, played: IntArray) -> FloatArray:
        """Return U of each player for each of its actions while the others keep what they play.

        Args:
            played: Index of each player's action, shape (N,).

        Returns:
            Shape (N, m), finite.
        """
        ...


@dataclass(frozen=True)
class MeanCoupledGame:
    """A game in which a player sees the others only through the mean of their strengths.

    Others' means take at most m values, one for each strength a player may itself play, so that a
    table costs m calls of `disutility`, whatever N is.

    Attributes:
        grid: The strengths, shape (m,), increasing.
        types: Index of each player's type, shape (N,), N at least 2.
        disutility: U of each type at each strength against a given mean of the others, shape
            (types, m).
    """

    grid: FloatArray
    types: IntArray
    disutility: Disutility

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", check_grid(self.grid))
        types = np.asarray(self.types)
        if types.ndim != 1 or len(types) < 2 or not np.issubdtype(types.dtype, np.integer):
            raise ValueError("types: must be the indices of at least two players' types")
        if types.min() < 0:
            raise ValueError(f"types: the index {types.min()} is below 0")
        object.__setattr__(self, "types", types)

    @property
    def num_players(self) -> int:
        """N."""
        return len(self.types)

    def table(self, played: IntArray) -> FloatArray:
        """Return U of each player for each of its actions, shape (N, m).

        Raises:
            ValueError: A disutility is not finite, or its shape does not fit the types.
        """
        counts = np.bincount(played, minlength=len(self.grid))
        table = np.empty((self.num_players, len(self.grid)))
        for action in np.flatnonzero(counts):
            others = counts.copy()
            others[action] -= 1
            mean = float(others @ self.grid) / (self.num_players - 1)
            players = np.flatnonzero(played == action)
            table[players] = self._against(mean)[self.types[players]]
        return table

    def _against(self, mean: float) -> FloatArray:
        values = np.asarray(self.disutility(mean))
        shape = (max(len(values), int(self.types.max()) + 1), len(self.grid))
        return check_finite(
            values,
            shape,
            lambda row, column: (
                f"type {row} at strength {self.grid[column]:.6g} against others' mean {mean:.6g}"
            ),
        )


@dataclass(frozen=True)
class ProfileGame:
    """A game given by a function of the whole profile.

    Attributes:
        grid: The actions, shape (m,), increasing.
        num_players: N, at least 1.
        disutility: From the profile of actions, shape (N,), to U of each player for each of its own
            actions while the others keep theirs, shape (N, m).
    """

    grid: FloatArray
    num_players: int
    disutility: Callable[[FloatArray], FloatArray]

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", check_grid(self.grid))
        _check_players(self.num_players)

    def table(self, played: IntArray) -> FloatArray:
        """Return U of each player for each of its actions, shape (N, m).

        Raises:
            ValueError: The shape is wrong, or a disutility is not finite.
        """
        values = self.disutility(self.grid[played])
        return check_finite(values, (self.num_players, len(self.grid)), _naming(self.grid))


@dataclass(frozen=True)
class PlayerwiseGame:
    """A game given by a function of one player's action and the others'; for small N.

    Attributes:
        grid: The actions, shape (m,), increasing.
        num_players: N, at least 1.
        disutility: U_k(k, own action, actions of the others in order, shape (N - 1,)).
    """

    grid: FloatArray
    num_players: int
    disutility: Callable[[int, float, FloatArray], float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", check_grid(self.grid))
        _check_players(self.num_players)

    def table(self, played: IntArray) -> FloatArray:
        """Return U of each player for each of its actions, shape (N, m), by N m calls.

        Raises:
            ValueError: A disutility is not finite.
        """
        profile = self.grid[played]
        values = np.array(
            [
                [self.disutility(k, float(own), np.delete(profile, k)) for own in self.grid]
                for k in range(self.num_players)
            ]
        )
        return check_finite(values, (self.num_players, len(self.grid)), _naming(self.grid))


@dataclass(frozen=True)
class BestResponsePath:
    """Where iterated best response ended, with its certificate.

    Attributes:
        played: Index of each player's action in the last profile, shape (N,).
        strengths: The actions themselves, shape (N,).
        exploitability: What each player could gain in the last profile.
        rounds: Rounds played.
        converged: Whether the last profile is a pure Nash equilibrium: nobody gains more than
            `allowed_gains` counts as none.
        cycle_length: Rounds after which play repeats itself for ever; 0 if no cycle was met.
        history: Largest gain of any player in each profile, shape (rounds + 1,).
        trivial: Whether the grid has one action, so that there was nothing to choose.
    """

    played: IntArray
    strengths: FloatArray
    exploitability: Exploitability
    rounds: int
    converged: bool
    cycle_length: int
    history: FloatArray
    trivial: bool


def iterated_best_response(
    game: NPlayerGame, start: IntArray, order: Order = "damped", max_rounds: int = 10_000
) -> BestResponsePath:
    """Let players answer each other until none can gain, or play repeats itself.

    Players who cannot gain stay. Of those who can, a round moves, to their best responses,

    - "damped": at most a number of them, those with the largest gains first. The number starts at N
      and is halved after every round that did not lower the sum of gains.
    - "one-at-a-time": the one with the largest gain, of equals the first. In a potential game this
      ends in an equilibrium, but a round is one move.
    - "simultaneous": all; where strengths are substitutes this tends to cycle.

    Args:
        game: The game.
        start: Index of each player's first action, shape (N,).
        order: One of the three.
        max_rounds: Most rounds, at least 0.

    Returns:
        The last profile. If `converged` is False, it is no equilibrium: play cycles, which also
        happens where a game has no pure equilibrium, or the rounds ran out.

    Raises:
        ValueError: The start is no profile, the order unknown, or a disutility not finite.
    """
    if order not in get_args(Order):
        raise ValueError(f"order = {order!r}: must be one of {', '.join(get_args(Order))}")
    played = check_profile(game, start)
    movers = 1 if order == "one-at-a-time" else game.num_players
    seen: dict[bytes, int] = {}
    totals: list[float] = []
    history: list[float] = []
    while True:
        table = game.table(played)
        found = exploitability(table, played)
        history.append(found.largest)
        if order == "damped" and totals and found.total >= totals[-1]:
            movers = max(movers // 2, 1)
        totals.append(found.total)
        rounds = len(history) - 1
        # Play depends on nothing but this state, so that a state met twice is a cycle.
        state = hashlib.blake2b(played.tobytes() + movers.to_bytes(8, "big")).digest()
        cycle = rounds - seen.setdefault(state, rounds)
        able = np.flatnonzero(found.gains > allowed_gains(table))
        if not len(able) or cycle or rounds == max_rounds:
            break
        if movers < len(able):
            able = able[np.argsort(-found.gains[able], kind="stable")[:movers]]
        played = played.copy()
        played[able] = best_response(table[able])
    return BestResponsePath(
        played=played,
        strengths=game.grid[played],
        exploitability=found,
        rounds=rounds,
        converged=not len(able),
        cycle_length=cycle,
        history=np.array(history),
        trivial=len(game.grid) == 1,
    )


def check_profile(game: NPlayerGame, start: IntArray) -> IntArray:
    """Return a profile of pure strategies as int64, shape (N,).

    Raises:
        ValueError: It does not hold one index into the grid for each player.
    """
    played = np.asarray(start)
    if played.shape != (game.num_players,) or not np.issubdtype(played.dtype, np.integer):
        raise ValueError(
            f"start must be {game.num_players} indices, not {played.dtype} {played.shape}"
        )
    if played.min() < 0 or played.max() >= len(game.grid):
        raise ValueError(f"start must be indices from 0 to {len(game.grid) - 1}")
    return played.astype(np.int64)


def _check_players(num_players: int) -> None:
    if num_players < 1:
        raise ValueError(f"num_players = {num_players}: must be at least 1")


def _naming(grid: FloatArray) -> Callable[[int, int], str]:
    """Return words for an entry of a table of players and actions."""
    return lambda row, column: f"player {row} at action {grid[column]:.6g}"
