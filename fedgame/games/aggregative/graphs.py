"""Who hears whom: weights L_ij with which player i counts player j's message."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fedgame.games.best_response import FloatArray, IntArray

ROW_TOLERANCE = 1e-9
"""How far from 1 the weights of a row may sum."""

FORMS = '"complete", "ring", or the rows of a matrix such as "0, .5, .5; .5, 0, .5; .5, .5, 0"'


class Graph(Protocol):
    """A communication graph.

    Attributes:
        num_players: N.
        row_sums: The sums of L_ij over j, shape (N,).
        balanced: Whether the sum of L_ij over i equals that over j for every player. Otherwise the
            estimates settle on another point than the mean.
    """

    @property
    def num_players(self) -> int: ...  # noqa: D102

    @property
    def row_sums(self) -> FloatArray: ...  # noqa: D102

    @property
    def balanced(self) -> bool: ...  # noqa: D102

    def heard(self, messages: FloatArray, players: IntArray) -> FloatArray:
        """Return what is forwarded to players of messages o (..., N, n): (..., players, w, n)."""

    def mix(self, heard: FloatArray, players: IntArray) -> FloatArray:
        """Return sum_j L_ij o_j of some players i from what they heard, (..., players, n)."""

    def differences(self, heard: FloatArray, own: FloatArray, players: IntArray) -> FloatArray:
        """Return sum_j L_ij (o_j - o_i) of some players i, (..., players, n).

        `own` is what they sent themselves, shape (..., players, n).
        """


class CompleteGraph:
    """Everybody counts everybody, itself included, with weight 1/N: the server sends the mean."""

    balanced = True

    def __init__(self, num_players: int) -> None:
        """Keep N."""
        self.num_players = num_players

    @property
    def row_sums(self) -> FloatArray:
        """Ones, shape (N,)."""
        return np.ones(self.num_players)

    def heard(self, messages: FloatArray, players: IntArray) -> FloatArray:
        """Return the mean message, the same for every player, shape (..., players, 1, n)."""
        mean = messages.sum(axis=-2, keepdims=True) / self.num_players
        shape = (*messages.shape[:-2], len(players), 1, messages.shape[-1])
        return np.broadcast_to(mean[..., None, :, :], shape)

    def mix(self, heard: FloatArray, players: IntArray) -> FloatArray:  # noqa: ARG002
        """Return the mean message that was heard, shape (..., players, n)."""
        return heard[..., 0, :]

    def differences(self, heard: FloatArray, own: FloatArray, players: IntArray) -> FloatArray:
        """Return the mean message less one's own, shape (..., players, n)."""
        return self.mix(heard, players) - own


