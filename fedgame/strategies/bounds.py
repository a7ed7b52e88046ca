"""How large an honest update can be, so that a larger one is rejected."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedgame.errors import InvalidReply
from fedgame.mechanisms.jko import Jko
from fedgame.messages.training import TrainOrder, TrainReply
from fedgame.strategies.aggregation import FRACTION_BITS, SUM_LIMIT, to_float
from fedgame.strategies.burn_in import burns_in
from fedgame.strategies.settings import Experiment

FloatArray = NDArray[np.float64]

DEVIATIONS = 12.0
"""A normal draw is farther out with probability 4e-33: never, in any run."""


ROUNDING = 1e-4
"""Relative slack where no noise gives any: gradients are clipped in single precision."""


@dataclass(frozen=True)
class UpdateBound:
    """What the update of one honest client does not exceed.

    Attributes:
        entries: Magnitude of each entry, shape (parameters,).
        norm: Euclidean norm.
    """

    entries: FloatArray
    norm: float


def update_bound(
    experiment: Experiment,
    parameters: NDArray[np.float32],
    tensor_sizes: list[int],
    strength: float,
) -> UpdateBound:
    """Return a bound on an honest client's update in one round.

    A step moves the state by at most step size times C/q (a Poisson batch of all examples), by
    noise of at most twelve standard deviations, and by the pull of prior and variance penalty, in
    proportion to the state. A Sinkhorn projection stays within the range of a small tensor.

    Args:
        experiment: The experiment.
        parameters: The model that the round started from.
        tensor_sizes: Sizes of its tensors, in order.
        strength: The largest strength that a client may use.
    """
    mechanism, training = experiment.mechanism, experiment.training
    if burns_in(experiment):
        return _noiseless_bound(experiment, len(parameters))
    step = mechanism.step_size
    gradient = step * training.clipping_norm / training.sampling_rate
    deviation = sqrt(2.0 * strength * step)
    push = gradient + DEVIATIONS * deviation
    push_norm = gradient + deviation * (sqrt(len(parameters)) + DEVIATIONS)
    pull, projected = 0.0, np.zeros(len(parameters))
    if isinstance(mechanism, Jko):
        pull = step * (strength / mechanism.prior_std**2 + 2 * mechanism.lambda_)
        if mechanism.sinkhorn:
            small = [float(size <= mechanism.sinkhorn_cap) for size in tensor_sizes]
            projected = 2.0 * np.repeat(small, tensor_sizes)
    largest = float(np.abs(parameters).max(initial=0.0))
    norm = float(np.linalg.norm(parameters.astype(np.float64)))
    entries, total = np.zeros(len(parameters)), 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(training.local_steps):
            moved, moved_norm = pull * largest + push, pull * norm + push_norm
            entries = entries + moved + projected * (largest + moved)
            total += moved_norm + float(projected.max(initial=0.0)) * (norm + moved_norm)
            largest, norm = largest + moved, norm + moved_norm
    return UpdateBound(entries, total)


def _noiseless_bound(experiment: Experiment, size: int) -> UpdateBound:
    """Return the bound on steps of a clipped gradient alone, as on particles that burnt in."""
    training = experiment.training
    push = experiment.burn_in.learning_rate * training.clipping_norm / training.sampling_rate
    norm = (1 + ROUNDING) * training.local_steps * push
    return UpdateBound(np.full(size, norm), norm)


def check_update(reply: TrainReply, order: TrainOrder, bound: UpdateBound) -> None:
    """Compare a node's sum with what its used clients could have sent.

    Raises:
        InvalidReply: The sum is larger than any honest one.
    """
    weight, count = float(order.weights[reply.used].sum()), int(reply.used.sum())
    # each client's term is rounded once to a unit of the fixed-point grid
    slack = count * 2.0**-FRACTION_BITS
    entries = np.minimum(weight * bound.entries + slack, SUM_LIMIT * 2.0**-FRACTION_BITS)
    update = to_float(reply.update)
    norm = weight * bound.norm + slack * sqrt(len(update))
    if not (np.abs(update) <= entries).all() or not float(np.linalg.norm(update)) <= norm:
        raise InvalidReply("the update is larger than any honest one")
