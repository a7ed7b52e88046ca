"""The Rényi accountant: composition of events, and conversion to (epsilon, delta).

The conversion is Proposition 12 of Canonne, Kamath, Steinke, "The Discrete Gaussian for
Differential Privacy", 2020, as in dp-accounting.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fedgame.accountants.base import accountable, compress
from fedgame.accountants.sampled_gaussian import DEFAULT_ORDERS, rdp_sampled_gaussian
from fedgame.errors import AccountingError
from fedgame.ledger.events import (
    ChargedEvent,
    LaplaceVector,
    PrivacyEvent,
    PureDPChoice,
    SampledGaussian,
)

__all__ = [
    "DEFAULT_ORDERS",
    "RdpAccountant",
    "check_delta",
    "check_epsilon",
    "composable",
    "delta_from_rdp",
    "epsilon_from_rdp",
    "gaussian_epsilon",
    "rdp_of_history",
    "rdp_pure",
    "rdp_sampled_gaussian",
]

FloatArray = NDArray[np.float64]

MIN_ORDER = 1.01
"""Below this order the conversions to (epsilon, delta) are numerically unstable and useless."""

BLOCK = 4096
"""How many clients are converted in one array."""


def composable(events: Sequence[PrivacyEvent]) -> tuple[ChargedEvent, ...]:
    """Return the events that cost something, after refusing what cannot be composed soundly.

    Args:
        events: One client's history; releases without any guarantee are dropped, since reports list
            them by themselves, and so are those that cost nothing.

    Raises:
        AccountingError: An event of unknown type, events under different neighbour relations, or a
            sampling rate below 1 under a relation other than "example" (who takes part is public).
    """
    known: list[ChargedEvent] = []
    for event in accountable(events):
        if not isinstance(event, ChargedEvent):
            raise AccountingError(f"unknown event {type(event).__name__}: no accountant charges it")
        if isinstance(event, SampledGaussian):
            _check_release(event)
        known.append(event)
    relations = sorted({event.neighbours for event in known})
    if len(relations) > 1:
        raise AccountingError(
            "events under different neighbour relations do not compose: " + ", ".join(relations)
        )
    return tuple(e for e in known if not (isinstance(e, LaplaceVector) and e.epsilon == 0))


def _check_release(event: SampledGaussian) -> None:
    if event.sampling_rate < 1 and event.neighbours != "example":
        raise AccountingError(
            f"sampling_rate = {event.sampling_rate} under neighbours {event.neighbours!r}: "
            "who takes part is public, so there is no amplification (only 1 is allowed)"
        )


def check_delta(delta: float) -> None:
    """Refuse a delta outside (0, 1), NaN included."""
    if not 0 < delta < 1:
        raise AccountingError(f"delta = {delta}: must be in (0, 1)")


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is negative or not finite."""
    if not 0 <= epsilon < np.inf:
        raise AccountingError(f"epsilon = {epsilon}: must be finite and >= 0")


def rdp_pure(epsilon: float, orders: ArrayLike = DEFAULT_ORDERS) -> FloatArray:
    """Return the largest RDP that an `epsilon`-DP choice can have, which randomised response has.

    log(cosh((a - 1/2) epsilon) / cosh(epsilon / 2)) / (a - 1), always below `epsilon`.

    Args:
        epsilon: The choice's pure-DP budget, > 0.
        orders: Rényi orders > 1, shape (orders,).

    Returns:
        RDP in nats, shape (orders,).
    """
    a = np.asarray(orders, dtype=np.float64)

    def log_sinh(x: FloatArray) -> FloatArray:
        return np.asarray(x + np.log(-np.expm1(-2 * x)))

    log_cosh = epsilon / 2 + np.log1p(np.exp(-epsilon))
    excess = log_sinh(a * epsilon / 2) + log_sinh((a - 1) * epsilon / 2) - log_cosh
    return np.asarray(np.minimum(epsilon, np.logaddexp(0.0, excess) / (a - 1)))


def epsilon_from_rdp(rdp: ArrayLike, orders: ArrayLike, delta: float) -> FloatArray:
    """Return the smallest epsilon at `delta` over the orders.

    Args:
        rdp: RDP of the whole history, the orders as last axis.
        orders: Rényi orders > 1, shape (orders,).
        delta: In (0, 1).

    Returns:
        Epsilon, of the shape of `rdp` without its last axis.
    """
    check_delta(delta)
    r, a = np.asarray(rdp, dtype=np.float64), np.asarray(orders, dtype=np.float64)
    bound = r + np.log1p(-1 / a) - np.log(delta * a) / (a - 1)
    bound = np.where(a > MIN_ORDER, bound, np.inf)
    # Small divergences: delta <= sqrt(1 - exp(-KL)) gives (0, delta)-DP.
    bound = np.where(delta**2 + np.expm1(-r) > 0, 0.0, bound)
    return np.asarray(np.maximum(np.min(bound, axis=-1), 0.0))


