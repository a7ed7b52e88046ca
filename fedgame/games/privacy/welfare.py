"""The social optimum of a mean-field game, and the price of anarchy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, best_response_set
from fedgame.games.privacy.equilibrium import MeanFieldEquilibrium, MeanFieldGame
from fedgame.games.privacy.mixing import mean_range, mix

TAX_STEPS = 60
"""Bisection steps for the tax: from four times the steepest slope of U down to 1e-18 of it."""


@dataclass(frozen=True)
class SocialOptimum:
    """A profile of least average disutility.

    Attributes:
        mean_strength: s-bar of the profile.
        strategies: Share of each type at each strength, shape (types, m).
        disutility: Average of U over the population.
    """

    mean_strength: float
    strategies: FloatArray
    disutility: float


@dataclass(frozen=True)
class PriceOfAnarchy:
    """What selfish choice costs.

    Attributes:
        optimum: The profile of least average disutility.
        worst: Average disutility at the worst equilibrium found.
        best: The same at the best one.
    """

    optimum: SocialOptimum
    worst: float
    best: float

    @property
    def anarchy(self) -> float | None:
        """`worst` over the optimum; None if the optimum is not above 0, where a ratio misleads."""
        return self.worst / self.optimum.disutility if self.optimum.disutility > 0 else None

    @property
    def stability(self) -> float | None:
        """`best` over the optimum; None if the optimum is not above 0."""
        return self.best / self.optimum.disutility if self.optimum.disutility > 0 else None

    @property
    def gap(self) -> float:
        """`worst` minus the optimum, in units of disutility."""
        return self.worst - self.optimum.disutility


def average_disutility(game: MeanFieldGame, strategies: FloatArray) -> float:
    """Return the average of U over the population against the mean that it has itself.

    Args:
        game: The game.
        strategies: Share of each type at each strength, shape (types, m).
    """
    mean = float(game.weights @ strategies @ game.grid)
    return float(game.weights @ (strategies * game.table(mean)).sum(axis=1))


def symmetric_optimum(game: MeanFieldGame) -> SocialOptimum:
    """Return the best profile in which all clients play the same strength; of equals, the least."""
    tables = [game.table(float(strength))[:, j] for j, strength in enumerate(game.grid)]
    averages = np.array(tables) @ game.weights
    best = int(averages.argmin())
    strategies = np.zeros((len(game.weights), len(game.grid)))
    strategies[:, best] = 1.0
    return SocialOptimum(float(game.grid[best]), strategies, float(averages[best]))


def social_optimum(
    game: MeanFieldGame, scan: int = 129, extra: Sequence[float] = ()
) -> SocialOptimum:
    """Return the best profile in which each type may be spread over the grid as it likes.

    For a given s-bar this is a linear program, solved by the tax per unit of strength at which the
    population's answers have the mean s-bar. Over s-bar it is a search: a scan, then golden section
    between the neighbours of the best point, so that another dip between two points of the scan can
    be missed.

    Args:
        game: The game. The work is `scan` times about 60 evaluations of a (types, m) table.
        scan: Equally spaced values of s-bar, at least 2; those of the grid are added.
        extra: More values of s-bar to look at: the optimum is at least as good as any profile that
            has one of these means.

    Raises:
        ValueError: A disutility has the wrong shape or is not finite, or `scan` is too small.
    """
    if scan < 2:
        raise ValueError(f"scan = {scan}: must be at least 2")
    inside = np.clip(np.asarray(extra, dtype=np.float64), game.grid[0], game.grid[-1])
    equally = np.linspace(game.grid[0], game.grid[-1], scan)
    points = np.unique(np.concatenate([equally, game.grid, inside]))
    values = [_spread(game, float(point)).disutility for point in points]
    best = int(np.argmin(values))
    left, right = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
    refined = _golden(game, float(left), float(right))
    return min(_spread(game, float(points[best])), refined, key=lambda optimum: optimum.disutility)


def price_of_anarchy(
    game: MeanFieldGame,
    equilibria: Sequence[MeanFieldEquilibrium],
    optimum: SocialOptimum | None = None,
) -> PriceOfAnarchy:
    """Return what the equilibria cost beside the optimum.

    Args:
        game: The game.
        equilibria: At least one, all converged.
        optimum: By default `social_optimum`, to which no equilibrium is superior. Against
            `symmetric_optimum` the ratio can be below 1 if types differ.

    Raises:
        ValueError: There is no equilibrium, or one has not converged.
    """
    if not equilibria or not all(each.converged for each in equilibria):
        raise ValueError("equilibria: at least one is needed, and each must have converged")
    costs = [average_disutility(game, each.strategies) for each in equilibria]
    if optimum is None:
        optimum = social_optimum(game, extra=[each.mean_strength for each in equilibria])
    return PriceOfAnarchy(optimum, worst=max(costs), best=min(costs))


def _spread(game: MeanFieldGame, mean_strength: float) -> SocialOptimum:
    """Return the best profile of mean s-bar: the tax that makes answers have it, by bisection."""
    table = game.table(mean_strength)
    if len(game.grid) == 1:
        return SocialOptimum(mean_strength, np.ones(table.shape), float(game.weights @ table[:, 0]))
    steepest = float(np.abs(np.diff(table, axis=1) / np.diff(game.grid)).max())
    high = 2 * steepest + 1.0
    low = -high
    low_answers, high_answers = _taxed(game, table, low), _taxed(game, table, high)
    answers = low_answers | high_answers
    for _ in range(TAX_STEPS):
        tax = low + (high - low) / 2
        if not low < tax < high:
            break
        middle = _taxed(game, table, tax)
        least, greatest = mean_range(middle, game.grid, game.weights)
        if least <= mean_strength <= greatest:
            answers = middle
            break
        if greatest < mean_strength:
            high, high_answers = tax, middle
        else:
            low, low_answers = tax, middle
        answers = low_answers | high_answers
    strategies = mix(answers, game.grid, game.weights, mean_strength)
    cost = float(game.weights @ (strategies * table).sum(axis=1))
    return SocialOptimum(mean_strength, strategies, cost)


def _taxed(game: MeanFieldGame, table: FloatArray, tax: float) -> BoolArray:
    """Mark the best responses when a unit of strength costs `tax` more."""
    return best_response_set(table + tax * game.grid)


def _golden(game: MeanFieldGame, left: float, right: float) -> SocialOptimum:
    """Return the best of the points that a golden-section search visits."""
    ratio = (np.sqrt(5.0) - 1) / 2
    first, second = (
        _spread(game, x) for x in (right - ratio * (right - left), left + ratio * (right - left))
    )
    for _ in range(50):
        if first.disutility <= second.disutility:
            right, second = second.mean_strength, first
            first = _spread(game, right - ratio * (right - left))
        else:
            left, first = first.mean_strength, second
            second = _spread(game, left + ratio * (right - left))
    return min(first, second, key=lambda optimum: optimum.disutility)
