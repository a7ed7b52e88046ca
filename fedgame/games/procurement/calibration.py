"""A monetary budget instead of eta.

Solving for the total cost at the realised reports would break the incentives: a client's budget may
then rise with its own report. So eta is chosen once, on the public prior, such that the expected
payments are the budget, and kept whatever the reports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from fedgame.games.procurement.base import Mechanism, require_positive
from fedgame.games.procurement.prior import Prior

STEP = math.log(8.0)
LARGEST_LOG_ETA = 35.0
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Calibration:
    """The eta of a budget.

    Attributes:
        eta: Weight of the bound on the training loss.
        expected_cost: Expected payments with this eta, by Monte Carlo.
        standard_error: Of the expected payments.
    """

    eta: float
    expected_cost: float
    standard_error: float


def calibrate_eta(
    mechanism: Mechanism,
    budget: float,
    prior: Prior,
    num_clients: int,
    rng: np.random.Generator,
    draws: int = 200,
) -> Calibration:
    """Return the eta at which the expected payments are the budget.

    The expected sum of the payments is that of the v_k epsilon_k, with the costs themselves in
    place of the v_k under complete information. It does not fall in eta, at given draws; where it
    jumps over the budget, eta is that of the jump.

    Args:
        mechanism: The mechanism, whose own eta is where the search starts.
        budget: Expected sum of the payments, > 0.
        prior: What is known about each client's sensitivity.
        num_clients: N.
        rng: Generator of the draws of N sensitivities.
        draws: Number of draws, at least 2.

    Raises:
        ValueError: The budget is not positive, there are fewer than 2 draws, or the budget is more
            than the clients cost with all budgets at the cap.
    """
    require_positive("budget", budget)
    if draws < 2:
        raise ValueError(f"draws = {draws}: must be at least 2")
    samples = [prior.draw(rng, (num_clients,)) for _ in range(draws)]
    if not mechanism.complete_information:
        samples = [prior.virtual_cost(sample) for sample in samples]

    def costs(log_eta: float) -> list[float]:
        changed: Any = replace(mechanism, eta=math.exp(log_eta))  # type: ignore[type-var]
        return [float((sample * changed.choose(sample).budgets).sum()) for sample in samples]

    def excess(log_eta: float) -> float:
        return math.log(float(np.mean(costs(log_eta))) / budget)

    low = high = math.log(mechanism.terms.eta)
    while excess(low) > 0:
        low -= STEP
    while excess(high) < 0:
        if high > LARGEST_LOG_ETA:
            most = float(np.mean(costs(high)))
            raise ValueError(
                f"budget = {budget}: must be below {most:.6g}, what the clients are expected to "
                f"cost at epsilon_max = {mechanism.terms.epsilon_max}"
            )
        high += STEP
    log_eta = brentq(excess, low, high, xtol=TOLERANCE) if low < high else low
    found = costs(log_eta)
    error = float(np.std(found, ddof=1)) / math.sqrt(draws)
    return Calibration(math.exp(log_eta), float(np.mean(found)), error)
