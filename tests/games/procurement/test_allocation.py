"""The record of a mechanism: published values, what it says of itself, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedgame.games.procurement.allocation import allocate
from fedgame.games.procurement.base import Choice, Mechanism, Terms
from fedgame.games.procurement.certificate import certify
from fedgame.games.procurement.complete_information import JsamCi
from fedgame.games.procurement.fixed_subset import Fsbm
from fedgame.games.procurement.jsam import Jsam
from fedgame.games.procurement.payments import ex_post_payments
from fedgame.games.procurement.uniform import Usbm
from fedgame.games.procurement.virtual_cost import make_prior
from tests.games.procurement.cases import PRIORS, UNIFORM

REPORTS = [0.1, 0.2, 0.4, 0.6, 0.9]


def test_published_values_from_reports() -> None:
    found = allocate(Jsam(), REPORTS, UNIFORM, Terms(1.0))
    assert found.mechanism == "jsam"
    assert found.virtual_costs == pytest.approx(2 * np.array(REPORTS), rel=1e-15)
    assert found.objective == pytest.approx(2.5510813432, abs=1e-9)
    assert found.expected_cost == pytest.approx(1.0056952291, abs=1e-9)
    assert found.probabilities == pytest.approx([0.4, 0.2, 0.2, 0.2, 0], abs=1e-12)
    expected = [0.8872500335, 0.4436250168, 0.3521054091, 0.3075924070, 0]
    assert found.budgets == pytest.approx(expected, abs=1e-9)
    assert found.threshold == 4
    assert found.distance == pytest.approx(0.4)
    assert found.power_sum == pytest.approx(sum((0.4 * 0.2, 0.2 * 0.4, 0.2 * 0.8, 0.2 * 1.2)[k]
                                                ** (2 / 3) for k in range(4)))  # fmt: skip
    assert not found.cap_binds
    assert not found.ironed
    assert found.certificate.kkt_residual < 1e-12
    assert found.certificate.brute_force_gap is not None
    assert found.certificate.brute_force_gap <= 1e-12
    rich = allocate(Jsam(), [0.05, 0.3, 0.35, 0.8, 0.95], UNIFORM, Terms(10.0), payments=False)
    assert rich.objective == pytest.approx(8.9090199038, abs=1e-9)
    assert rich.expected_cost == pytest.approx(4.4545099520, abs=1e-9)
    assert rich.budgets[0] == pytest.approx(2.0785159073, abs=1e-9)
    assert rich.payments is None


def test_payments_are_the_ex_post_ones() -> None:
    terms = Terms(1.0, epsilon_max=2.0)
    found = allocate(Jsam(), REPORTS, PRIORS["ironed"], terms)
    expected = ex_post_payments(Jsam(), REPORTS, PRIORS["ironed"], terms)
    assert found.payments is not None
    assert found.payments.tolist() == expected.tolist()
    assert found.ironed


def test_under_complete_information_virtual_costs_are_costs() -> None:
    found = allocate(JsamCi(), REPORTS, PRIORS["ironed"], Terms(1.0))
    assert found.virtual_costs.tolist() == REPORTS
    assert found.payments is not None
    assert found.payments == pytest.approx(np.array(REPORTS) * found.budgets)
    assert found.payments.sum() == pytest.approx(found.expected_cost)
    assert not found.ironed


def test_a_cap_that_binds_is_told() -> None:
    found = allocate(Jsam(), REPORTS, UNIFORM, Terms(1.0, epsilon_max=0.5))
    assert found.cap_binds
    assert found.budgets.max() == 0.5
    assert found.certificate.kkt_residual < 1e-10


def test_a_certificate_tells_good_from_bad() -> None:
    costs, terms = 2 * np.array(REPORTS), Terms(1.0)
    good = Jsam().choose(costs, terms)
    other_budgets = Choice(good.probabilities, 1.01 * good.budgets)
    bad = certify(other_budgets, costs, terms, optimises_selection=True)
    assert bad.kkt_residual > 1e-3
    assert bad.brute_force_gap is not None
    uniform = Usbm().choose(costs, terms)
    assert certify(uniform, costs, terms, optimises_selection=False).kkt_residual < 1e-12
    unbiased = certify(uniform, costs, terms, optimises_selection=True)
    assert unbiased.brute_force_gap is not None
    assert unbiased.brute_force_gap > 1e-3
    shifted = good.probabilities + np.array([-0.05, 0.05, 0, 0, 0])
    assert certify(
        Choice(shifted, good.budgets), costs, terms, optimises_selection=True
    ).kkt_residual > 1e-2  # fmt: skip


def test_of_many_clients_no_brute_force_is_made() -> None:
    reports = np.linspace(0.1, 0.9, 9)
    certificate = allocate(Jsam(), reports, UNIFORM, Terms(1.0), payments=False).certificate
    assert certificate.brute_force_gap is None
    fixed = allocate(Usbm(), REPORTS, UNIFORM, Terms(1.0), payments=False).certificate
    assert fixed.brute_force_gap is None


@pytest.mark.parametrize("mechanism", [Jsam(), Usbm(), JsamCi(), Fsbm(clients=1)])
@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([], "reports of shape .*: one a client is needed, at least one"),
        ([[0.1]], "one a client is needed"),
        ([0.1, -0.2], r"report of client 1 = -0\.2: must be a finite number >= 0"),
        ([0.1, None], "report of client 1 = nan: must be a finite number >= 0"),
        ([np.nan], "report of client 0 = nan: must be a finite number >= 0"),
        ([0.1, 0.2, np.inf], "report of client 2 = inf: must be a finite number >= 0"),
        ([0.1, 1.2], r"report of client 1 = 1\.2: must be from 0\.0 to 1\.0, where the prior"),
        ([0.1, 0.0], "epsilon_max = inf: must be finite, since client 1 costs nothing"),
    ],
)
def test_bad_reports_are_refused(mechanism: Mechanism, reports: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        allocate(mechanism, reports, UNIFORM, Terms(1.0))


def test_a_report_without_a_density_is_refused() -> None:
    with pytest.raises(ValueError, match=r"report of client 1 = 0\.1: must be from 0\.2 to 1\.2"):
        allocate(Jsam(), [0.5, 0.1], make_prior(stats.uniform(0.2, 1)), Terms(1.0))


def test_too_few_clients_for_a_subset_are_refused() -> None:
    with pytest.raises(ValueError, match="clients = 7: must be from 1 to 5"):
        allocate(Fsbm(clients=7), REPORTS, UNIFORM, Terms(1.0))
