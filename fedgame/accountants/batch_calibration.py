"""Calibration of many clients at once: each buys its own budget and takes its own number of steps.

The Rényi accountant, which is vectorised, finds about where every noise multiplier lies; a tight
accountant, whose every call takes tens of milliseconds, then starts from what the most similar
client before needed on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedgame.accountants.base import Accountant
from fedgame.accountants.calibration import (
    MAX_NOISE_MULTIPLIER,
    MIN_NOISE_MULTIPLIER,
    SIX_DIGITS,
    Cost,
    check_plan,
    check_setting,
    cross_check,
    planned_cost,
    require_reachable,
)
from fedgame.accountants.pld import PldAccountant
from fedgame.accountants.rdp import RdpAccountant, composable, gaussian_epsilon
from fedgame.errors import CalibrationError
from fedgame.ledger.events import Neighbours, SampledGaussian

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MIN_TOLERANCE, MAX_TOLERANCE = 1e-4, 0.5
"""How far below its target an epsilon may be asked to stay; six digits resolve no less."""

START_TOLERANCE = 1e-3
"""How well the Rényi root is found from which a tight accountant starts."""

STEEPEST, FLATTEST = -8.0, -0.5
"""Slopes of log epsilon in log noise that are believed; mostly it is between -2 and -1."""

LONGEST_STEP = np.log(4.0)
"""Longest step in log noise, since small noise multipliers take long to account for."""

SECANTS = 3
"""After so many secant steps every other one halves the bracket, whatever the curve looks like."""

BatchCost = Callable[[FloatArray, IntArray], FloatArray]
"""Epsilon of the clients with the given indices at the given noise multipliers."""


class _Search:
    """A bracketed secant in log noise against log epsilon, for many clients at once.

    Attributes:
        low: Largest noise multiplier seen to cost more than the target, 0 if none; (clients,).
        high: Smallest one seen to cost at most the target, infinity if none; (clients,).
        slope: Slope of log epsilon in log noise near the solution, (clients,).
    """

    def __init__(
        self, target: FloatArray, guess: FloatArray, slope: FloatArray, tolerance: float
    ) -> None:
        self.low = np.zeros(target.size)
        self.high = np.full(target.size, np.inf)
        self.slope = slope.copy()
        self._target, self._tolerance = target, tolerance
        self._noise = _six_digits(guess)
        self._log_noise, self._log_excess = np.full((2, target.size), np.nan)

    def run(self, cost: BatchCost) -> FloatArray:
        """Search until every client is within the tolerance, and return `high`."""
        todo, turn = np.arange(self.low.size), 0
        while todo.size:
            turn += 1
            todo = todo[~self._met(todo, cost(self._noise[todo], todo))]
            todo = todo[self._moved(todo, halve=turn > SECANTS and turn % 2 == 0)]
        return self.high

    def aim(self) -> FloatArray:
        """Return the log noise at which the middle of the tolerance should be met, (clients,)."""
        goal = np.log1p(-self._tolerance / 2)
        return np.asarray(self._log_noise + (goal - self._log_excess) / self.slope)

    def _met(self, i: IntArray, epsilon: FloatArray) -> NDArray[np.bool_]:
        """Take in what the present noise multipliers cost, and say which clients are done."""
        z, target = self._noise[i], self._target[i]
        affordable = epsilon <= target
        self.high[i] = np.where(affordable, z, self.high[i])
        self.low[i] = np.where(affordable, self.low[i], z)
        log_z, log_excess = np.log(z), np.log(np.maximum(epsilon / target, 1e-3))
        secant = (log_excess - self._log_excess[i]) / (log_z - self._log_noise[i])
        slope = np.where(np.isfinite(secant), secant, self.slope[i])  # the first call has no secant
        self.slope[i] = np.clip(slope, STEEPEST, FLATTEST)
        self._log_noise[i], self._log_excess[i] = log_z, log_excess
        near = (epsilon >= (1 - self._tolerance) * target) | (z <= MIN_NOISE_MULTIPLIER)
        return np.asarray(np.where(affordable, near, z >= MAX_NOISE_MULTIPLIER))

    def _moved(self, i: IntArray, *, halve: bool) -> NDArray[np.bool_]:
        """Choose the next noise multipliers, and say which clients have one left to try."""
        low, high = self.low[i], self.high[i]
        step = np.clip(self.aim()[i] - self._log_noise[i], -LONGEST_STEP, LONGEST_STEP)
        wanted = _six_digits(np.exp(self._log_noise[i] + step))
        bracketed = (low > 0) & np.isfinite(high)
        middle = np.sqrt(low * high, where=bracketed, out=wanted.copy())
        wanted = np.where(
            bracketed & (halve | (wanted <= low) | (wanted >= high)), _six_digits(middle), wanted
        )
        self._noise[i] = wanted
        return np.asarray(wanted < high)


def _six_digits(noise_multipliers: FloatArray) -> FloatArray:
    """Return the values rounded up to six significant digits, inside the searched range."""
    rounded = [float(SIX_DIGITS.create_decimal(Decimal(z))) for z in noise_multipliers.tolist()]
    return np.asarray(np.clip(rounded, MIN_NOISE_MULTIPLIER, MAX_NOISE_MULTIPLIER))


def noise_multipliers_for(
    target_epsilons: ArrayLike,
    delta: float,
    sampling_rate: float,
    steps: ArrayLike,
    neighbours: Neighbours,
    accountant: Accountant,
    tolerance: float = 0.01,
    on_progress: Callable[[int, int], None] | None = None,
) -> FloatArray:
    """Return a noise multiplier for each client, whose planned history uses up the client's budget.

    (1 - tolerance) target <= epsilon(z) <= target by the accountant, and epsilon(z) <= target by
    the privacy loss distribution. Where the curve jumps over that range, as the Rényi accountant's
    does below an epsilon of some thousandths, it is the first six-digit z that meets the target;
    where even z = 0.05 costs less, it is 0.05. Clients with equal targets and steps get equal
    values, computed once. Within the tolerance a value may depend on the other clients of the call.

    Args:
        target_epsilons: Budget of each client, finite and > 0, shape (clients,).
        delta: Slack in [1e-12, 1), the same for all.
        sampling_rate: q in (0, 1] of each planned step; 1 unless `neighbours` is "example".
        steps: How many steps are planned for each client, whole numbers >= 1, shape (clients,).
        neighbours: The relation under which the noise multipliers are stated.
        accountant: A sound accountant.
        tolerance: Share of a budget that may stay unused, in [1e-4, 0.5].
        on_progress: Called with how many distinct (target, steps) are done and how many there are.

    Returns:
        Noise multipliers, six significant digits, shape (clients,).

    Raises:
        CalibrationError: An argument is out of range, the accountant only states a claim, a
            client's target is out of reach, or the cross-check contradicts it; what concerns one
            client names its index.
        AccountingError: The accountant refuses the planned history.

    Example:
        >>> from fedgame.accountants.rdp import RdpAccountant
        >>> noise_multipliers_for([1.0, 2.0], 1e-5, 0.1, [20, 20], "example", RdpAccountant())
        array([2.30069, 1.48818])
    """
    check_setting(accountant, delta, sampling_rate)
    if not MIN_TOLERANCE <= tolerance <= MAX_TOLERANCE:
        raise CalibrationError(
            f"tolerance = {tolerance}: must be in [{MIN_TOLERANCE:g}, {MAX_TOLERANCE:g}]"
        )
    composable([SampledGaussian(1.0, sampling_rate, 1, neighbours, "planned")])
    pairs, first, inverse = np.unique(
        _plans(target_epsilons, steps), axis=0, return_index=True, return_inverse=True
    )
    target, counts = pairs[:, 0], pairs[:, 1]
    by_rdp = isinstance(accountant, RdpAccountant)
    search = _rdp_search(
        target, delta, sampling_rate, counts, tolerance if by_rdp else START_TOLERANCE
    )
    refined = _Refined(target, counts, search, tolerance)
    result = search.high.copy()
    for k, client in enumerate(first.tolist()):
        plan = (delta, sampling_rate, int(counts[k]), neighbours)
        cost, judge = (planned_cost(each, *plan) for each in (accountant, PldAccountant()))
        with _naming(client):
            if not by_rdp:
                result[k] = refined.solve(k, cost)
            if np.isinf(result[k]):
                require_reachable(cost, float(target[k]), delta)
            if not isinstance(accountant, PldAccountant):  # else it was found by the judge
                cross_check(judge, float(target[k]), float(result[k]))
        if on_progress is not None:
            on_progress(k + 1, len(pairs))
    return np.asarray(result[inverse.ravel()])


@contextmanager
def _naming(client: int) -> Iterator[None]:
    """Let a calibration error say which client it is about."""
    try:
        yield
    except CalibrationError as error:
        raise CalibrationError(f"client {client}: {error}") from None


def _plans(target_epsilons: ArrayLike, steps: ArrayLike) -> FloatArray:
    """Return the checked (target, steps) of each client, shape (clients, 2)."""
    targets, counts = (np.asarray(x, dtype=np.float64) for x in (target_epsilons, steps))
    if targets.ndim != 1 or targets.shape != counts.shape:
        raise CalibrationError(
            f"target epsilons of shape {targets.shape} and steps of shape {counts.shape}: "
            "must be two lists with one entry for each client"
        )
    for client, (target, count) in enumerate(zip(targets.tolist(), counts.tolist(), strict=True)):
        with _naming(client):
            check_plan(target, count)
    return np.stack([targets, counts], axis=1)


def _rdp_search(
    target: FloatArray, delta: float, sampling_rate: float, steps: FloatArray, tolerance: float
) -> _Search:
    """Solve all clients by the Rényi accountant at once.

    The start is the tail bound of the central limit, epsilon = mu sqrt(2 log 1/delta) with
    mu = q sqrt(steps) / z, right within a factor of a few.
    """
    guess = sampling_rate * np.sqrt(2 * steps * -np.log(delta)) / target
    search = _Search(target, np.maximum(guess, 0.5), np.full(target.size, -1.5), tolerance)
    search.run(lambda z, i: gaussian_epsilon(z, sampling_rate, steps[i], delta))
    return search


class _Refined:
    """Solves clients one by one by a tight accountant, each from the most similar one before."""

    def __init__(
        self, target: FloatArray, steps: FloatArray, start: _Search, tolerance: float
    ) -> None:
        self._target, self._tolerance = target, tolerance
        self._place = np.log(np.stack([target, steps], axis=1))
        self._slope = start.slope
        self._log_start = np.log(np.minimum(start.high, MAX_NOISE_MULTIPLIER))
        self._correction = np.zeros(target.size)

    def solve(self, k: int, cost: Cost) -> float:
        """Return the noise multiplier of client k after 0..k-1; infinity if it is out of reach."""
        correction = 0.0
        if k > 0:
            distance = np.sum((self._place[:k] - self._place[k]) ** 2, axis=1)
            correction = self._correction[np.argmin(distance)]
        own = slice(k, k + 1)
        guess = np.exp(self._log_start[own] + correction)
        search = _Search(self._target[own], guess, self._slope[own], self._tolerance)
        high = search.run(lambda z, _: np.array([cost(float(z[0]))]))
        self._correction[k] = search.aim()[0] - self._log_start[k]
        return float(high[0])
