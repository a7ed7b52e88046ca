"""The equilibrium of the mean-field privacy game (MFPG paper, section 5.2 and appendix C.4).

Clients of finitely many types choose from one grid and meet only in the mean s-bar of all choices.
An equilibrium is an s-bar that the population answers with itself: a fixed point of the map Phi
from s-bar to the interval of means of all mixed best responses. Phi has closed convex values, so
that one exists (Kakutani); in one dimension bisection finds it, also where no client answers s-bar
with one strength.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, IntArray, best_response_set
from fedgame.games.certificate import Exploitability, mixed_exploitability
from fedgame.games.privacy.mixing import extreme_answers, mean_range, mix
from fedgame.games.privacy.tables import allowed_gains, check_finite, check_grid

Disutility: TypeAlias = Callable[[float], FloatArray]
"""From s-bar to U of each type at each strength, shape (types, m), continuous in s-bar."""

RESIDUAL = 1e-12
"""How far an equilibrium's mean may be from s-bar, as a fraction of the largest strength."""


@dataclass(frozen=True)
class MeanFieldGame:
    """A population that meets only in its mean strength.

    Attributes:
        grid: The strengths, shape (m,), strictly increasing; one is allowed.
        weights: Share of each type in the population, shape (types,), at least 0; only the ratios
            matter. A type is, for instance, a preference beta.
        disutility: U of each type at each strength against a given s-bar, continuous in s-bar;
            `StrengthDisutility` is one.
    """

    grid: FloatArray
    weights: FloatArray
    disutility: Disutility

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", check_grid(self.grid))
        weights = np.asarray(self.weights, dtype=np.float64)
        allowed = weights.ndim == 1 and bool((weights >= 0).all()) and 0 < weights.sum() < np.inf
        if not allowed:
            raise ValueError("weights must be finite numbers, at least 0, one of them above 0")
        object.__setattr__(self, "weights", weights / weights.sum())

    def table(self, mean_strength: float) -> FloatArray:
        """Return U against s-bar, shape (types, m).

        Raises:
            ValueError: The shape is wrong, or a disutility is not finite.
        """
        return check_finite(
            self.disutility(mean_strength),
            (len(self.weights), len(self.grid)),
            lambda row, column: (
                f"type {row} at strength {self.grid[column]:.6g} against mean strength "
                f"{mean_strength:.6g}"
            ),
        )


@dataclass(frozen=True)
class MeanFieldEquilibrium:
    """An equilibrium, or what came nearest to one, with its certificate.

    Attributes:
        mean_strength: s-bar.
        strategies: Probability with which each type plays each strength, shape (types, m).
        population: Share of the population at each strength, shape (m,).
        residual: |mean of `population` - s-bar|; 0 up to rounding at an equilibrium.
        exploitability: What one client of each type could gain by changing its strength alone;
            `largest` and `total` (NashConv, one client a type) are its summaries.
        iterations: Bisection steps; 0 if the scan hit it.
        converged: Whether the residual is at most `RESIDUAL` and no type's gain above what
            `allowed_gains` counts as none. Otherwise this is no equilibrium: too few iterations, or
            U jumps with s-bar.
        unique: False if the scan found several. True if it found one and no type's answer rises
            from one scanned s-bar to the next, so that there is no other unless an answer goes up
            and down again between two of them. None if it found one and some answer rises.
        trivial: Whether the grid has one strength, so that there was nothing to choose.
    """

    mean_strength: float
    strategies: FloatArray
    population: FloatArray
    residual: float
    exploitability: Exploitability
    iterations: int
    converged: bool
    unique: bool | None
    trivial: bool


def mean_field_equilibrium(
    game: MeanFieldGame, scan: int = 129, max_iterations: int = 200
) -> MeanFieldEquilibrium:
    """Return the equilibrium with the least mean strength; see `mean_field_equilibria`.

    Equal clients play one strength, or mix two of them between which they are indifferent.

    >>> game = MeanFieldGame(
    ...     np.array([0.0, 1.0]), np.ones(1), lambda mean: np.array([[0.25, mean]])
    ... )
    >>> found = mean_field_equilibrium(game)
    >>> found.mean_strength, found.population.tolist(), found.converged, found.unique
    (0.25, [0.75, 0.25], True, True)
    """
    return mean_field_equilibria(game, scan, max_iterations)[0]


