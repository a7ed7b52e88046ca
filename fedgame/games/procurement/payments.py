"""Payments under which no client gains by misreporting (JSAM paper, Lemma 2).

A client that reports z sells epsilon_k(z, c_-k), which does not rise in z if every choice is the
exact optimum. Paid c_k epsilon_k(c) and the integral of epsilon_k(z, c_-k) over z from c_k to
c_max, it does best to report its own sensitivity whatever the others report, and never loses. The
integral is what it earns beyond its cost, its information rent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.procurement.base import BudgetCurve, Mechanism, Terms
from fedgame.games.procurement.prior import Prior
from fedgame.games.procurement.quadrature import integrals


@dataclass(frozen=True)
class InterimPayments:
    """Payments with the others' reports averaged out.

    Attributes:
        payments: pi_k, shape (clients,).
        standard_errors: Of each, from the Monte Carlo draws, shape (clients,).
    """

    payments: FloatArray
    standard_errors: FloatArray


def ex_post_payments(
    mechanism: Mechanism, reports: ArrayLike, prior: Prior, terms: Terms
) -> FloatArray:
    """Return payments at the others' reports, shape (clients,).

    Truth-telling is a dominant strategy and no client loses, whatever the reports. Under complete
    information a client is paid its cost. Takes O(N) time a client.

    Args:
        mechanism: The mechanism.
        reports: c_k, shape (clients,).
        prior: What is known about each c_k.
        terms: The server's terms.

    Raises:
        ValueError: A report is outside the prior's support, or 0 without a finite cap.
    """
    virtual_costs = prior.virtual_cost(reports)
    sensitivities = np.asarray(reports, dtype=np.float64)
    if mechanism.complete_information:
        return np.asarray(sensitivities * mechanism.choose(sensitivities, terms).budgets)
    budgets = mechanism.choose(virtual_costs, terms).budgets
    payments = sensitivities * budgets
    highest = prior.virtual_cost([prior.c_max])[0]
    # budgets do not rise in a client's own report: one that sells nothing would sell nothing above
    for client in np.flatnonzero(budgets > 0):
        lowest = virtual_costs[client]
        curve = mechanism.curve(virtual_costs, int(client), lowest, highest, terms)
        payments[client] += rents(curve, prior, sensitivities[[client]])[0]
    return np.asarray(payments)


def interim_payments(
    mechanism: Mechanism,
    reports: ArrayLike,
    prior: Prior,
    terms: Terms,
    rng: np.random.Generator,
    draws: int = 200,
) -> InterimPayments:
    """Return payments with the rent averaged over the others' reports (JSAM paper, eq. 16).

    Truth-telling is a Bayesian Nash equilibrium under the prior. The cost c_k epsilon_k(c) is that
    of the budget bought at the reports; the rent is the expected one, also for a client that is not
    selected. Clients have one prior and are treated alike, so that one draw of N - 1 reports serves
    all.

    Args:
        mechanism: The mechanism, not with complete information.
        reports: c_k, shape (clients,).
        prior: What is known about each c_k.
        terms: The server's terms.
        rng: Generator of the draws.
        draws: Number of draws, at least 2.

    Raises:
        ValueError: As for `ex_post_payments`, or there are fewer than 2 draws.
    """
    if draws < 2:
        raise ValueError(f"draws = {draws}: must be at least 2")
    virtual_costs = prior.virtual_cost(reports)
    sensitivities = np.asarray(reports, dtype=np.float64)
    budgets = mechanism.choose(virtual_costs, terms).budgets
    eligible = mechanism.eligible(len(sensitivities))
    client = int(np.argmax(eligible))
    highest = prior.virtual_cost([prior.c_max])[0]
    lowest = virtual_costs[eligible].min()
    samples = np.zeros((draws, len(sensitivities)))
    for sample in samples:
        others = prior.virtual_cost(prior.draw(rng, (len(sensitivities),)))
        curve = mechanism.curve(others, client, lowest, highest, terms)
        sample[eligible] = rents(curve, prior, sensitivities[eligible])
    return InterimPayments(
        sensitivities * budgets + samples.mean(axis=0),
        samples.std(axis=0, ddof=1) / np.sqrt(draws),
    )


def rents(curve: BudgetCurve, prior: Prior, sensitivities: FloatArray) -> FloatArray:
    """Return the integral of a curve's budgets from each sensitivity to the largest one.

    Args:
        curve: A client's budgets by virtual cost.
        prior: The prior, which relates sensitivities to virtual costs.
        sensitivities: Lower limits, shape (limits,).
    """
    edges, place = np.unique(np.append(sensitivities, prior.c_max), return_inverse=True)
    if len(prior.steps):
        parts = _sums_over_steps(curve, prior, edges)
    else:
        kinks = prior.kinks[(prior.kinks > edges[0]) & (prior.kinks < edges[-1])]
        fine = np.union1d(edges, kinks)
        pieces = integrals(_BySensitivity(curve, prior), fine)
        parts = (
            np.add.reduceat(pieces, np.searchsorted(fine, edges[:-1])) if len(pieces) else pieces
        )
    from_edge = np.append(np.cumsum(parts[::-1])[::-1], 0.0)
    return np.asarray(from_edge[place[:-1]])


@dataclass(frozen=True)
class _BySensitivity:
    """A curve as a function of the sensitivity instead of the virtual cost.

    Attributes:
        curve: The curve.
        prior: What relates the two.
    """

    curve: BudgetCurve
    prior: Prior

    def __call__(self, z: FloatArray) -> tuple[FloatArray, IntArray]:
        return self.curve(self._virtual_cost(z))

    def narrowed(self, low: float, high: float) -> _BySensitivity:
        first, last = self._virtual_cost(np.array([low, high]))
        return _BySensitivity(self.curve.narrowed(first, last), self.prior)

    def _virtual_cost(self, z: FloatArray) -> FloatArray:
        # a power of a root may differ from the number in its last bit
        return self.prior.virtual_cost(np.clip(z, self.prior.c_min, self.prior.c_max))


def _sums_over_steps(curve: BudgetCurve, prior: Prior, edges: FloatArray) -> FloatArray:
    """Integrate between edges where virtual costs, and so budgets, are constant up to each step."""
    fine = np.union1d(edges, prior.steps[prior.steps > edges[0]])
    if len(fine) == 1:
        return np.array([])
    budgets, _ = curve(prior.virtual_cost(fine[1:]))
    return np.add.reduceat(np.diff(fine) * budgets, np.searchsorted(fine, edges[:-1]))
