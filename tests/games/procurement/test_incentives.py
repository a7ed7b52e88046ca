"""What clients can gain: nothing by misreporting, and never less than nothing by taking part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.games.procurement.base import Mechanism, Terms
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.fixed_subset import Fsbm
from fedgame.games.procurement.jsam import Jsam
from fedgame.games.procurement.prior import Prior
from fedgame.games.procurement.uniform import Usbm
from tests.games.procurement.cases import CASES, PRIORS, UNIFORM, Case

GRID = 200


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(params=sorted(PRIORS))
def prior(request: pytest.FixtureRequest) -> Prior:
    return PRIORS[request.param]


def mechanisms(num_clients: int) -> st.SearchStrategy[Mechanism]:
    """Return all mechanisms but JSAM-CI, which pays costs and is easily misled."""
    sizes = st.integers(1, num_clients)
    losses = st.permutations([float(loss) for loss in range(num_clients)])
    return st.one_of(
        st.just(Jsam()),
        st.just(Usbm()),
        st.builds(lambda size: Fsbm(clients=size), sizes),
        st.builds(lambda size, values: Bbm(clients=size).at_losses(values), sizes, losses),
    )


@st.composite
def situations(draw: st.DrawFn) -> tuple[Case, list[float]]:
    reports = draw(st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1)), min_size=1, max_size=6))
    cap = draw(st.floats(0.05, 20))
    terms = Terms(draw(st.floats(0.1, 30)), draw(st.floats(0.1, 10)), cap)
    return Case(draw(mechanisms(len(reports))), terms), reports


@settings(max_examples=15, deadline=None)
@given(situations(), st.data())
def test_no_misreport_gains_and_nobody_loses(
    situation: tuple[Case, list[float]], data: st.DataObject
) -> None:
    case, reports = situation[0], np.array(situation[1])
    client = data.draw(st.integers(0, len(reports) - 1))
    claims = np.append(np.linspace(0, 1, GRID), reports[client])
    gains = case.gains(reports, client, claims, UNIFORM)
    paid = gains[-1] + reports[client] * case.sold(2 * reports)[client]
    assert gains[-1] >= -1e-12
    assert (gains - gains[-1]).max() <= 1e-6 * paid + 1e-12


def test_no_misreport_gains_with_any_prior(case: Case, prior: Prior) -> None:
    reports = np.minimum([0.31, 0.06, 0.42, 0.6, 0.93], 0.98 * prior.c_max)
    for client in (1, 3):
        claims = np.append(np.linspace(prior.c_min, 0.999 * prior.c_max, 30), reports[client])
        gains = case.gains(reports, client, claims, prior)
        paid = gains[-1] + reports[client] * case.sold(prior.virtual_cost(reports))[client]
        assert (gains - gains[-1]).max() <= 1e-6 * paid + 1e-12


def test_payments_are_what_the_gains_are_made_of(case: Case, prior: Prior) -> None:
    reports = np.minimum([0.31, 0.06, 0.42, 0.6, 0.93], 0.98 * prior.c_max)
    payoffs = case.paid(reports, prior) - reports * case.sold(prior.virtual_cost(reports))
    assert (payoffs >= -1e-12).all()
    for client in range(5):
        gain = case.gains(reports, client, reports[[client]], prior)
        assert payoffs[client] == pytest.approx(gain[0], rel=1e-9, abs=1e-12)


def test_holding_the_total_cost_at_the_reports_would_invite_misreports() -> None:
    # JSAM itself is safe at the very reports at which a total cost held fixed is not
    claims = np.array([0.006, 0.04, 0.05, 0.0497, 0.2])
    gains = CASES["jsam"].gains(np.array([0.006, 0.3]), 0, claims, UNIFORM)
    assert np.argmax(gains) == 0


@settings(max_examples=40, deadline=None)
@given(situations(), st.data())
def test_a_budget_does_not_rise_in_the_own_report(
    situation: tuple[Case, list[float]], data: st.DataObject
) -> None:
    case, costs = situation[0], 2 * np.array(situation[1])
    client = data.draw(st.integers(0, len(costs) - 1))
    budgets = []
    for cost in sorted(data.draw(st.lists(st.floats(0, 2), min_size=2, max_size=8))):
        costs[client] = cost
        budgets.append(case.sold(costs)[client])
    assert (np.diff(budgets) <= 1e-9 * max(budgets)).all()


@settings(max_examples=40, deadline=None)
@given(situations(), st.data())
def test_a_curve_is_what_choices_say(
    situation: tuple[Case, list[float]], data: st.DataObject
) -> None:
    case, costs = situation[0], 2 * np.array(situation[1])
    eligible = np.flatnonzero(case.mechanism.eligible(len(costs)))
    client = int(data.draw(st.sampled_from(eligible.tolist())))
    own = st.one_of(st.floats(0, 2), st.sampled_from(costs.tolist()))  # equal to others as well
    values = np.array(sorted(data.draw(st.lists(own, min_size=1, max_size=6))))
    curve = case.mechanism.curve(costs, client, values[0], values[-1], case.terms)
    budgets, labels = curve(values)
    assert len(labels) == len(values)
    for value, budget in zip(values, budgets, strict=True):
        costs[client] = value
        assert budget == pytest.approx(case.sold(costs)[client], rel=1e-7, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("jsam", "uniform"),
        ("jsam capped", "samples"),
        ("usbm", "samples"),
        ("fsbm", "exponential"),
        ("bbm", "ironed"),
    ],
)
def test_expected_payments_are_expected_virtual_costs(name: str, kind: str) -> None:
    case, prior = CASES[name], PRIORS[kind]
    rng = np.random.default_rng(11)
    differences, sizes = [], []
    for _ in range(100):
        reports = prior.draw(rng, (5,))
        costs = prior.virtual_cost(reports)
        spent = float(costs @ case.sold(costs))
        differences.append(case.paid(reports, prior).sum() - spent)
        sizes.append(spent)
    error = np.std(differences) / np.sqrt(len(differences))
    assert abs(np.mean(differences)) < 4 * error
    assert error < 0.15 * np.mean(sizes)
