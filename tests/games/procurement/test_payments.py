"""Payments against the envelope theorem, sums over types, and averages over the others' types.

The derivative of the least objective by client k's virtual cost is epsilon_k, so that for uniform
types, v = 2c, the integral of epsilon_k over c is half a difference of objectives: no quadrature.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.complete_information import JsamCi
from fedgame.games.procurement.jsam import Jsam
from fedgame.games.procurement.payments import interim_payments
from fedgame.games.procurement.virtual_cost import make_prior
from tests.games.procurement.cases import CASES, PRIORS, UNIFORM, Case
from tests.games.procurement.judge import objective

REPORTS = np.array([0.31, 0.06, 0.42, 0.6, 0.93])


def by_envelope(case: Case, reports: FloatArray) -> FloatArray:
    """Return payments for uniform types from objectives alone."""
    costs = 2 * reports
    here = case.mechanism.choose(costs, case.terms)
    payments = reports * here.budgets
    for client in np.flatnonzero(here.budgets):
        highest = costs.copy()
        highest[client] = 2
        there = objective(case.mechanism.choose(highest, case.terms), highest, case.terms)
        payments[client] += (there - objective(here, costs, case.terms)) / 2
    return payments


@pytest.mark.parametrize("n", [1, 2, 5, 12])
@pytest.mark.parametrize("name", ["jsam", "jsam capped", "jsam rich", "usbm", "usbm capped"])
def test_payments_are_differences_of_objectives(name: str, n: int) -> None:
    reports = np.random.default_rng(n).random(n)
    found = CASES[name].paid(reports, UNIFORM)
    assert found == pytest.approx(by_envelope(CASES[name], reports), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_where_the_cap_binds_payments_are_differences_of_objectives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reports = rng.random(int(rng.integers(2, 9)))
    terms = Terms(10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1.5, 0))
    case = Case(Jsam(), terms)
    expected = by_envelope(case, reports)
    assert case.paid(reports, UNIFORM) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("reports", "terms"),
    [
        ([0.0409735, 0.0165276, 0.81327024, 0.91275558, 0.60663578], Terms(1.0, 1.0, 0.6)),
        ([0.9, 1.0, 0.8, 0.5, 0.6, 0.2], Terms(0.5881843151330217, 1.1017505678706574, 0.2357332)),
    ],
)
def test_forms_that_tie_but_for_rounding_over_a_range_are_no_jumps(
    reports: list[float], terms: Terms
) -> None:
    case = Case(Jsam(), terms)
    found = case.paid(np.array(reports), UNIFORM)
    assert found == pytest.approx(by_envelope(case, np.array(reports)), rel=1e-10, abs=1e-12)


def test_a_client_that_costs_nothing_is_paid_for_what_it_sells() -> None:
    reports = np.array([0.0, 0.3, 0.8])
    case = Case(Jsam(), Terms(1.0, epsilon_max=4.0))
    payments = case.paid(reports, UNIFORM)
    assert case.sold(2 * reports)[0] == 4
    assert payments == pytest.approx(by_envelope(case, reports))
    assert payments[0] > 0


def test_one_client_by_hand() -> None:
    # N = 1: epsilon = (eta/v)^(1/2) Q^(1/4) with v = 2z, the integral of z^(-1/2)
    [payment] = Case(Jsam(), Terms(3.0, 2.0, 1e6)).paid(np.array([0.09]), UNIFORM)
    scale = np.sqrt(3 / 2) * 2**0.25
    assert payment == pytest.approx(scale * (0.09 / 0.3 + 2 * (1 - 0.3)), rel=1e-11)


def test_the_dearest_type_earns_nothing_beyond_its_cost() -> None:
    reports = np.array([1.0, 0.4])
    case = CASES["usbm"]
    assert case.paid(reports, UNIFORM)[0] == pytest.approx(case.sold(2 * reports)[0], rel=1e-15)


def test_with_samples_payments_are_sums_over_types() -> None:
    samples = [0.1, 0.2, 0.2, 0.4, 0.7, 0.7, 0.9]
    prior, case = make_prior(samples), CASES["jsam"]
    reports = np.array([0.2, 0.1, 0.4, 0.9])
    types = np.unique(samples)
    costs = prior.virtual_cost(reports)
    found = case.paid(reports, prior)
    for client, report in enumerate(reports):
        payment = report * case.sold(costs)[client]
        for low, high in pairwise(types):
            if low >= report:
                changed = costs.copy()
                changed[client] = prior.virtual_cost([high])[0]
                payment += (high - low) * case.sold(changed)[client]
        assert found[client] == pytest.approx(payment, rel=1e-12)


def test_under_complete_information_costs_are_paid() -> None:
    informed, terms = Case(JsamCi(), Terms(1.0)), Terms(1.0)
    payments = informed.paid(REPORTS, UNIFORM)
    assert payments == pytest.approx(REPORTS * informed.sold(REPORTS), rel=1e-15)
    assert payments.sum() < Case(Jsam(), terms).paid(REPORTS, UNIFORM).sum()


@pytest.mark.parametrize("name", ["jsam", "fsbm"])
def test_interim_payments_are_ex_post_payments_with_the_others_drawn(name: str) -> None:
    case, draws = CASES[name], 60
    rng = np.random.default_rng(0)
    found = interim_payments(case.mechanism, REPORTS, UNIFORM, case.terms, rng, draws=draws)
    rents = found.payments - REPORTS * case.sold(2 * REPORTS)
    rng = np.random.default_rng(1)
    for client in (1, 2):
        ours = []
        for _ in range(draws):
            reports = rng.random(5)
            reports[client] = REPORTS[client]
            ours.append(case.gains(reports, client, reports[[client]], UNIFORM)[0])
        error = np.hypot(np.std(ours) / np.sqrt(draws), found.standard_errors[client])
        assert abs(rents[client] - np.mean(ours)) < 4 * error
        assert error < 0.2 * rents[client]
    order = np.argsort(REPORTS)
    assert (np.diff(rents[order]) < 0).all()  # lower types earn more
    assert (rents > 0).all()


def test_interim_payments_are_reproducible_and_leave_outsiders_out() -> None:
    bbm = CASES["bbm"]
    one, two = (
        interim_payments(
            bbm.mechanism, REPORTS, UNIFORM, bbm.terms, np.random.default_rng(4), draws=5
        )
        for _ in range(2)
    )
    assert np.array_equal(one.payments, two.payments)
    assert ((one.payments > 0) == bbm.mechanism.eligible(5)).all()


def test_interim_payments_need_two_draws() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="draws = 1: must be at least 2"):
        interim_payments(Jsam(), REPORTS, UNIFORM, Terms(1.0, epsilon_max=9), rng, draws=1)


@pytest.mark.parametrize("kind", sorted(PRIORS))
def test_reports_are_checked(kind: str) -> None:
    with pytest.raises(ValueError, match=r"report of client 1 = 9\.0: must be from 0\.0 to"):
        CASES["jsam"].paid(np.array([0.2, 9.0]), PRIORS[kind])
