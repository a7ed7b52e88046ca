"""How fast equilibria of N players approach the mean-field one (MFPG paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, IntArray
from fedgame.games.privacy.equilibrium import RESIDUAL, MeanFieldEquilibrium, MeanFieldGame
from fedgame.games.privacy.fictitious_play import fictitious_play
from fedgame.games.privacy.n_player import MeanCoupledGame, iterated_best_response

Method: TypeAlias = Literal["best-response", "fictitious-play"]
"""How the equilibrium of N players is looked for."""

SMALL_GAIN = 1e-3
"""Fictitious play stops where nobody can gain more than this share of the disutilities' spread."""

MAX_ROUNDS = 1000


@dataclass(frozen=True)
class MeanFieldRate:
    """Distances of N-player equilibria from the mean-field equilibrium.

    Attributes:
        sizes: N, shape (sizes,).
        distances: Wasserstein-1 distance between the distributions of strengths over the grid, root
            mean square over the repeats, shape (sizes,); at least |difference of the means|. What
            rounding errors alone can come to counts as 0.
        mean_distances: |difference of the mean strengths|, likewise.
        gains: Largest gain that any player has left in any repeat, shape (sizes,).
        rounds: Most rounds of play that a repeat took, shape (sizes,).
        converged: Whether every repeat ended in an equilibrium, shape (sizes,): a pure one, or for
            fictitious play one up to its tolerance.
        exponent: r of the least-squares fit distance ~ N^r over the distances above 0 of sizes
            that converged; NaN if fewer than two are.
    """

    sizes: IntArray
    distances: FloatArray
    mean_distances: FloatArray
    gains: FloatArray
    rounds: IntArray
    converged: tuple[bool, ...]
    exponent: float


def mean_field_rate(
    game: MeanFieldGame,
    equilibrium: MeanFieldEquilibrium,
    sizes: Sequence[int],
    generator: np.random.Generator | None = None,
    repeats: int = 1,
    method: Method = "best-response",
    max_rounds: int = MAX_ROUNDS,
) -> MeanFieldRate:
    """Solve the N-player game for each N, starting near the mean-field equilibrium, and compare.

    The players' disutility is the game's, against the mean of the others instead of s-bar.

    Args:
        game: The mean-field game.
        equilibrium: Its equilibrium.
        sizes: The N, each at least 2.
        generator: Draws each player's type independently by the weights, as for clients sampled
            from a population: expect r about -1/2. Without it the types stand at equally spaced
            quantiles, so that they have the population's shares up to whole players: expect -1.
        repeats: Populations drawn for each N, at least 1; more are of use only with a generator.
        method: How players come to an equilibrium; what fictitious play has played on average is
            compared.
        max_rounds: Most rounds of play, at least 1.

    Raises:
        ValueError: A number is too small, the method unknown, or the equilibrium has not converged.
    """
    if method not in get_args(Method) or max_rounds < 1:
        raise ValueError(
            f"method = {method!r} and max_rounds = {max_rounds}: must be one of "
            f"{', '.join(get_args(Method))}, and at least 1"
        )
    if repeats < 1 or min(sizes, default=0) < 2:
        raise ValueError(f"sizes = {list(sizes)} and repeats = {repeats}: must be at least 2 and 1")
    if not equilibrium.converged:
        raise ValueError("equilibrium: must have converged")
    results = np.array(
        [
            [
                _one_population(
                    game, equilibrium, _types(game, size, generator), method, max_rounds
                )
                for _ in range(repeats)
            ]
            for size in sizes
        ]
    )
    converged: BoolArray = np.asarray(results[:, :, 3].all(axis=1))
    distances = np.sqrt((results[:, :, 0] ** 2).mean(axis=1))
    return MeanFieldRate(
        sizes=np.array(sizes, dtype=np.int64),
        distances=distances,
        mean_distances=np.sqrt((results[:, :, 1] ** 2).mean(axis=1)),
        gains=results[:, :, 2].max(axis=1),
        rounds=results[:, :, 4].max(axis=1).astype(np.int64),
        converged=tuple(map(bool, converged)),
        exponent=fitted_exponent(
            np.array(sizes, dtype=np.float64)[converged], distances[converged]
        ),
    )


