"""A monetary budget instead of eta.

Solving for the total cost at the realised reports would break the incentives: a client's budget may
then rise with its own report. So eta is chosen once, on the public prior, such that the expected
payments are the budget, and kept whatever the reports.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from fedgame.games.procurement.base import Mechanism, Terms, require_positive
from fedgame.games.procurement.prior import Prior

STEP = math.log(8.0)
LARGEST_LOG_ETA = 35.0
"""With an eta as large as e^35 every budget is at the cap."""

TOLERANCE = 1e-4
"""Accuracy of eta, relatively: a hundredth of the sampling error that a few hundred draws leave."""


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
    terms: Terms,
    rng: np.random.Generator,
    draws: int = 200,
) -> Calibration:
    """Return the eta at which the expected payments are the budget.

    The expected sum of the payments is that of the v_k epsilon_k, with the costs themselves in
    place of the v_k under complete information. It does not fall in eta, at given draws; where it
    jumps over the budget, eta is that of the jump.

    Args:
        mechanism: The mechanism.
        budget: Expected sum of the payments, > 0.
        prior: What is known about each client's sensitivity.
        num_clients: N.
        terms: The server's terms; their eta is where the search starts.
        rng: Generator of the draws of N sensitivities.
        draws: Number of draws, at least 2.

    Raises:
        ValueError: The budget is not positive, there is no client or fewer than 2 draws, or the
            budget is more than the clients cost with all privacy budgets at the cap.
    """
    require_positive("budget", budget)
    if draws < 2:
        raise ValueError(f"draws = {draws}: must be at least 2")
    if num_clients < 1:
        raise ValueError(f"num_clients = {num_clients}: must be at least 1")
    samples = [prior.draw(rng, (num_clients,)) for _ in range(draws)]
    if not mechanism.complete_information:
        samples = [prior.virtual_cost(sample) for sample in samples]

    @functools.cache
    def costs(log_eta: float) -> list[float]:
        changed = replace(terms, eta=math.exp(log_eta))
        return [float(sample @ mechanism.choose(sample, changed).budgets) for sample in samples]

    def excess(log_eta: float) -> float:
        return math.log(float(np.mean(costs(log_eta))) / budget)

    if math.isfinite(terms.epsilon_max):
        most = float(np.mean(costs(LARGEST_LOG_ETA)))
        if budget > most:
            raise ValueError(
                f"budget = {budget}: must be at most {most:.6g}, what the clients are expected to "
                f"cost with every privacy budget at epsilon_max = {terms.epsilon_max}"
            )
    low = high = math.log(terms.eta)
    while excess(low) > 0:
        low -= STEP
    while excess(high) < 0:
        high += STEP
    log_eta = scipy.optimize.brentq(excess, low, high, xtol=TOLERANCE) if low < high else low
    found = costs(log_eta)
    error = float(np.std(found, ddof=1)) / math.sqrt(draws)
    return Calibration(math.exp(log_eta), float(np.mean(found)), error)