def mean_field_equilibria(
    game: MeanFieldGame, scan: int = 129, max_iterations: int = 200
) -> tuple[MeanFieldEquilibrium, ...]:
    """Return all equilibria that a scan over s-bar brackets, at least one, in increasing order.

    At each scanned s-bar, Phi lies above it, below it, or contains it. Between neighbours on
    different sides there is a fixed point, which is bisected down to adjacent floats; there the
    answers of both sides are best up to rounding, and mixing them gives s-bar. Of a run of scanned
    points that all are fixed points, only the two ends are returned. Missed are fixed points where
    Phi touches s-bar without changing sides, and pairs of them between two points of the scan.

    Args:
        game: The game.
        scan: Equally spaced values of s-bar to look at, at least 2; those of the grid are added.
        max_iterations: Most bisection steps for one equilibrium, at least 0; 60 are usual.

    Raises:
        ValueError: A disutility has the wrong shape or is not finite, or an argument is too small.
    """
    if scan < 2 or max_iterations < 0:
        raise ValueError(
            f"scan = {scan} and max_iterations = {max_iterations}: must be at least 2 and 0"
        )
    equally = np.linspace(game.grid[0], game.grid[-1], scan)
    points = np.unique(np.concatenate([equally, game.grid]))
    sides, never_rises = _scan(game, points)
    found = [
        *((point, _answers(game, point), 0) for point in _ends_of_runs(points, sides == 0)),
        *(
            _bisect(game, points[index], points[index + 1], max_iterations)
            for index in np.flatnonzero(sides[:-1] * sides[1:] == -1)
        ),
    ]
    unique = False if len(found) > 1 else (never_rises or None)
    equilibria = (_certified(game, *candidate, unique=unique) for candidate in found)
    return tuple(sorted(equilibria, key=lambda each: each.mean_strength))


def _scan(game: MeanFieldGame, points: FloatArray) -> tuple[IntArray, bool]:
    """Return the side of Phi at each point, and whether no type's answer rises between two."""
    sides = np.zeros(len(points), dtype=np.int64)
    never_rises = True
    lowest_before = np.full(len(game.weights), len(game.grid), dtype=np.int64)
    for index, point in enumerate(points):
        answers = _answers(game, point)
        sides[index] = _side(game, point, answers)
        lowest, highest = extreme_answers(answers)
        never_rises &= bool((highest <= lowest_before).all())
        lowest_before = lowest
    return sides, never_rises


def _answers(game: MeanFieldGame, mean_strength: float) -> BoolArray:
    """Mark all best responses to s-bar, shape (types, m)."""
    return best_response_set(game.table(float(mean_strength)))


def _ends_of_runs(points: FloatArray, marked: BoolArray) -> FloatArray:
    """Return the marked points that do not lie between two other marked ones."""
    padded = np.concatenate([[False], marked, [False]])
    inner = padded[:-2] & padded[2:]
    return np.asarray(points[marked & ~inner])


def _side(game: MeanFieldGame, mean_strength: float, answers: BoolArray) -> int:
    """Return 1 if all mean answers to s-bar lie above it, -1 if all lie below, else 0."""
    least, greatest = mean_range(answers, game.grid, game.weights)
    return int(least > mean_strength) - int(greatest < mean_strength)


def _bisect(
    game: MeanFieldGame, left: float, right: float, max_iterations: int
) -> tuple[float, BoolArray, int]:
    """Return s-bar between two points on different sides, the answers to mix, and the steps."""
    left_answers, right_answers = _answers(game, left), _answers(game, right)
    left_side = _side(game, left, left_answers)
    steps = 0
    while steps < max_iterations:
        middle = left + (right - left) / 2
        if not left < middle < right:
            break
        steps += 1
        answers = _answers(game, middle)
        side = _side(game, middle, answers)
        if side == 0:
            return middle, answers, steps
        if side == left_side:
            left, left_answers = middle, answers
        else:
            right, right_answers = middle, answers
    return left + (right - left) / 2, left_answers | right_answers, steps


def _certified(
    game: MeanFieldGame,
    mean_strength: float,
    answers: BoolArray,
    iterations: int,
    *,
    unique: bool | None,
) -> MeanFieldEquilibrium:
    """Mix the answers to the mean s-bar and measure how far the result is from an equilibrium."""
    strategies = mix(answers, game.grid, game.weights, mean_strength)
    shares = game.weights @ strategies
    population = shares / shares.sum()
    residual = abs(float(population @ game.grid - mean_strength))
    table = game.table(float(mean_strength))
    certificate = mixed_exploitability(table, strategies)
    no_gain = bool((certificate.gains <= allowed_gains(table)).all())
    small = residual <= RESIDUAL * float(np.abs(game.grid).max())
    return MeanFieldEquilibrium(
        mean_strength=float(mean_strength),
        strategies=strategies,
        population=population,
        residual=residual,
        exploitability=certificate,
        iterations=iterations,
        converged=small and no_gain,
        unique=unique,
        trivial=len(game.grid) == 1,
    )