class WeightedGraph:
    """Any weights >= 0; a player hears only those whom it gives a weight."""

    def __init__(self, weights: ArrayLike) -> None:
        """Check the weights.

        Args:
            weights: L, shape (N, N).

        Raises:
            ValueError: The matrix is not square, a weight is negative or not finite, or some
                player does not, over whatever detour, hear every other one.
        """
        matrix = np.array(weights, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise ValueError(f"graph of shape {matrix.shape}: must be (players, players)")
        bad = ~(np.isfinite(matrix) & (matrix >= 0))
        if bad.any():
            i, j = np.argwhere(bad)[0].tolist()
            raise ValueError(f"graph weight ({i}, {j}) = {matrix[i, j]}: must be finite and >= 0")
        _require_connected(matrix)
        self.num_players = len(matrix)
        self.row_sums = matrix.sum(axis=1)
        excess = np.abs(matrix.sum(axis=0) - self.row_sums)
        self.balanced = bool((excess <= ROW_TOLERANCE).all())
        self._senders, self._weights = _table(matrix)

    def neighbours(self, player: int) -> tuple[IntArray, FloatArray]:
        """Return whom a player hears, ascending, and with which weights, both of shape (heard,)."""
        heard = self._weights[player] > 0
        return self._senders[player][heard], self._weights[player][heard]

    def heard(self, messages: FloatArray, players: IntArray) -> FloatArray:
        """Return the messages of each player's neighbours, shape (..., players, width, n).

        Rows are filled up by the player's own message, which it gives the weight 0 there.
        """
        return messages[..., self._senders[players], :]

    def mix(self, heard: FloatArray, players: IntArray) -> FloatArray:
        """Return sum_j L_ij o_j, shape (..., players, n)."""
        return weighted_sum(self._weights[players], heard)

    def differences(self, heard: FloatArray, own: FloatArray, players: IntArray) -> FloatArray:
        """Return sum_j L_ij (o_j - o_i), shape (..., players, n)."""
        return weighted_sum(self._weights[players], heard - own[..., None, :])


def weighted_sum(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return weighted sums, one by one in the order given, shape (..., n).

    A player that sums what it heard gets the same bits as a graph that sums for all players.

    Args:
        weights: Shape (..., heard).
        values: Shape (..., heard, n).
    """
    total = np.zeros_like(values[..., 0, :])
    for place in range(values.shape[-2]):
        total += weights[..., place, None] * values[..., place, :]
    return total


def ring(num_players: int) -> WeightedGraph:
    """Return the ring in which all players count both neighbours and themselves by 1/3.

    Raises:
        ValueError: There are fewer than three players.
    """
    if num_players < 3:
        raise ValueError(f"graph: a ring of {num_players} players; needs at least 3")
    own = np.eye(num_players)
    return WeightedGraph((own + np.roll(own, 1, axis=1) + np.roll(own, -1, axis=1)) / 3)


def parse_graph(text: str, num_players: int) -> Graph:
    """Return the graph that a text names.

    Args:
        text: "complete", "ring", or a matrix: rows parted by ";", weights by ",".
        num_players: N.

    Raises:
        ValueError: The text is no such graph, or one of another number of players.

    >>> swap, both = parse_graph("0, 1; 1, 0", 2), np.arange(2)
    >>> swap.mix(swap.heard(np.array([[3.0], [5.0]]), both), both).tolist()
    [[5.0], [3.0]]
    """
    word = text.strip()
    if word == "complete":
        return CompleteGraph(num_players)
    if word == "ring":
        return ring(num_players)
    try:
        rows = [[float(cell) for cell in row.split(",")] for row in word.split(";")]
    except ValueError:
        raise ValueError(f"graph = {text!r}: must be {FORMS}") from None
    if {len(rows)} | {len(row) for row in rows} != {num_players}:
        raise ValueError(f"graph = {text!r}: must have {num_players} rows of {num_players} weights")
    return WeightedGraph(rows)


def require_row_stochastic(graph: Graph) -> None:
    """Refuse a graph in which some player's weights do not sum to 1.

    Raises:
        ValueError: Naming the player and the sum.
    """
    off = np.abs(graph.row_sums - 1) > ROW_TOLERANCE
    if off.any():
        player = int(np.argmax(off))
        total = graph.row_sums[player]
        raise ValueError(f"graph weights of player {player} sum to {total:.9g}: must sum to 1")


def _require_connected(matrix: FloatArray) -> None:
    """Refuse a graph that is not strongly connected."""
    links = matrix > 0
    np.fill_diagonal(links, val=False)
    alone = ~(links.any(axis=0) & links.any(axis=1))
    if alone.any():
        player = int(np.argmax(alone))
        raise ValueError(f"graph: player {player} hears nobody or is heard by nobody")
    count, parts = scipy.sparse.csgraph.connected_components(
        links, directed=True, connection="strong"
    )
    if count > 1:
        stranger = int(np.argmax(parts != parts[0]))
        raise ValueError(f"graph: player 0 and player {stranger} do not hear each other")


def _table(matrix: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return whom each player hears and with which weights, shape (N, most heard).

    Rows are filled up by the player itself with weight 0, whatever its own weight.
    """
    heard = matrix > 0
    width = int(heard.sum(axis=1).max())
    order = np.argsort(~heard, axis=1, kind="stable")[:, :width]
    weights = np.take_along_axis(matrix, order, axis=1)
    own = np.arange(len(matrix))[:, None]
    return np.where(weights > 0, order, own), weights
