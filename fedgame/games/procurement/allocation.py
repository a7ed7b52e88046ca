"""From reports to the record of a mechanism: choice, payments, certificate."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.procurement.base import (
    Allocation,
    Mechanism,
    Terms,
    check_costs,
    check_values,
)
from fedgame.games.procurement.certificate import certify, objective
from fedgame.games.procurement.payments import ex_post_payments
from fedgame.games.procurement.prior import Prior


def allocate(
    mechanism: Mechanism,
    reports: ArrayLike,
    prior: Prior,
    terms: Terms,
    *,
    payments: bool = True,
) -> Allocation:
    """Return what a mechanism does at the clients' reports.

    Args:
        mechanism: The mechanism.
        reports: The reported sensitivities c_k, shape (clients,).
        prior: What is known about each c_k beforehand.
        terms: The server's terms.
        payments: Whether to compute the ex-post payments, which takes most of the time.

    Raises:
        ValueError: A report is missing, negative, not finite or outside the prior's support, or a
            virtual cost is 0 without a finite cap.

    >>> from scipy import stats
    >>> from fedgame.games.procurement.jsam import Jsam
    >>> from fedgame.games.procurement.virtual_cost import make_prior
    >>> prior = make_prior(stats.uniform(0, 1))
    >>> bought = allocate(Jsam(), [0.1, 0.2, 0.4, 0.6, 0.9], prior, Terms(eta=1.0))
    >>> bought.budgets.round(3).tolist()
    [0.887, 0.444, 0.352, 0.308, 0.0]
    >>> bought.payments.round(3).tolist()
    [0.385, 0.296, 0.273, 0.253, 0.0]
    """
    virtual_costs = prior.virtual_cost(reports)
    if mechanism.complete_information:
        virtual_costs = check_values(reports, "report")
    costs = check_costs(virtual_costs, terms)
    choice = mechanism.choose(costs, terms)
    p, budgets = choice.probabilities, choice.budgets
    return Allocation(
        mechanism=mechanism.name,
        virtual_costs=virtual_costs,
        probabilities=p,
        budgets=budgets,
        payments=ex_post_payments(mechanism, reports, prior, terms) if payments else None,
        expected_cost=float((costs * budgets).sum()),
        objective=float(objective(choice, costs, terms)),
        threshold=int(np.count_nonzero(p)),
        distance=float(np.abs(p - 1 / len(p)).sum()),
        power_sum=float((np.cbrt(p * costs) ** 2).sum()),
        cap_binds=bool((budgets >= terms.epsilon_max).any()),
        ironed=prior.ironed and not mechanism.complete_information,
        certificate=certify(
            choice, costs, terms, optimises_selection=mechanism.optimises_selection
        ),
    )