def delta_from_rdp(rdp: ArrayLike, orders: ArrayLike, epsilon: float) -> FloatArray:
    """Return the smallest delta at `epsilon` over the orders.

    Args:
        rdp: RDP of the whole history, the orders as last axis.
        orders: Rényi orders > 1, shape (orders,).
        epsilon: Finite and >= 0.

    Returns:
        Delta, of the shape of `rdp` without its last axis.
    """
    check_epsilon(epsilon)
    r, a = np.asarray(rdp, dtype=np.float64), np.asarray(orders, dtype=np.float64)
    bound = (a - 1) * (r - epsilon + np.log1p(-1 / a)) - np.log(a)
    bound = np.where(a > MIN_ORDER, bound, np.inf)
    with np.errstate(divide="ignore"):  # nothing released: log 0, a delta of 0
        total_variation = 0.5 * np.log(-np.expm1(-r))
    log_delta = np.min(np.minimum(bound, total_variation), axis=-1)
    return np.asarray(np.exp(np.minimum(log_delta, 0.0)))


def gaussian_epsilon(
    noise_multiplier: ArrayLike, sampling_rate: ArrayLike, steps: ArrayLike, delta: float
) -> FloatArray:
    """Return the RDP epsilon of `steps` subsampled Gaussian releases, for many clients at once.

    Equal clients are computed once. All arrays broadcast against each other.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity of each client.
        sampling_rate: q of each client, in (0, 1].
        steps: Number of releases of each client, >= 0.
        delta: In (0, 1).

    Returns:
        Epsilon of each client, of the broadcast shape.

    Example:
        >>> round(float(gaussian_epsilon(4.8448052626, 1.0, 20, 1e-5)), 4)
        4.3141
    """
    z, q, t = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (noise_multiplier, sampling_rate, steps))
    )
    if not np.all((t >= 0) & np.isfinite(t)):
        raise AccountingError("steps: every value must be finite and >= 0")
    kinds, inverse = np.unique(
        np.stack([z.ravel(), q.ravel(), t.ravel()], axis=1), axis=0, return_inverse=True
    )
    epsilon = np.zeros(len(kinds))
    for start in range(0, len(kinds), BLOCK):
        part = kinds[start : start + BLOCK]
        rdp = part[:, 2:] * rdp_sampled_gaussian(part[:, 0], part[:, 1])
        epsilon[start : start + BLOCK] = epsilon_from_rdp(rdp, DEFAULT_ORDERS, delta)
    return np.asarray(epsilon[inverse.ravel()].reshape(z.shape))


@lru_cache(maxsize=4096)
def _rdp_of_event(
    noise_multiplier: float, sampling_rate: float, orders: tuple[float, ...]
) -> FloatArray:
    return rdp_sampled_gaussian(noise_multiplier, sampling_rate, orders)


def rdp_of_history(
    events: Sequence[PrivacyEvent], orders: tuple[float, ...] = DEFAULT_ORDERS
) -> FloatArray:
    """Return the RDP of a whole history, the sum over its events, shape (orders,).

    Raises:
        AccountingError: The events do not compose; see `composable`.
    """
    total = np.zeros(len(orders))
    for event, count in compress(composable(events)):
        if isinstance(event, SampledGaussian):
            total += count * _rdp_of_event(event.noise_multiplier, event.sampling_rate, orders)
        elif isinstance(event, PureDPChoice | LaplaceVector):
            total += count * rdp_pure(event.epsilon, orders)
    return total


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class RdpAccountant:
    """Rényi accountant over dp-accounting's default orders: sound, fast, a little loose."""

    name: ClassVar[str] = "rdp"
    sound: ClassVar[bool] = True

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        """Return the epsilon at `delta` in (0, 1) of all events together; 0 for no events.

        Raises:
            AccountingError: The events do not compose, or delta is out of range.
        """
        return float(epsilon_from_rdp(rdp_of_history(events), DEFAULT_ORDERS, delta))

    def delta(self, events: Sequence[PrivacyEvent], epsilon: float) -> float:
        """Return the delta at `epsilon` >= 0 of all events together; 0 for no events.

        Raises:
            AccountingError: The events do not compose, or epsilon is out of range.
        """
        return float(delta_from_rdp(rdp_of_history(events), DEFAULT_ORDERS, epsilon))
