"""What an attack proves: from its scores in two neighbouring worlds to bounds from below.

An attack gives every observed run a score and says "world 1" where the score is above a threshold.
How often it is right in repeated runs bounds from below every delta, epsilon or mu that can hold.
The two rates have Clopper-Pearson bounds, exact for any number of runs, and both hold at once with
the stated confidence. The threshold must not depend on the runs that are counted: it is fixed
beforehand, or chosen on other runs (`choose_threshold`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv, ndtri

FloatArray = NDArray[np.float64]

CONFIDENCE: Final = 0.95
CANDIDATES: Final = 400
"""Thresholds that are tried, at evenly spaced ranks of all scores."""


@dataclass(frozen=True)
class RateBounds:
    """An attack's two rates, bounded so that both bounds hold at once.

    Attributes:
        power: At most the chance that world 1 is called world 1.
        size: At least the chance that world 0 is called world 1.
        confidence: With which both hold.
    """

    power: float
    size: float
    confidence: float

    def delta(self, epsilon: float) -> float:
        """Return the largest delta proven: a release that is (epsilon, delta)-DP has at least it.

        Args:
            epsilon: Finite and >= 0.

        Raises:
            ValueError: `epsilon` is out of range.
        """
        if not 0 <= epsilon < np.inf:
            raise ValueError(f"epsilon = {epsilon}: must be finite and >= 0")
        factor = float(np.exp(epsilon))
        found = self.power - factor * self.size
        # what the attack does not call world 1 is a set of outcomes as well
        other = (1 - self.size) - factor * (1 - self.power)
        return max(found, other, 0.0)

    def epsilon(self, delta: float) -> float:
        """Return the largest epsilon proven: a release that is (epsilon, delta)-DP has at least it.

        Args:
            delta: In [0, 1).

        Raises:
            ValueError: `delta` is out of range.
        """
        if not 0 <= delta < 1:
            raise ValueError(f"delta = {delta}: must be in [0, 1)")
        pairs = ((self.power, self.size), (1 - self.size, 1 - self.power))
        with np.errstate(divide="ignore"):
            logs = [float(np.log(max(high - delta, 0.0)) - np.log(low)) for high, low in pairs]
        return max(*logs, 0.0)

    def mu(self) -> float:
        """Return the largest mu proven: a release that is mu-GDP has at least it.

        mu-GDP leaves no test more power than Phi(Phi^-1(size) + mu) (Dong, Roth, Su 2022).
        """
        return max(float(ndtri(self.power) - ndtri(self.size)), 0.0)


def rate_bounds(
    null: ArrayLike, alternative: ArrayLike, threshold: float, confidence: float = CONFIDENCE
) -> RateBounds:
    """Return bounds of both rates from the scores of independent runs.

    Args:
        null: Scores in world 0, shape (runs,).
        alternative: Scores in world 1, shape (runs,).
        threshold: A score above it is called world 1; chosen without these scores.
        confidence: With which both bounds hold, in (0, 1); each has half of what may go wrong.

    Raises:
        ValueError: There are no scores or one is NaN, or a number is out of range.
    """
    worlds = [_scores("null", null), _scores("alternative", alternative)]
    if np.isnan(threshold):
        raise ValueError("threshold = nan: must be a number")
    miss = _miss(confidence)
    above = [int((scores > threshold).sum()) for scores in worlds]
    return RateBounds(
        power=float(_at_least(np.array(above[1]), len(worlds[1]), miss)),
        size=float(_at_most(np.array(above[0]), len(worlds[0]), miss)),
        confidence=confidence,
    )


def choose_threshold(
    null: ArrayLike,
    alternative: ArrayLike,
    value: Callable[[RateBounds], float],
    confidence: float = CONFIDENCE,
) -> float:
    """Return the threshold at which a bound is largest on runs that are not counted later.

    Args:
        null: Scores in world 0, shape (runs,).
        alternative: Scores in world 1, shape (runs,).
        value: The bound that the attack is to prove, for instance `RateBounds.mu`.
        confidence: As in `rate_bounds`.

    Raises:
        ValueError: As in `rate_bounds`.
    """
    worlds = [np.sort(_scores("null", null)), np.sort(_scores("alternative", alternative))]
    both = np.sort(np.concatenate(worlds))
    ranks = np.unique(np.linspace(0, len(both) - 1, CANDIDATES).round().astype(np.intp))
    thresholds = both[ranks]
    miss = _miss(confidence)
    above = [len(scores) - np.searchsorted(scores, thresholds, side="right") for scores in worlds]
    powers = _at_least(above[1], len(worlds[1]), miss)
    sizes = _at_most(above[0], len(worlds[0]), miss)
    values = [
        value(RateBounds(float(power), float(size), confidence))
        for power, size in zip(powers, sizes, strict=True)
    ]
    return float(thresholds[int(np.argmax(values))])


def linear_score(null: FloatArray, alternative: FloatArray) -> FloatArray:
    """Return Fisher's linear discriminant between two worlds, learnt from runs not counted later.

    It is the best score for Gaussian observations of equal covariance.

    Args:
        null: Observations in world 0, shape (runs, features).
        alternative: Observations in world 1, shape (runs, features).

    Returns:
        Weights w, shape (features,); the score of an observation is its product with w.
    """
    worlds = (np.asarray(null, dtype=np.float64), np.asarray(alternative, dtype=np.float64))
    means = [world.mean(axis=0) for world in worlds]
    spread = sum(
        (world - mean).T @ (world - mean) / len(world)
        for world, mean in zip(worlds, means, strict=True)
    )
    # later states may be all but copies of earlier ones
    return np.asarray(np.linalg.lstsq(np.asarray(spread), means[1] - means[0], rcond=None)[0])


def _scores(name: str, values: ArrayLike) -> FloatArray:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or not len(scores) or np.isnan(scores).any():
        raise ValueError(f"{name}: must be a row of at least one score, none of them NaN")
    return scores


def _miss(confidence: float) -> float:
    """Return what may go wrong on each side."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence}: must be in (0, 1)")
    return (1 - confidence) / 2


def _at_least(count: NDArray[np.int64], total: int, miss: float) -> FloatArray:
    """Return the lower Clopper-Pearson bound of a rate."""
    safe = np.maximum(count, 1)
    return np.where(count > 0, betaincinv(safe, total - safe + 1, miss), 0.0)


def _at_most(count: NDArray[np.int64], total: int, miss: float) -> FloatArray:
    """Return the upper Clopper-Pearson bound of a rate."""
    safe = np.minimum(count, total - 1)
    return np.where(count < total, betainccinv(safe + 1, total - safe, miss), 1.0)
