"""Calibration: the least noise that keeps a planned run within a target (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal

import scipy

from fedgame.accountants.base import Accountant
from fedgame.accountants.pld import MIN_DELTA, PldAccountant
from fedgame.accountants.rdp import RdpAccountant
from fedgame.errors import CalibrationError
from fedgame.ledger.events import Neighbours, PrivacyEvent, SampledGaussian

MIN_NOISE_MULTIPLIER = 0.05
MAX_NOISE_MULTIPLIER = 1e4
"""The searched range; more noise than its end is no use, less than its start no protection."""

SIX_DIGITS = Context(prec=6, rounding=ROUND_CEILING)

Cost = Callable[[float], float]
"""Epsilon of the planned history as a function of the noise multiplier."""


def noise_multiplier_for(
    target_epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    neighbours: Neighbours,
    accountant: Accountant,
    extra_events: Sequence[PrivacyEvent] = (),
) -> float:
    """Return the smallest noise multiplier whose planned history costs at most the target.

    It is rounded up to six significant digits and checked after rounding, so that
    epsilon(z) <= target always holds, and checked once more by the privacy loss distribution.

    Args:
        target_epsilon: Budget, finite and > 0.
        delta: Slack in [1e-12, 1), which the cross-check resolves.
        sampling_rate: q in (0, 1] of each planned step; 1 unless `neighbours` is "example".
        steps: How many steps are planned, at least 1.
        neighbours: The relation under which the noise multiplier is stated.
        accountant: A sound accountant.
        extra_events: What else will be released, for example choices.

    Raises:
        CalibrationError: An argument is out of range, the accountant only states a claim, no noise
            multiplier in [0.05, 10000] meets the target, or the cross-check contradicts it.
        AccountingError: The accountant refuses the planned history.
    """
    check_setting(accountant, delta, sampling_rate)
    check_plan(target_epsilon, steps)

    def cost_by(judge: Accountant) -> Cost:
        return planned_cost(judge, delta, sampling_rate, steps, neighbours, extra_events)

    cost = cost_by(accountant)
    require_reachable(cost, target_epsilon, delta, accountant.epsilon(extra_events, delta))
    if cost(MIN_NOISE_MULTIPLIER) <= target_epsilon:
        result = MIN_NOISE_MULTIPLIER
    else:
        guess = _root(cost_by(RdpAccountant()), target_epsilon, MAX_NOISE_MULTIPLIER)
        root = guess if accountant.name == "rdp" else _root(cost, target_epsilon, guess)
        result = _round_up(cost, target_epsilon, root)
    cross_check(cost_by(PldAccountant()), target_epsilon, result)
    return result


def planned_cost(
    judge: Accountant,
    delta: float,
    sampling_rate: float,
    steps: int,
    neighbours: Neighbours,
    extra_events: Sequence[PrivacyEvent] = (),
) -> Cost:
    """Return the planned history's epsilon by `judge`, as a function of the noise multiplier."""

    def cost(noise_multiplier: float) -> float:
        plan = SampledGaussian(noise_multiplier, sampling_rate, steps, neighbours, "planned")
        return judge.epsilon((plan, *extra_events), delta)

    return cost


def check_setting(accountant: Accountant, delta: float, sampling_rate: float) -> None:
    """Refuse an accountant that only states a claim, and a slack or a rate out of range."""
    if not accountant.sound:
        raise CalibrationError(f"accountant {accountant.name} states a claim, not a guarantee")
    if not MIN_DELTA <= delta < 1:
        raise CalibrationError(f"delta = {delta}: must be in [{MIN_DELTA:g}, 1)")
    if not 0 < sampling_rate <= 1:
        raise CalibrationError(f"sampling rate = {sampling_rate}: must be in (0, 1]")


def check_plan(target_epsilon: float, steps: float) -> None:
    """Refuse a budget that is not finite and > 0, and a number of steps that is no count."""
    if not 0 < target_epsilon < math.inf:
        raise CalibrationError(f"target epsilon = {target_epsilon}: must be finite and > 0")
    if not (math.isfinite(steps) and steps >= 1 and steps == int(steps)):
        raise CalibrationError(f"steps = {steps}: must be a whole number, at least 1")


def require_reachable(cost: Cost, target: float, delta: float, extra: float = 0.0) -> None:
    """Refuse a target epsilon below what the largest noise multiplier costs.

    Args:
        cost: Epsilon of the whole planned history.
        target: The budget.
        delta: Slack, for the message.
        extra: What the other events of the history cost alone, for the message.

    Raises:
        CalibrationError: The target is out of reach.
    """
    least = cost(MAX_NOISE_MULTIPLIER)
    if least > target:
        others = f", of which the other events cost {extra:.6g}" if extra else ""
        raise CalibrationError(
            f"epsilon = {target:.6g} at delta = {delta:.6g} is out of reach: a noise multiplier of "
            f"{MAX_NOISE_MULTIPLIER:g} still costs {least:.6g}{others}"
        )


def _root(cost: Cost, target: float, guess: float) -> float:
    """Return where `cost` meets the target, near `guess` if it can; the end of the range if never.

    The bracket grows from the guess, since each call of a tight accountant takes long.
    """
    high = low = min(max(guess, MIN_NOISE_MULTIPLIER), MAX_NOISE_MULTIPLIER)
    factor = 1.1
    while cost(high) > target:
        if high == MAX_NOISE_MULTIPLIER:
            return high
        low, high, factor = high, min(high * factor, MAX_NOISE_MULTIPLIER), factor**2
    factor = 1.1
    while low == high or cost(low) <= target:
        if low == MIN_NOISE_MULTIPLIER:
            return low
        high, low, factor = low, max(low / factor, MIN_NOISE_MULTIPLIER), factor**2

    def excess(log_noise: float) -> float:
        return math.log(max(cost(math.exp(log_noise)), target * 1e-3) / target)

    return math.exp(scipy.optimize.brentq(excess, math.log(low), math.log(high), xtol=1e-7))


def _round_up(cost: Cost, target: float, root: float) -> float:
    """Return the first six-digit number from a little below the root on that meets the target."""
    digits = SIX_DIGITS.create_decimal(Decimal(root * (1 - 1e-7)))
    while cost(float(digits)) > target:
        digits = digits.next_plus(SIX_DIGITS)
    return float(digits)


def cross_check(cost: Cost, target: float, noise_multiplier: float) -> None:
    """Refuse a noise multiplier that costs more than the target by `cost`, the pld accountant's."""
    epsilon = cost(noise_multiplier)
    if epsilon > target:
        raise CalibrationError(
            f"noise multiplier {noise_multiplier:g} was to give epsilon <= {target:.6g}, "
            f"but the pld accountant finds {epsilon:.6g}"
        )
