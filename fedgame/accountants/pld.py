"""The privacy loss distribution accountant, through dp-accounting: the tightest sound numbers.

Discretisation is pessimistic (Doroshenko et al., "Connect the Dots", 2022), so every number is an
upper bound, up to floating-point rounding of the convolution (about 1e-15 of delta).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
from dp_accounting.pld import pld_pmf, privacy_loss_distribution
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass
from scipy.special import log_ndtr, ndtr

from fedgame.accountants.base import epsilon_by_client
from fedgame.accountants.rdp import check_delta, check_epsilon, composable
from fedgame.errors import AccountingError
from fedgame.ledger.events import LaplaceVector, PrivacyEvent, PureDPChoice, SampledGaussian

Releases: TypeAlias = tuple[tuple[float, float, int], ...]
"""(noise multiplier, sampling rate, how many), sorted."""

Choices: TypeAlias = tuple[tuple[float, int], ...]
"""(epsilon of a choice or a Laplace vector, both pure DP, how many), sorted."""

MIN_DELTA = 1e-12
"""Below it the mass that is cut off the tails, and rounding, would be most of the answer."""

RESOLUTION = 0.01
"""Grid interval over the standard deviation of one release's loss: epsilon is 1e-5 too high."""

TAIL = 10.0
"""Noise deviations beyond which an output counts as an infinite loss: a chance of 8e-24."""

