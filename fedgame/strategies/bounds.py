"""How large an honest update can be, so that a larger one is rejected."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedgame.mechanisms.jko import Jko
from fedgame.strategies.settings import Experiment

_DEVIATIONS = 12.0
"""A normal draw is farther out with probability 4e-33: never, in any run."""


def update_bound(experiment: Experiment, parameters: NDArray[np.float32], strength: float) -> float:
    """Return a bound on the magnitude of every entry of an honest client's update.

    The averaged clipped gradient is at most C/q (a Poisson batch of all examples), noise at most
    twelve standard deviations; the prior and the variance penalty move an entry in proportion to
    the largest one, and a Sinkhorn projection stays within the range of the entries.

    Args:
        experiment: The experiment.
        parameters: The model that the round started from.
        strength: The largest strength that a client may use.
    """
    mechanism, training = experiment.mechanism, experiment.training
    step = mechanism.step_size
    push = step * training.clipping_norm / training.sampling_rate
    push += _DEVIATIONS * sqrt(2.0 * strength * step)
    growth = 1.0
    if isinstance(mechanism, Jko):
        growth = abs(1.0 - step * strength / mechanism.prior_std**2) + 2 * step * mechanism.lambda_
        growth = max(1.0, growth)
    start = float(np.abs(parameters).max(initial=0.0))
    largest = start
    for _ in range(training.local_steps):
        largest = growth * largest + push
    return start + largest
