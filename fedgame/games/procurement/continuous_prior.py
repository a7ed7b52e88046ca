"""A prior that is known by its density."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.best_response import BoolArray, FloatArray, IntArray
from fedgame.games.procurement.prior import MONOTONE_TOLERANCE, check_support, convex_minorant

GRID = 2049
"""Points at which regularity is checked, evenly spaced in sensitivity and as many in quantiles."""

REFINEMENTS = 2
"""How often the grid is refined about the ends of ironed intervals, by a factor of GRID/4 each."""

LARGEST_VIRTUAL_COST = 1e90
"""Third powers of costs must stay finite."""

UNBOUNDED_QUANTILE = 0.999
"""Where an unbounded distribution is truncated unless `c_max` says otherwise."""


class ContinuousPrior:
    """A prior with a density, truncated to [0, c_max] and renormalised.

    Attributes:
        ironed: Whether the distribution is not regular, so that virtual costs are ironed.
        kinks: The ends of the intervals on which they are, since ironing makes them constant there.
    """

    def __init__(self, distribution: Any, c_max: float | None = None) -> None:
        """Truncate, check regularity, and iron where it fails.

        Args:
            distribution: A frozen continuous distribution of scipy.stats.
            c_max: The largest sensitivity; by default the end of the support or, where that is
                infinite, the 0.999 quantile.

        Raises:
            ValueError: The distribution has no density, or none somewhere on [0, c_max].
        """
        if not (hasattr(distribution, "logpdf") and hasattr(distribution, "dist")):
            kind = getattr(getattr(distribution, "dist", distribution), "name", distribution)
            raise ValueError(f"prior = {kind}: must be a frozen distribution with a density")
        self._distribution = distribution
        lower, upper = (float(end) for end in distribution.support())
        if c_max is None:
            c_max = upper if math.isfinite(upper) else float(distribution.ppf(UNBOUNDED_QUANTILE))
        self.c_min, self.c_max = max(lower, 0.0), min(upper, float(c_max))
        if not (math.isfinite(self.c_max) and self.c_min < self.c_max):
            allowed = f"must be a finite number above {self.c_min}"
            raise ValueError(f"c_max = {c_max}: {allowed}, where the prior begins")
        self._below = float(distribution.cdf(self.c_min))
        self._mass = float(distribution.cdf(self.c_max)) - self._below
        if np.isinf(self._raw(np.array([self.c_max]))[0]):
            self.c_max = math.nextafter(self.c_max, 0.0)
        dearest = float(self._raw(np.array([self.c_max]))[0])
        if dearest > LARGEST_VIRTUAL_COST:
            raise ValueError(
                f"virtual costs reach {dearest:.3g} at {self.c_max:.17g}, where there is hardly "
                "any density: truncate it by c_max"
            )
        self.steps = np.array([])
        self._starts, self._ends, self._levels = self._iron()
        self.kinks = np.unique(np.concatenate([self._starts, self._ends]))
        self.ironed = len(self._levels) > 0

    def virtual_cost(self, reports: ArrayLike) -> FloatArray:
        """Return c + F(c)/f(c), ironed where needed, shape (clients,).

        Raises:
            ValueError: A report is outside the support, or has no density.
        """
        checked = check_support(reports, self.c_min, self.c_max)
        values = self._raw(checked)
        for start, end, level in zip(self._starts, self._ends, self._levels, strict=True):
            values = np.where(checked < start, np.minimum(values, level), values)
            values = np.where(checked > end, np.maximum(values, level), values)
            values = np.where((checked >= start) & (checked <= end), level, values)
        bad = ~np.isfinite(values)
        if bad.any():
            client = int(np.argmax(bad))
            raise ValueError(
                f"report of client {client} = {checked[client]}: the prior has no density there"
            )
        return values

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw by the inverse of the distribution function."""
        quantiles = self._below + self._mass * rng.random(shape)
        return np.asarray(np.clip(self._distribution.ppf(quantiles), self.c_min, self.c_max))

    def _raw(self, c: FloatArray) -> FloatArray:
        """Return c + F/f before ironing; infinite where there is no density."""
        with np.errstate(all="ignore"):
            above = self._distribution.cdf(c) - self._below
            density = self._distribution.pdf(c)
            ratio = above / density
            vanishes = density == 0
            if vanishes.any():
                logcdf = self._distribution.logcdf(c[vanishes])
                by_logs = np.exp(logcdf - self._distribution.logpdf(c[vanishes]))
                ratio[vanishes] = np.where(above[vanishes] > 0, by_logs, 0.0)
        return np.asarray(c + ratio)

    def _quantiles(self, c: FloatArray) -> FloatArray:
        return np.asarray((self._distribution.cdf(c) - self._below) / self._mass)

    def _grid(self) -> FloatArray:
        even = np.linspace(self.c_min, self.c_max, GRID)
        shares = (np.arange(GRID) + 0.5) / GRID
        by_quantile = self._distribution.ppf(self._below + self._mass * shares)
        return np.unique(np.clip(np.concatenate([even, by_quantile]), self.c_min, self.c_max))

    def _iron(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return starts, ends and levels of the intervals on which virtual costs are constant."""
        c = self._grid()
        first, last, levels = self._flat_intervals(c)
        for _ in range(REFINEMENTS if len(first) else 0):
            cells = [
                np.linspace(c[max(end - 1, 0)], c[min(end + 1, len(c) - 1)], GRID // 2)
                for end in np.concatenate([first, last])
            ]
            c = np.unique(np.concatenate([c, *cells]))
            first, last, levels = self._flat_intervals(c)
        return c[first], c[last], levels

    def _flat_intervals(self, c: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return indices of the first and last point of each ironed interval, and its level."""
        values = self._raw(c)
        if not np.isfinite(values).all():
            where = c[int(np.argmin(np.isfinite(values)))]
            raise ValueError(f"the prior has no density at {where}: truncate it by c_max")
        falls = values[1:] < values[:-1] * (1 - MONOTONE_TOLERANCE)
        if not falls.any():
            return np.array([], dtype=int), np.array([], dtype=int), np.array([])
        x = self._quantiles(c)
        y = x * c
        hull = convex_minorant(x, y)
        first, last = hull[:-1], hull[1:]
        has_fall: BoolArray = np.diff(np.concatenate([[0], np.cumsum(falls)])[hull]) > 0
        first, last = first[has_fall], last[has_fall]
        return first, last, (y[last] - y[first]) / (x[last] - x[first])
