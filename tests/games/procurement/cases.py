"""Mechanisms with terms under which they do different things, and priors of each kind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Mechanism, Terms
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.fixed_subset import Fsbm
from fedgame.games.procurement.jsam import Jsam
from fedgame.games.procurement.payments import ex_post_payments, rents
from fedgame.games.procurement.prior import Prior
from fedgame.games.procurement.uniform import Usbm
from fedgame.games.procurement.virtual_cost import make_prior

UNIFORM = make_prior(stats.uniform(0, 1))
PRIORS = {
    "uniform": UNIFORM,
    "beta": make_prior(stats.beta(2, 2)),
    "exponential": make_prior(stats.expon(scale=0.3)),
    "ironed": make_prior(stats.beta(0.5, 0.5)),
    "samples": make_prior(np.random.default_rng(5).random(40)),
}


class Case(NamedTuple):
    """A mechanism and the server's terms."""

    mechanism: Mechanism
    terms: Terms

    def sold(self, costs: FloatArray) -> FloatArray:
        """Return the budgets at virtual costs."""
        return self.mechanism.choose(costs, self.terms).budgets

    def paid(self, reports: FloatArray, prior: Prior) -> FloatArray:
        """Return the ex-post payments."""
        return ex_post_payments(self.mechanism, reports, prior, self.terms)

    def gains(
        self, reports: FloatArray, client: int, claims: FloatArray, prior: Prior
    ) -> FloatArray:
        """Return payment minus cost of a client at each claim in place of its report."""
        if not self.mechanism.eligible(len(reports))[client]:
            return np.zeros(claims.shape)
        costs = prior.virtual_cost(reports)
        low, high = prior.virtual_cost([prior.c_min, prior.c_max])
        curve = self.mechanism.curve(costs, client, low, high, self.terms)
        earned = rents(curve, prior, claims)
        sold = np.empty_like(claims)
        for place, cost in enumerate(prior.virtual_cost(claims)):
            costs[client] = cost
            sold[place] = self.sold(costs)[client]
        return np.asarray((claims - reports[client]) * sold + earned)


CASES = {
    "jsam": Case(Jsam(), Terms(1.0, epsilon_max=50)),
    "jsam capped": Case(Jsam(), Terms(1.0, epsilon_max=0.6)),
    "jsam rich": Case(Jsam(), Terms(20.0, epsilon_max=3)),
    "usbm": Case(Usbm(), Terms(2.0, epsilon_max=50)),
    "usbm capped": Case(Usbm(), Terms(2.0, epsilon_max=0.5)),
    "fsbm": Case(Fsbm(clients=3), Terms(2.0, epsilon_max=0.9)),
    "bbm": Case(
        Bbm(clients=3).at_losses([1.0, 9.0, 2.0, 5.0, 4.0]), Terms(2.0, 0.7, epsilon_max=0.9)
    ),
}
