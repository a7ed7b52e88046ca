"""Budgets for given probabilities, against closed forms and a numerical minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedgame.games.procurement.base import Choice, Terms
from fedgame.games.procurement.fixed_probabilities import best_budgets, cubic_root, uncapped_cost
from tests.games.procurement.judge import judged, objective

probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=7).filter(lambda p: sum(p) > 0.1)


def test_the_cubic_root_solves_the_cubic() -> None:
    kappa = np.concatenate([[0.0], 10.0 ** np.linspace(-30, 60, 9001)])
    y = cubic_root(kappa)
    assert y[0] == 1
    assert ((y > 0) & (y <= 1)).all()
    wide, k = y.astype(np.longdouble), kappa.astype(np.longdouble)
    error = (k * wide**3 + wide**2 - 1) / (3 * k * wide**3 + 2 * wide**2)
    assert np.abs(error).max() < 5e-16


@pytest.mark.parametrize("distance", [0.0, 1e-9, 0.3, 1.99])
@pytest.mark.parametrize("power_sum", [1e-60, 1e-3, 2.0, 1e30])
def test_the_total_cost_is_the_best_one(distance: float, power_sum: float) -> None:
    terms = Terms(eta=3.0, q=0.4)
    total, value = uncapped_cost(np.array([distance]), np.array([power_sum]), terms)

    def at(cost: float) -> float:
        root = np.hypot(distance, np.sqrt(terms.q) * power_sum**1.5 / cost)
        return float(terms.eta * (distance + root) + cost)

    assert value[0] == pytest.approx(at(total[0]), rel=1e-12)
    for factor in (1 - 1e-4, 1 + 1e-4):
        assert at(total[0] * factor) >= value[0]


@settings(max_examples=60, deadline=None)
@given(probabilities, st.floats(0.05, 20), st.floats(0.05, 20), st.data())
def test_budgets_are_the_best_ones(
    weights: list[float], eta: float, q: float, data: st.DataObject
) -> None:
    p = np.array(weights) / sum(weights)
    p[p < 1e-6] = 0
    p /= p.sum()
    costs = np.array([data.draw(st.floats(1e-3, 5)) for _ in p])
    terms = Terms(eta, q, data.draw(st.one_of(st.just(np.inf), st.floats(0.01, 5))))
    choice = Choice(p, best_budgets(p, costs, terms))
    assert (choice.budgets[p == 0] == 0).all()
    found = objective(choice, costs, terms)
    assert found == pytest.approx(judged(p, costs, terms)[0], rel=1e-11)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-1, 1.0):
        other = choice.budgets * np.exp(size * rng.standard_normal(p.shape))
        other = np.minimum(other, terms.epsilon_max)
        assert objective(Choice(p, other), costs, terms) >= found * (1 - 1e-12)


def test_a_numerical_minimiser_agrees() -> None:
    p, costs = np.array([0.5, 0.2, 0.3]), np.array([0.2, 0.7, 1.1])
    terms = Terms(eta=2.0, q=1.5)
    found = minimize(
        lambda logs: objective(Choice(p, np.exp(logs)), costs, terms), np.zeros(3), tol=1e-14
    )
    assert best_budgets(p, costs, terms) == pytest.approx(np.exp(found.x), rel=1e-5)


def test_rows_are_independent() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    costs = np.array([[0.1, 2.0, 3.0], [0.1, 0.1, 0.4]])
    terms = Terms(1.0, 1.0, 0.8)
    both = best_budgets(p, costs, terms)
    for row in range(2):
        assert both[row] == pytest.approx(best_budgets(p[row], costs[row], terms), rel=1e-14)