MAX_POINTS = 20_000
"""Grid points of one release: a coarser grid is less tight, and still sound."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)


def _loss(noise_multiplier: float, sampling_rate: float, u: Any) -> Any:
    """Return log(1 - q + q L(u)), the loss of one release that came out u noise deviations high."""
    rest = math.log1p(-sampling_rate) if sampling_rate < 1 else -math.inf
    likelihood_ratio = u / noise_multiplier - 0.5 / noise_multiplier**2
    return np.logaddexp(rest, math.log(sampling_rate) + likelihood_ratio)


@lru_cache(maxsize=1024)
def _deviation(noise_multiplier: float, sampling_rate: float) -> float:
    """Return the standard deviation of the loss of one release without the example."""
    loss = _loss(noise_multiplier, sampling_rate, _NODES)
    weights = _WEIGHTS / _WEIGHTS.sum()
    return float(np.sqrt(weights @ (loss - weights @ loss) ** 2))


def _interval(releases: Releases, choices: Choices) -> float:
    """Return the grid interval that resolves the root mean square deviation of the losses."""
    variances = [(_deviation(z, q) ** 2, count) for z, q, count in releases]
    variances += [((epsilon / math.cosh(min(epsilon, 50) / 2)) ** 2, n) for epsilon, n in choices]
    mean = math.fsum(v * n for v, n in variances) / sum(n for _, n in variances)
    widths = [float(np.ptp(_loss(z, q, np.array([-TAIL, TAIL + 1 / z])))) for z, q, _ in releases]
    widths += [2 * epsilon for epsilon, _ in choices]
    # Two digits, so that a history that grows keeps its grid and its cached distributions.
    interval = float(f"{max(RESOLUTION * math.sqrt(mean), max(widths) / MAX_POINTS):.2g}")
    smallest = min((epsilon for epsilon, _ in choices), default=0.0)
    if smallest >= interval:  # on the grid, a choice is represented exactly
        interval = smallest / math.ceil(smallest / interval)
    return interval


def _hockey_sticks(noise_multiplier: float, sampling_rate: float, losses: Any, *, add: bool) -> Any:
    """Return delta at each of `losses` as epsilon, for one release.

    With u the cut above which removing the example shows (below which adding it does), it is a
    difference of normal probabilities; where no output has so large a loss it has no cut.
    """
    z, q = noise_multiplier, sampling_rate
    signed = -losses if add else losses
    rest = math.log1p(-q) if q < 1 else -math.inf
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        cut = z * (signed + np.log(-np.expm1(rest - signed)) - math.log(q)) + 0.5 / z
        if add:
            lower = (1 - q) * np.exp(losses + log_ndtr(cut)) + q * np.exp(
                losses + log_ndtr(cut - 1 / z)
            )
            deltas, beyond = ndtr(cut) - lower, 0.0
        else:
            upper = (1 - q) * ndtr(-cut) + q * ndtr(1 / z - cut)
            deltas, beyond = upper - np.exp(losses + log_ndtr(-cut)), -np.expm1(losses)
    return np.clip(np.where(signed > rest, deltas, beyond), 0.0, 1.0)


@lru_cache(maxsize=64)
def _release(noise_multiplier: float, sampling_rate: float, interval: float) -> Any:
    """Return the distribution of one release, as dp-accounting's from_gaussian_mechanism does.

    That function inverts the loss in a Python loop, which takes ten times as long.
    """

    def masses(*, add: bool) -> Any:
        ends = np.sort(
            (-1 if add else 1)
            * _loss(noise_multiplier, sampling_rate, np.array([-TAIL, TAIL + 1 / noise_multiplier]))
        )
        first, last = math.floor(ends[0] / interval), math.ceil(ends[1] / interval)
        deltas = _hockey_sticks(
            noise_multiplier, sampling_rate, np.arange(first, last + 1) * interval, add=add
        )
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, first, last, deltas)

    if sampling_rate == 1:
        return privacy_loss_distribution.PrivacyLossDistribution(masses(add=False))
    return privacy_loss_distribution.PrivacyLossDistribution(masses(add=False), masses(add=True))


def _choice(epsilon: float, interval: float) -> Any:
    """Return the distribution that dominates every `epsilon`-DP choice, on the grid.

    The loss is epsilon with probability 1/(1 + e^-epsilon), else -epsilon. dp-accounting's
    from_privacy_parameters rounds both up to the grid, which costs an interval for each choice;
    connecting the dots costs a square of it.
    """
    scaled = epsilon / interval
    grid = np.unique(
        [math.floor(-scaled), math.ceil(-scaled), math.floor(scaled), math.ceil(scaled)]
    )
    losses = grid * interval
    likely = 1 / (1 + math.exp(-epsilon))
    deltas = np.where(
        losses < -epsilon,
        -np.expm1(losses),
        likely * np.maximum(-np.expm1(losses - epsilon), 0.0),
    )
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


@lru_cache(maxsize=256)
def _repeated(noise_multiplier: float, sampling_rate: float, interval: float, count: int) -> Any:
    """Return the distribution of `count` releases, which many histories have in common."""
    return _release(noise_multiplier, sampling_rate, interval).self_compose(count)


@lru_cache(maxsize=256)
def _composed(releases: Releases, choices: Choices) -> Any:
    """Return the distribution of a whole history."""
    interval = _interval(releases, choices)
    with np.errstate(over="ignore", under="ignore"):
        parts = [_repeated(z, q, interval, count) for z, q, count in releases]
        parts += [_choice(epsilon, interval).self_compose(count) for epsilon, count in choices]
        total = parts[0]
        for part in parts[1:]:
            total = total.compose(part)
    return total


def _distribution(events: Sequence[PrivacyEvent]) -> Any:
    """Return the distribution of `events`, None if there is nothing to charge.

    Unsampled Gaussians compose exactly into one: 1/z^2 adds up.
    """
    sampled: Counter[tuple[float, float]] = Counter()
    choices: Counter[float] = Counter()
    precisions: list[float] = []
    for event in composable(events):
        if isinstance(event, PureDPChoice | LaplaceVector):
            choices[event.epsilon] += 1
        elif event.sampling_rate < 1:
            sampled[event.noise_multiplier, event.sampling_rate] += event.steps
        else:
            precisions.append(event.steps / event.noise_multiplier**2)
    releases = [(z, q, count) for (z, q), count in sorted(sampled.items())]
    if precisions:
        releases.append((1 / math.sqrt(math.fsum(precisions)), 1.0, 1))
    if not releases and not choices:
        return None
    return _composed(tuple(releases), tuple(sorted(choices.items())))


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class PldAccountant:
    """Privacy loss distribution accountant: sound and tight, tens of milliseconds a history."""

    name: ClassVar[str] = "pld"
    sound: ClassVar[bool] = True

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        """Return the epsilon at `delta` of all events together; 0 for no events.

        Raises:
            AccountingError: The events do not compose, or delta is not in [1e-12, 1).
        """
        check_delta(delta)
        if delta < MIN_DELTA:
            raise AccountingError(
                f"delta = {delta}: the pld accountant resolves {MIN_DELTA} and larger; use rdp"
            )
        distribution = _distribution(events)
        return 0.0 if distribution is None else float(distribution.get_epsilon_for_delta(delta))

    def delta(self, events: Sequence[PrivacyEvent], epsilon: float) -> float:
        """Return the delta at `epsilon` >= 0 of all events together; 0 for no events.

        Raises:
            AccountingError: The events do not compose, or epsilon is out of range.
        """
        check_epsilon(epsilon)
        distribution = _distribution(events)
        if distribution is None:
            return 0.0
        return float(np.clip(distribution.get_delta_for_epsilon(epsilon), 0.0, 1.0))


def epsilons(
    histories: Mapping[int, Sequence[PrivacyEvent]], delta: float, points: int = 100
) -> dict[int, float]:
    """Return the epsilon of many clients at a bounded cost.

    Where the noise multipliers at one sampling rate take more than `points` values, each is rounded
    down on a logarithmic grid of `points` values: sound, and at most a few per cent high.

    Args:
        histories: Events of each client.
        delta: In [1e-12, 1).
        points: How many noise multipliers are distinguished for each sampling rate, at least 2.

    Returns:
        Epsilon of each client.
    """
    by_rate: dict[float, set[float]] = {}
    for events in histories.values():
        for event in events:
            if isinstance(event, SampledGaussian):
                by_rate.setdefault(event.sampling_rate, set()).add(event.noise_multiplier)
    grids = {q: _grid(values, points) for q, values in by_rate.items() if len(values) > points}

    def coarse(event: PrivacyEvent) -> PrivacyEvent:
        if not isinstance(event, SampledGaussian) or event.sampling_rate not in grids:
            return event
        grid = grids[event.sampling_rate]
        index = int(np.searchsorted(grid, event.noise_multiplier, side="right")) - 1
        return replace(event, noise_multiplier=float(grid[index]))

    rounded = {client: [coarse(e) for e in events] for client, events in histories.items()}
    return epsilon_by_client(PldAccountant(), rounded, delta)


def _grid(values: set[float], points: int) -> Any:
    """Return `points` values from the smallest of `values` to the largest, evenly in logarithm."""
    low, high = min(values), max(values)
    grid = np.geomspace(low, high, points)
    grid[0] = low
    return grid
