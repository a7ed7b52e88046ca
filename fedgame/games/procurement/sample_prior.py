"""A prior that is known by samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import check_values
from fedgame.games.procurement.prior import MONOTONE_TOLERANCE, check_support, convex_minorant


class SamplePrior:
    """A prior on finitely many sensitivities, each as likely as its share of the samples.

    The i-th sensitivity has the virtual cost c_i + (c_i - c_(i-1)) F_(i-1)/f_i. A report between
    two sensitivities counts as the upper one, so that no report is worth more than its own type.
    """

    c_min = 0.0

    def __init__(self, samples: ArrayLike) -> None:
        """Count.

        Args:
            samples: Sensitivities, shape (samples,).

        Raises:
            ValueError: There is none, or one is negative or not finite.
        """
        checked = check_values(samples, "sample")
        self.steps, counts = np.unique(checked, return_counts=True)
        self._shares = counts / len(checked)
        quantiles = np.cumsum(counts) / len(checked)
        x = np.concatenate([[0.0], quantiles])
        y = np.concatenate([[0.0], quantiles * self.steps])
        hull = convex_minorant(x, y)
        slopes = np.diff(y[hull]) / np.diff(x[hull])
        self._virtual_costs = np.repeat(slopes, np.diff(hull))
        raw = np.diff(y) / np.diff(x)
        self.ironed = bool((raw[1:] < raw[:-1] * (1 - MONOTONE_TOLERANCE)).any())
        self.c_max = float(self.steps[-1])
        self.kinks = self.steps

    def virtual_cost(self, reports: ArrayLike) -> FloatArray:
        """Return virtual costs of reports, shape (clients,).

        Raises:
            ValueError: A report is negative, not finite, or above the largest sample.
        """
        checked = check_support(reports, self.c_min, self.c_max)
        return np.asarray(self._virtual_costs[np.searchsorted(self.steps, checked)])

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw from the samples."""
        return np.asarray(rng.choice(self.steps, size=shape, p=self._shares))
