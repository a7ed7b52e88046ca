"""What an aggregative game is: players whose costs depend on the others through a mean only.

Player i of N chooses x_i in R^n and pays fbar_i(x_i, delta), delta the mean of all strategies. Its
cost function is one of m candidates, its types; which one it is, is the player's secret, while the
candidates are public (PML paper, section 2.1). A game of one's own is any pair of classes with the
members of `AggregativeGame` and `Costs`.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.aggregative.sets import FeasibleSet
from fedgame.games.best_response import FloatArray, IntArray

GradientKind: TypeAlias = Literal["full", "paper"]
"""Whether a gradient counts that a player's own strategy moves the mean, or leaves that out."""

FEASIBLE = 1e-9
"""How far outside the feasible set, by rounding, a strategy may be in any coordinate."""


class Costs(Protocol):
    """Some cost functions, one a row, evaluated together; a client's secret is one row of these.

    Every row must be computed by itself: the same numbers whichever rows stand beside it.
    """

    def value(self, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return fbar(x, delta), shape (..., rows), for two arrays of shape (..., rows, n)."""

    def own_gradient(self, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return the derivative of fbar by its first argument, shape (..., rows, n)."""

    def aggregate_gradient(self, x: FloatArray, aggregate: FloatArray) -> FloatArray:
        """Return the derivative of fbar by its second argument, shape (..., rows, n)."""


class AggregativeGame(Protocol):
    """An aggregative game with finitely many types a player.

    Attributes:
        num_players: N, at least 2.
        dimension: n.
        num_types: m, the same for all players.
        feasible: Where every strategy must lie.
    """

    @property
    def num_players(self) -> int: ...  # noqa: D102

    @property
    def dimension(self) -> int: ...  # noqa: D102

    @property
    def num_types(self) -> int: ...  # noqa: D102

    @property
    def feasible(self) -> FeasibleSet: ...  # noqa: D102

    def costs(self, players: IntArray, types: IntArray) -> Costs:
        """Return the cost functions of players, each of one type; both of shape (rows,)."""


class GameSection(Protocol):
    """A section of the configuration that describes a game; a frozen dataclass."""

    name: ClassVar[str]

    def build(self, num_players: int, rng: np.random.Generator) -> AggregativeGame:
        """Return the game; whatever it draws comes from the public `rng`.

        Raises:
            ValueError: The section does not describe a game of so many players.
        """


def pseudo_gradient(
    costs: Costs, x: FloatArray, aggregate: FloatArray, num_players: int, kind: GradientKind
) -> FloatArray:
    """Return F(x, delta), by which a player changes its strategy, shape (..., rows, n).

    The full gradient is d fbar/dx + (1/N) d fbar/d delta. The paper's stops at the first term, as
    if nobody moved the mean; its iterates end at another point than the Nash equilibrium.

    Args:
        costs: The cost functions.
        x: Strategies, shape (..., rows, n).
        aggregate: The mean, or a player's estimate of it, same shape.
        num_players: N.
        kind: Which one.
    """
    own = costs.own_gradient(x, aggregate)
    if kind == "paper":
        return own
    return own + costs.aggregate_gradient(x, aggregate) / num_players


def realised(game: AggregativeGame, types: ArrayLike) -> Costs:
    """Return the cost functions that all players really have, a row each.

    Args:
        game: The game.
        types: Index of each player's type, shape (N,).

    Raises:
        ValueError: There is not one type a player, or one is outside 0 to m - 1.
    """
    return game.costs(np.arange(game.num_players), check_types(game, types))


def check_types(game: AggregativeGame, types: ArrayLike) -> IntArray:
    """Return one type a player, shape (N,).

    Raises:
        ValueError: There is not one type a player, or one is outside 0 to m - 1.
    """
    checked = np.asarray(types)
    if checked.shape != (game.num_players,) or not np.issubdtype(checked.dtype, np.integer):
        found = f"{checked.dtype} of shape {checked.shape}"
        raise ValueError(f"types are {found}: must be {game.num_players} indices, one a player")
    outside = (checked < 0) | (checked >= game.num_types)
    if outside.any():
        player = int(np.argmax(outside))
        allowed = f"must be from 0 to {game.num_types - 1}"
        raise ValueError(f"type of player {player} = {checked[player]}: {allowed}")
    return checked.astype(np.int64)


def check_profile(game: AggregativeGame, strategies: ArrayLike) -> FloatArray:
    """Return one finite strategy a player, shape (N, n).

    Raises:
        ValueError: The shape is another one, or an entry is not finite.
    """
    checked = np.array(strategies, dtype=np.float64)
    shape = (game.num_players, game.dimension)
    if checked.shape != shape:
        raise ValueError(f"strategies of shape {checked.shape}: must be (players, n) = {shape}")
    bad = ~np.isfinite(checked)
    if bad.any():
        player = int(np.argmax(bad.any(axis=1)))
        raise ValueError(f"strategy of player {player} = {checked[player].tolist()}: not finite")
    return checked


def check_feasible(game: AggregativeGame, strategies: ArrayLike) -> FloatArray:
    """Return one strategy a player, shape (N, n), each in the game's feasible set.

    Raises:
        ValueError: As for `check_profile`, or a strategy is not in the set.
    """
    checked = check_profile(game, strategies)
    apart = np.abs(game.feasible.project(checked) - checked).max(axis=1)
    if apart.max() > FEASIBLE:
        player = int(np.argmax(apart))
        where = f"is {apart[player]:.3g} outside the feasible set"
        raise ValueError(f"strategy of player {player} = {checked[player].tolist()}: {where}")
    return checked
