"""Burn-ins and labels together: pure DP as Gaussian DP, against PLD and the exact curve."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from fedgame.accountants.flow_accountant import FlowAccountant, pure_dp_mu
from fedgame.accountants.gdp import gdp_delta, gdp_epsilon
from fedgame.accountants.pld import PldAccountant
from fedgame.errors import AccountingError
from fedgame.ledger.events import LaplaceVector, PrivacyEvent, PureDPChoice, SampledGaussian

BURN_IN = SampledGaussian(2.0, 1.0, 1, "example", "flow", 1.0)
LABELS = PureDPChoice(1.5, "example", "randomised-response")


@pytest.mark.parametrize("budget", [0.01, 0.5, 1.0, 3.0, 20.0])
def test_gaussian_dp_of_this_mu_covers_pure_dp(budget: float) -> None:
    """delta of randomised response at every epsilon, (e^b - e^epsilon)/(1 + e^b)."""
    epsilons = np.linspace(0, budget, 50)
    exact = (np.exp(budget) - np.exp(epsilons)) / (1 + np.exp(budget))
    mu = float(pure_dp_mu(budget))
    assert np.all(gdp_delta(mu, epsilons) >= exact - 1e-12)
    # and no smaller mu does: the corner is on the curve
    assert float(gdp_delta(mu, 0.0)) == pytest.approx(exact[0], rel=1e-9)
    assert float(gdp_delta(0.99 * mu, 0.0)) < exact[0]


def test_the_limits_of_pure_dp() -> None:
    assert float(pure_dp_mu(0.0)) == pytest.approx(0, abs=1e-15)
    assert np.isfinite(pure_dp_mu(5000.0))
    with pytest.raises(AccountingError, match="epsilon: every value must be finite"):
        pure_dp_mu(np.inf)


def test_a_burn_in_alone_costs_its_mu() -> None:
    judge = FlowAccountant()
    assert judge.mu([BURN_IN]) == 0.5
    assert judge.epsilon([BURN_IN], 1e-5) == pytest.approx(float(gdp_epsilon(0.5, 1e-5)))
    assert judge.epsilon([BURN_IN], 1e-5) == pytest.approx(
        PldAccountant().epsilon([BURN_IN], 1e-5), rel=1e-3
    )
    assert (judge.epsilon([], 1e-5), judge.delta([], 1.0)) == (0, 0)


def test_labels_compose_with_it_and_are_never_undercharged() -> None:
    judge = FlowAccountant()
    events: list[PrivacyEvent] = [BURN_IN, LABELS]
    assert judge.mu(events) == pytest.approx(np.hypot(0.5, float(pure_dp_mu(1.5))))
    assert judge.epsilon(events, 1e-5) >= PldAccountant().epsilon(events, 1e-5)
    # the exact delta: two Gaussians of mu 1/2 beside two answers of odds e^1.5
    exact = sum(
        weight * float(gdp_delta(0.5, max(0.0, 1.0 - shift)))
        for weight, shift in ((exp(1.5) / (1 + exp(1.5)), 1.5),)
    )
    assert judge.delta(events, 1.0) >= exact


@pytest.mark.parametrize(
    "event",
    [
        SampledGaussian(2.0, 1.0, 1, "example", "jko", 1.0),
        SampledGaussian(2.0, 0.5, 3, "example", "gaussian"),
        LaplaceVector(1.0, 0.5, 2, "example", "laplace"),
    ],
)
def test_other_releases_are_refused(event: PrivacyEvent) -> None:
    with pytest.raises(AccountingError, match=f"a release of '{event.mechanism}' is no burn-in"):
        FlowAccountant().mu([BURN_IN, event])
