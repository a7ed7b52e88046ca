"""From a monetary budget to eta."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedgame.games.procurement.base import Mechanism, Terms
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.calibration import Calibration, calibrate_eta
from fedgame.games.procurement.complete_information import JsamCi
from fedgame.games.procurement.fixed_subset import Fsbm
from fedgame.games.procurement.jsam import Jsam
from fedgame.games.procurement.uniform import Usbm
from fedgame.games.procurement.virtual_cost import make_prior
from tests.games.procurement.cases import PRIORS, UNIFORM, Case

MECHANISMS: dict[str, Mechanism] = {
    "jsam": Jsam(),
    "jsam-ci": JsamCi(),
    "usbm": Usbm(),
    "fsbm": Fsbm(clients=4),
    "bbm": Bbm(clients=4).at_losses(np.arange(8.0)),
}
TERMS = Terms(1.0, 1.0, 5.0)


def calibrate(mechanism: Mechanism, budget: float, terms: Terms, draws: int = 20) -> Calibration:
    rng = np.random.default_rng(0)
    return calibrate_eta(mechanism, budget, UNIFORM, 8, terms, rng, draws=draws)


@pytest.mark.parametrize("name", sorted(MECHANISMS))
@pytest.mark.parametrize("budget", [0.05, 2.0])
def test_the_budget_is_met(name: str, budget: float) -> None:
    mechanism = MECHANISMS[name]
    found = calibrate(mechanism, budget, TERMS)
    assert found.expected_cost == pytest.approx(budget, rel=0.02)  # but for jumps
    assert 0 < found.standard_error < 0.3 * budget
    # the same draws, once more
    rng, terms = np.random.default_rng(0), replace(TERMS, eta=found.eta)
    spent = []
    for _ in range(20):
        sensitivities = rng.random(8)
        costs = sensitivities if name == "jsam-ci" else 2 * sensitivities
        spent.append(costs @ mechanism.choose(costs, terms).budgets)
    assert np.mean(spent) == pytest.approx(found.expected_cost, rel=1e-9)
    assert np.std(spent, ddof=1) / np.sqrt(20) == pytest.approx(found.standard_error, rel=1e-9)


def test_without_a_cap_usbm_s_eta_is_known() -> None:
    # B = sqrt(eta) Q^(1/4) S^(3/4) with S of p = 1/N, so that eta goes with the budget's square
    terms = Terms(1.0, 3.0)
    one = calibrate(Usbm(), 1.0, terms)
    thousand = calibrate(Usbm(), 1000.0, terms)
    assert thousand.eta == pytest.approx(1e6 * one.eta, rel=3e-4)
    sums = np.cbrt(2 * np.random.default_rng(0).random((20, 8)) / 8) ** 2
    expected = np.mean(sums.sum(axis=1) ** 0.75) * 3**0.25
    assert one.eta == pytest.approx(expected**-2, rel=3e-4)


def test_expected_payments_are_the_budget() -> None:
    found = calibrate_eta(Jsam(), 0.8, UNIFORM, 6, TERMS, np.random.default_rng(1), draws=100)
    case = Case(Jsam(), replace(TERMS, eta=found.eta))
    rng = np.random.default_rng(2)
    paid = [case.paid(rng.random(6), UNIFORM).sum() for _ in range(60)]
    error = np.hypot(np.std(paid) / np.sqrt(60), found.standard_error)
    assert abs(np.mean(paid) - 0.8) < 4 * error
    assert error < 0.1


def test_more_money_means_a_larger_eta_wherever_the_search_starts() -> None:
    etas = [calibrate(Jsam(), budget, TERMS).eta for budget in (0.1, 0.5, 2.0, 8.0)]
    assert (np.diff(etas) > 0).all()
    for start in (1e-3, 1e3):
        again = calibrate(Jsam(), 0.5, replace(TERMS, eta=start))
        assert again.eta == pytest.approx(etas[1], rel=3e-4)


@pytest.mark.parametrize("kind", ["ironed", "samples"])
def test_every_prior_serves(kind: str) -> None:
    rng = np.random.default_rng(3)
    found = calibrate_eta(Jsam(), 0.4, PRIORS[kind], 5, TERMS, rng, draws=30)
    assert found.expected_cost == pytest.approx(0.4, rel=0.05)


def test_more_than_all_budgets_at_the_cap_cannot_be_spent() -> None:
    draws = 2 * np.random.default_rng(0).random((20, 8))
    most = 5 * draws.sum(axis=1).mean()
    assert calibrate(Jsam(), 0.999 * most, TERMS).expected_cost == pytest.approx(
        0.999 * most, rel=3e-4
    )
    with pytest.raises(ValueError, match=rf"budget = 50.0: must be at most {most:.6g}, .* = 5.0"):
        calibrate(Jsam(), 50.0, TERMS)


def test_money_cannot_be_spent_on_what_costs_nothing() -> None:
    free = make_prior([0.0, 0.0])
    with pytest.raises(ValueError, match=r"budget = 1\.0: must be at most 0"):
        calibrate_eta(Jsam(), 1.0, free, 3, TERMS, np.random.default_rng(0), draws=2)


@pytest.mark.parametrize("budget", [0.0, -1.0, np.nan, np.inf])
def test_bad_budgets_are_refused(budget: float) -> None:
    with pytest.raises(ValueError, match=f"budget = {budget}: must be a finite number > 0"):
        calibrate(Jsam(), budget, TERMS)


def test_other_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="draws = 1: must be at least 2"):
        calibrate(Jsam(), 1.0, TERMS, draws=1)
    with pytest.raises(ValueError, match="clients = 50: must be from 1 to 8"):
        calibrate(Fsbm(clients=50), 1.0, TERMS)
    with pytest.raises(ValueError, match="num_clients = 0: must be at least 1"):
        calibrate_eta(Jsam(), 1.0, UNIFORM, 0, TERMS, np.random.default_rng(0))


def test_an_unbounded_prior_is_cut_before_it_is_drawn_from() -> None:
    prior = make_prior(stats.expon(scale=0.3))
    found = calibrate_eta(Usbm(), 0.4, prior, 4, TERMS, np.random.default_rng(3), draws=30)
    assert found.expected_cost == pytest.approx(0.4, rel=3e-4)
