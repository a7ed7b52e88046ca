"""Payments against the envelope theorem, sums over types, and clients who misreport.

The derivative of the least objective by client k's virtual cost is epsilon_k, so that for uniform
types, v = 2c, the integral of epsilon_k over c is half a difference of objectives: no quadrature.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Mechanism
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.complete_information import JsamCi
from fedgame.games.procurement.fixed_subset import Fsbm
from fedgame.games.procurement.jsam import Jsam
from fedgame.games.procurement.payments import ex_post_payments, interim_payments
from fedgame.games.procurement.prior import Prior
from fedgame.games.procurement.uniform import Usbm
from fedgame.games.procurement.virtual_cost import make_prior
from tests.games.procurement.judge import objective

UNIFORM = make_prior(stats.uniform(0, 1))
PRIORS = {
    "uniform": UNIFORM,
    "beta": make_prior(stats.beta(2, 2)),
    "exponential": make_prior(stats.expon(scale=0.3)),
    "ironed": make_prior(stats.beta(0.5, 0.5)),
    "samples": make_prior(np.random.default_rng(5).random(40)),
}
MECHANISMS: dict[str, Mechanism] = {
    "jsam": Jsam(eta=1.0, epsilon_max=50),
    "jsam capped": Jsam(eta=1.0, epsilon_max=0.6),
    "jsam rich": Jsam(eta=20.0, epsilon_max=3),
    "usbm": Usbm(eta=2.0, epsilon_max=50),
    "usbm capped": Usbm(eta=2.0, epsilon_max=0.5),
    "fsbm": Fsbm(eta=2.0, epsilon_max=0.9, clients=3),
    "bbm": Bbm(eta=2.0, epsilon_max=0.9, clients=3).at_losses([1.0, 9.0, 2.0, 5.0, 4.0]),
}
REPORTS = np.array([0.31, 0.06, 0.42, 0.6, 0.93])


@pytest.fixture(params=sorted(MECHANISMS))
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    return MECHANISMS[request.param]


@pytest.fixture(params=sorted(PRIORS))
def prior(request: pytest.FixtureRequest) -> Prior:
    return PRIORS[request.param]


def by_envelope(mechanism: Mechanism, reports: FloatArray) -> FloatArray:
    """Return payments for uniform types from objectives alone."""
    costs = 2 * reports
    here = mechanism.choose(costs)
    payments = reports * here.budgets
    for client in np.flatnonzero(here.budgets):
        highest = costs.copy()
        highest[client] = 2
        there = objective(mechanism.choose(highest), highest, mechanism.terms)
        payments[client] += (there - objective(here, costs, mechanism.terms)) / 2
    return payments


@pytest.mark.parametrize("n", [1, 2, 5, 12])
@pytest.mark.parametrize("name", ["jsam", "jsam capped", "jsam rich", "usbm", "usbm capped"])
def test_payments_are_differences_of_objectives(name: str, n: int) -> None:
    reports = np.random.default_rng(n).random(n)
    found = ex_post_payments(MECHANISMS[name], reports, UNIFORM)
    expected = by_envelope(MECHANISMS[name], reports)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_no_misreport_gains_and_nobody_loses(mechanism: Mechanism, prior: Prior) -> None:
    reports = np.minimum(REPORTS, 0.98 * prior.c_max)
    payments = ex_post_payments(mechanism, reports, prior)
    budgets = mechanism.choose(prior.virtual_cost(reports)).budgets
    truthful = payments - reports * budgets
    assert (truthful >= -1e-12).all()
    for client in (0, 1, 3):
        for claim in np.linspace(prior.c_min, 0.999 * prior.c_max, 50):
            claims = reports.copy()
            claims[client] = claim
            paid = ex_post_payments(mechanism, claims, prior)[client]
            sold = mechanism.choose(prior.virtual_cost(claims)).budgets[client]
            gain = paid - reports[client] * sold - truthful[client]
            assert gain <= 1e-6 * max(payments[client], 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jsam", "jsam capped", "jsam rich"])
def test_no_misreport_on_a_fine_grid_gains(name: str) -> None:
    rng = np.random.default_rng(3)
    for n in (1, 2, 6):
        reports = rng.random(n)
        costs = 2 * reports
        mechanism = MECHANISMS[name]
        budgets = mechanism.choose(costs).budgets
        payments = ex_post_payments(mechanism, reports, UNIFORM)
        client = int(np.argmax(payments))
        truthful = payments[client] - reports[client] * budgets[client]
        for claim in np.linspace(1e-3, 1, 200):
            claims = reports.copy()
            claims[client] = claim
            paid = ex_post_payments(mechanism, claims, UNIFORM)[client]
            gain = paid - reports[client] * mechanism.choose(2 * claims).budgets[client] - truthful
            assert gain <= 1e-9 * payments[client]


def test_holding_the_total_cost_at_the_reports_would_invite_misreports() -> None:
    # what calibration is for: JSAM itself is safe at the very reports at which a fixed cost is not
    own, other = 0.006, 0.3
    claims = np.array([own, 0.04, 0.05, 0.0497, 0.2])
    gains = []
    for claim in claims:
        reports = np.array([claim, other])
        paid = ex_post_payments(MECHANISMS["jsam"], reports, UNIFORM)[0]
        gains.append(paid - own * MECHANISMS["jsam"].choose(2 * reports).budgets[0])
    assert np.argmax(gains) == 0


def test_a_client_that_costs_nothing_is_paid_for_what_it_sells() -> None:
    reports = np.array([0.0, 0.3, 0.8])
    payments = ex_post_payments(Jsam(eta=1.0, epsilon_max=4.0), reports, UNIFORM)
    budgets = Jsam(eta=1.0, epsilon_max=4.0).choose(2 * reports).budgets
    assert budgets[0] == 4
    assert payments == pytest.approx(by_envelope(Jsam(eta=1.0, epsilon_max=4.0), reports))
    assert payments[0] > 0


def test_one_client_by_hand() -> None:
    # N = 1: epsilon = (eta/v)^(1/2) Q^(1/4) with v = 2z, the integral of z^(-1/2)
    [payment] = ex_post_payments(Jsam(eta=3.0, q=2.0, epsilon_max=1e6), [0.09], UNIFORM)
    scale = np.sqrt(3 / 2) * 2**0.25
    assert payment == pytest.approx(scale * (0.09 / 0.3 + 2 * (1 - 0.3)), rel=1e-11)


def test_with_samples_payments_are_sums_over_types() -> None:
    samples = [0.1, 0.2, 0.2, 0.4, 0.7, 0.7, 0.9]
    prior, mechanism = make_prior(samples), MECHANISMS["jsam"]
    reports = np.array([0.2, 0.1, 0.4, 0.9])
    types = np.unique(samples)
    costs = prior.virtual_cost(reports)
    found = ex_post_payments(mechanism, reports, prior)
    for client, report in enumerate(reports):
        payment = report * mechanism.choose(costs).budgets[client]
        for low, high in zip(types, types[1:], strict=False):
            if low >= report:
                changed = costs.copy()
                changed[client] = prior.virtual_cost([high])[0]
                payment += (high - low) * mechanism.choose(changed).budgets[client]
        assert found[client] == pytest.approx(payment, rel=1e-12)


@pytest.mark.parametrize("name", ["jsam", "fsbm"])
@pytest.mark.parametrize("kind", ["uniform", "exponential", "ironed", "samples"])
def test_expected_payments_are_expected_virtual_costs(name: str, kind: str) -> None:
    mechanism, prior = MECHANISMS[name], PRIORS[kind]
    rng = np.random.default_rng(11)
    differences, sizes = [], []
    for _ in range(150):
        reports = prior.draw(rng, (5,))
        costs = prior.virtual_cost(reports)
        spent = float(costs @ mechanism.choose(costs).budgets)
        differences.append(ex_post_payments(mechanism, reports, prior).sum() - spent)
        sizes.append(spent)
    error = np.std(differences) / np.sqrt(len(differences))
    assert abs(np.mean(differences)) < 4 * error
    assert error < 0.1 * np.mean(sizes)


def test_under_complete_information_costs_are_paid() -> None:
    mechanism = JsamCi(eta=1.0)
    payments = ex_post_payments(mechanism, REPORTS, UNIFORM)
    assert payments == pytest.approx(REPORTS * mechanism.choose(REPORTS).budgets, rel=1e-15)
    assert payments.sum() < ex_post_payments(Jsam(eta=1.0), REPORTS, UNIFORM).sum()


def test_interim_payments_are_ex_post_payments_with_the_others_drawn() -> None:
    mechanism = MECHANISMS["jsam"]
    found = interim_payments(mechanism, REPORTS, UNIFORM, np.random.default_rng(0), draws=60)
    budgets = mechanism.choose(2 * REPORTS).budgets
    rents = found.payments - REPORTS * budgets
    rng = np.random.default_rng(1)
    for client in (1, 2):
        draws = []
        for _ in range(60):
            reports = rng.random(5)
            reports[client] = REPORTS[client]
            paid = ex_post_payments(mechanism, reports, UNIFORM)[client]
            draws.append(paid - REPORTS[client] * mechanism.choose(2 * reports).budgets[client])
        error = np.hypot(np.std(draws) / np.sqrt(60), found.standard_errors[client])
        assert abs(rents[client] - np.mean(draws)) < 4 * error
    order = np.argsort(REPORTS)
    assert (np.diff(rents[order]) < 0).all()  # lower types earn more
    assert (rents > 0).all()


def test_interim_payments_are_reproducible_and_leave_outsiders_out() -> None:
    bbm: Any = MECHANISMS["bbm"]
    one, two = (
        interim_payments(bbm, REPORTS, UNIFORM, np.random.default_rng(4), draws=5) for _ in range(2)
    )
    assert np.array_equal(one.payments, two.payments)
    assert ((one.payments > 0) == bbm.eligible(5)).all()


def test_interim_payments_need_two_draws() -> None:
    with pytest.raises(ValueError, match="draws = 1: must be at least 2"):
        interim_payments(MECHANISMS["usbm"], REPORTS, UNIFORM, np.random.default_rng(0), draws=1)


def test_reports_are_checked() -> None:
    with pytest.raises(ValueError, match="report of client 1 = 1.5: must be from 0.0 to 1.0"):
        ex_post_payments(MECHANISMS["jsam"], [0.2, 1.5], UNIFORM)
