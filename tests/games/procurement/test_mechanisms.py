"""Every registered mechanism, and what is particular to some."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedgame.errors import ConfigError
from fedgame.games.best_response import FloatArray
from fedgame.games.procurement import PROCUREMENT
from fedgame.games.procurement.allocation import allocate
from fedgame.games.procurement.base import Choice, Mechanism, Terms
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.certificate import objective
from fedgame.games.procurement.fixed_subset import Fsbm
from fedgame.games.procurement.jsam import Jsam
from fedgame.games.procurement.uniform import Usbm
from tests.games.procurement.cases import UNIFORM
from tests.games.procurement.judge import judged

NAMES = ["bbm", "fsbm", "jsam", "jsam-ci", "usbm"]

some_costs = st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 2)), min_size=1, max_size=6)
some_terms = st.builds(Terms, st.floats(0.05, 30), st.floats(0.1, 10), st.floats(0.05, 20))


def build(name: str, num_clients: int, size: int | None = None) -> Mechanism:
    """Return a mechanism for so many clients, half of which it selects if it can."""
    component = cast("type[Any]", PROCUREMENT.get(name))
    size = size or (num_clients + 1) // 2
    mechanism = component(clients=size) if fields(component) else component()
    losses = np.arange(num_clients) % 3
    return mechanism.at_losses(losses) if isinstance(mechanism, Bbm) else mechanism


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_these_are_all() -> None:
    assert sorted(PROCUREMENT) == NAMES
    with pytest.raises(ConfigError, match=r"procurement\.name = 'auction': allowed: bbm, fsbm"):
        PROCUREMENT.get("auction")


def test_a_component_is_frozen_and_described(name: str) -> None:
    component = cast("type[Any]", PROCUREMENT.get(name))
    assert component.name == build(name, 3).name == name
    for field in fields(component):
        assert f"    {field.name}: " in str(component.__doc__)
        with pytest.raises(FrozenInstanceError):
            setattr(component(), field.name, 3)
    with pytest.raises(ValidationError, match="no_such_setting"):
        component(no_such_setting=1)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NAMES), some_costs, some_terms)
def test_a_choice_is_one(name: str, costs: list[float], terms: Terms) -> None:
    mechanism = build(name, len(costs))
    choice = mechanism.choose(np.array(costs), terms)
    p, budgets = choice.probabilities, choice.budgets
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p >= 0).all()
    assert ((budgets > 0) == (p > 0)).all()
    assert (budgets <= terms.epsilon_max).all()
    assert (p[~mechanism.eligible(len(costs))] == 0).all()
    # budgets are the best ones for these probabilities
    found = float(objective(choice, np.array(costs), terms))
    assert found == pytest.approx(judged(p, np.array(costs), terms)[0], rel=1e-10)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NAMES), some_costs, some_terms, st.floats(1, 30))
def test_the_total_cost_does_not_fall_in_eta(
    name: str, costs: list[float], terms: Terms, factor: float
) -> None:
    mechanism, more = build(name, len(costs)), Terms(terms.eta * factor, terms.q, terms.epsilon_max)
    less, greater = (np.array(costs) @ mechanism.choose(np.array(costs), t).budgets
                     for t in (terms, more))  # fmt: skip
    assert greater >= less * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), some_costs, some_terms, st.floats(0.01, 100))
def test_scaling(name: str, costs: list[float], terms: Terms, factor: float) -> None:
    mechanism, values = build(name, len(costs)), np.array(costs)

    def value(choice: Choice, at: FloatArray, on: Terms) -> float:
        return float(objective(choice, at, on))

    here = value(mechanism.choose(values, terms), values, terms)
    # (Q, eta, cap) is (1, eta/sqrt(Q), cap/sqrt(Q)) with budgets times sqrt(Q)
    root = np.sqrt(terms.q)
    standard = Terms(terms.eta / root, 1.0, terms.epsilon_max / root)
    choice = mechanism.choose(values, standard)
    assert root * value(choice, values, standard) == pytest.approx(here, rel=1e-9)
    moved = Choice(choice.probabilities, root * choice.budgets)
    assert value(moved, values, terms) == pytest.approx(here, rel=1e-9)
    # costs and eta times t: the same budgets, t times the money
    dearer = Terms(factor * terms.eta, terms.q, terms.epsilon_max)
    again = mechanism.choose(factor * values, dearer)
    assert value(again, factor * values, dearer) == pytest.approx(factor * here, rel=1e-9)
    assert value(again, values, terms) == pytest.approx(here, rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("report", [0.0, 0.4, 1.0])
def test_equal_reports_zero_reports_and_few_clients(name: str, n: int, report: float) -> None:
    terms = Terms(2.0, 1.0, 3.0)
    found = allocate(build(name, n), np.full(n, report), UNIFORM, terms)
    assert found.probabilities.sum() == pytest.approx(1)
    assert found.payments is not None
    assert (found.payments >= report * found.budgets - 1e-12).all()
    assert (found.budgets[found.probabilities > 0] > 0).all()
    assert found.certificate.kkt_residual < 1e-9
    if report == 0:
        assert set(found.budgets.tolist()) <= {0.0, 3.0}
        assert found.cap_binds


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(1e-3, 1), min_size=1, max_size=30), st.floats(0.01, 100))
def test_uniform_selection_costs_the_root_of_two_more_than_with_known_costs(
    sensitivities: list[float], eta: float
) -> None:
    # for uniform types v = 2c, and B = sqrt(eta) Q^(1/4) S^(3/4)
    costs, terms = np.array(sensitivities), Terms(eta, 1.7)
    virtual = 2 * costs @ Usbm().choose(2 * costs, terms).budgets
    true = costs @ Usbm().choose(costs, terms).budgets
    assert virtual / true == pytest.approx(np.sqrt(2), rel=1e-12)


def test_a_joint_selection_is_never_worse_than_a_given_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 12))
        costs, terms = 2 * rng.random(n), Terms(10 ** rng.uniform(-1, 2), 1.0, 3.0)
        best = objective(Jsam().choose(costs, terms), costs, terms)
        for other in ("usbm", "fsbm", "bbm"):
            choice = build(other, n).choose(costs, terms)
            assert best <= objective(choice, costs, terms) * (1 + 1e-12)


def test_a_fixed_subset_are_the_cheapest() -> None:
    costs = np.array([0.5, 0.2, 0.9, 0.2, 0.7])
    choice = Fsbm(clients=3).choose(costs, Terms(1.0))
    assert choice.probabilities.tolist() == [1 / 3, 1 / 3, 0, 1 / 3, 0]
    assert Fsbm(clients=1).choose(costs, Terms(1.0)).probabilities.tolist() == [0, 1, 0, 0, 0]
    assert np.array_equal(
        Fsbm(clients=5).choose(costs, Terms(1.0)).budgets, Usbm().choose(costs, Terms(1.0)).budgets
    )


def test_the_largest_losses_are_selected_whatever_the_costs() -> None:
    bbm = Bbm(clients=2).at_losses([0.1, 2.0, -1.0, 2.0, np.inf])
    assert bbm.members == (1, 4)
    for costs in ([0.1, 0.5, 0.1, 0.1, 2.0], [2.0, 0.1, 2.0, 2.0, 0.1]):
        choice = bbm.choose(np.array(costs), Terms(1.0))
        assert choice.probabilities.tolist() == [0, 0.5, 0, 0, 0.5]


@pytest.mark.parametrize("losses", [[0.1, np.nan, 0.3], [[0.1, 0.2]]])
def test_bad_losses_are_refused(losses: Any) -> None:
    with pytest.raises(ValueError, match=r"losses = .*: one a client is needed, none NaN"):
        Bbm(clients=1).at_losses(losses)


def test_more_clients_than_there_are_cannot_be_selected() -> None:
    said = "clients = 4: must be from 1 to 3, the number of clients"
    costs, terms = np.array([0.1, 0.2, 0.3]), Terms(1.0)
    with pytest.raises(ValueError, match=said):
        Bbm(clients=4).at_losses(costs)
    with pytest.raises(ValueError, match=said):
        Fsbm(clients=4).choose(costs, terms)
    with pytest.raises(ValueError, match=said):
        Fsbm(clients=4).curve(costs, 0, 0.0, 1.0, terms)


@pytest.mark.parametrize("component", [Fsbm, Bbm])
def test_nobody_cannot_be_selected(component: type[Any]) -> None:
    with pytest.raises(ValidationError, match="clients"):
        component(clients=0)
