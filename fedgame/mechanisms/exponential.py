"""The exponential mechanism: a private choice from a grid, and what it costs."""

from __future__ import annotations

from math import exp, expm1, log, log1p

import numpy as np
from numpy.typing import NDArray

from fedgame.errors import FedgameError
from fedgame.ledger.events import Neighbours, PureDPChoice

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CHOICE_MECHANISM = "exponential"
"""The mechanism's name in the ledger."""


def choice_probabilities(
    utilities: FloatArray, epsilon: float, sensitivity: float | FloatArray, *, monotone: bool
) -> FloatArray:
    """Return P ~ exp(-epsilon U / (2 Delta)), which is epsilon-DP (McSherry, Talwar 2007).

    Args:
        utilities: Disutility U of each option, to be minimised, shape (options,), or one row a
            client, shape (clients, options).
        epsilon: Budget of the choice, > 0.
        sensitivity: Delta > 0, by how much one example or client moves any entry of U; one number,
            or one a client, shape (clients,).
        monotone: Whether adding one can only raise all entries (or only lower them); then
            P ~ exp(-epsilon U / Delta) is epsilon-DP already.

    Raises:
        ValueError: The budget or a sensitivity is not positive.
        FedgameError: An entry of U is not finite.
    """
    deltas = np.asarray(sensitivity, dtype=np.float64)
    if not (epsilon > 0 and (deltas > 0).all()):
        raise ValueError(f"epsilon = {epsilon}, sensitivity = {sensitivity}: both must be > 0")
    if utilities.shape[-1] == 0 or not np.all(np.isfinite(utilities)):
        # The number itself depends on data, so the message does not repeat it.
        raise FedgameError("cannot choose from the grid: a disutility is not a finite number")
    scale = epsilon / (deltas if monotone else 2.0 * deltas)
    # Only differences matter: the best option gets weight 1, so the sum cannot vanish.
    best = np.min(utilities, axis=-1, keepdims=True)
    weights = np.exp(-scale[..., None] * (utilities - best))
    probabilities: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return probabilities


def exponential_choices(
    utilities: FloatArray,
    epsilon: float,
    sensitivities: FloatArray,
    uniform: FloatArray,
    *,
    monotone: bool,
) -> IntArray:
    """Draw one option a client from `choice_probabilities`, with one uniform number each.

    Args:
        utilities: Disutility of each client's options, to be minimised, shape (clients, options).
        epsilon: Budget of each choice.
        sensitivities: By how much one example or client moves any entry of a client's utilities,
            shape (clients,).
        uniform: Each client's secret number in [0, 1), shape (clients,).
        monotone: See `choice_probabilities`.

    Returns:
        Indices of options, shape (clients,).
    """
    probabilities = choice_probabilities(utilities, epsilon, sensitivities, monotone=monotone)
    bounds = np.cumsum(probabilities, axis=-1)
    # Rounding may leave the last bound below 1; dividing by it makes it exactly 1.
    return np.asarray((bounds / bounds[:, -1:] <= uniform[:, None]).sum(axis=1), dtype=np.int64)


def epsilon_after_amplification(epsilon: float, sampling_rate: float) -> float:
    """Return ln(1 + q (e^epsilon - 1)), the cost of an epsilon-DP choice on a Poisson batch.

    Valid only where the batch is drawn for this choice alone.

    Args:
        epsilon: Budget of the choice on its batch.
        sampling_rate: q in (0, 1], the probability that an example is in the batch.
    """
    if epsilon > 1.0:
        # The same number, written so that no exponential overflows.
        return epsilon + log1p((1.0 - sampling_rate) * expm1(-epsilon))
    return log1p(sampling_rate * expm1(epsilon))


def epsilon_before_amplification(target: float, sampling_rate: float) -> float:
    """Return the budget on a batch that costs `target`: `epsilon_after_amplification` inverted."""
    if target > 1.0:
        return target - log(sampling_rate) + log1p((sampling_rate - 1.0) * exp(-target))
    return log1p(expm1(target) / sampling_rate)


def choice_event(epsilon: float, sampling_rate: float, neighbours: Neighbours) -> PureDPChoice:
    """Return what an epsilon-DP choice on a Poisson batch of its own costs.

    Args:
        epsilon: Budget of the choice on its batch.
        sampling_rate: q; sampling examples hides an example and not a client, so that under the
            client relations the choice costs all of `epsilon`.
        neighbours: The relation under which the run is accounted.
    """
    rate = sampling_rate if neighbours == "example" else 1.0
    return PureDPChoice(
        epsilon=epsilon_after_amplification(epsilon, rate),
        neighbours=neighbours,
        mechanism=CHOICE_MECHANISM,
    )