def fitted_exponent(sizes: FloatArray, distances: FloatArray) -> float:
    """Return r of the least-squares fit log distance = r log N + const over distances above 0.

    >>> round(fitted_exponent(np.array([10.0, 100.0, 1000.0]), np.array([0.2, 0.02, 0.0])), 12)
    -1.0
    """
    kept = distances > 0
    if kept.sum() < 2:
        return float("nan")
    x, y = np.log(sizes[kept]), np.log(distances[kept])
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))


def types_in_proportion(weights: FloatArray, num_players: int) -> IntArray:
    """Return N types at equally spaced quantiles, so that each count is within 1 of its share.

    Where types are in order of preference, as few players as there are spread over all of them.

    Args:
        weights: Share of each type, shape (types,); only their ratios matter.
        num_players: N.

    >>> types_in_proportion(np.array([0.5, 0.25, 0.25]), 4).tolist()
    [0, 0, 1, 2]
    """
    ends = np.cumsum(weights) / np.sum(weights)
    middles = (np.arange(num_players) + 0.5) / num_players
    # The last end may be rounded to just below 1, but not to below the last middle.
    return np.asarray(np.searchsorted(ends, middles, side="right"), dtype=np.int64)


def whole_shares(shares: FloatArray, total: int) -> IntArray:
    """Return whole numbers that sum to `total`, each within 1 of its share (largest remainders).

    >>> whole_shares(np.array([0.5, 0.3, 0.2]), 4).tolist()
    [2, 1, 1]
    """
    exact = shares / shares.sum() * total
    whole = np.floor(exact).astype(np.int64)
    # Rounded, so that remainders which are equal but for rounding errors go by order.
    remainders = np.round(exact - whole, 9)
    short = total - int(whole.sum())
    whole[np.argsort(-remainders, kind="stable")[:short]] += 1
    return np.asarray(whole)


def _types(game: MeanFieldGame, size: int, generator: np.random.Generator | None) -> IntArray:
    """Return the type of each of N players, in order."""
    if generator is None:
        return types_in_proportion(game.weights, size)
    counts = generator.multinomial(size, game.weights)
    return np.repeat(np.arange(len(game.weights)), counts)


def _one_population(
    game: MeanFieldGame,
    equilibrium: MeanFieldEquilibrium,
    types: IntArray,
    method: Method,
    max_rounds: int,
) -> tuple[float, float, float, float, float]:
    """Return both distances, the largest gain, whether an equilibrium was found, and rounds."""
    counts = np.bincount(types, minlength=len(game.weights))
    rows = zip(equilibrium.strategies, counts, strict=True)
    actions = np.arange(len(game.grid))
    start = np.concatenate([np.repeat(actions, whole_shares(row, count)) for row, count in rows])
    played = MeanCoupledGame(game.grid, types, game.disutility)
    if method == "fictitious-play":
        spread = float(np.ptp(played.table(start)))
        play = fictitious_play(played, start, max_rounds, SMALL_GAIN * spread)
        shares, gain = play.frequencies.mean(axis=0), play.exploitability.largest
        if play.pure:
            # the profile that play stopped at is the equilibrium, not the mean of the way to it
            shares = np.bincount(play.played, minlength=len(game.grid)) / len(types)
            gain = play.last.largest
        converged, rounds = play.converged, play.rounds
    else:
        path = iterated_best_response(played, start, max_rounds=max_rounds)
        shares = np.bincount(path.played, minlength=len(game.grid)) / len(types)
        gain, converged, rounds = path.exploitability.largest, path.converged, path.rounds
    difference = shares - equilibrium.population
    distance = float(np.abs(np.cumsum(difference)[:-1]) @ np.diff(game.grid))
    mean_distance = abs(float(difference @ game.grid))
    if distance <= RESIDUAL * float(np.abs(game.grid).max()):
        distance = mean_distance = 0.0  # rounding errors would take part in the fit
    return distance, mean_distance, gain, float(converged), float(rounds)
