"""JSAM where the cap on budgets binds: judged by grids over all probabilities, and by every j."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.capped import Bounds, best_groups, group_objective
from fedgame.games.procurement.certificate import certify
from fedgame.games.procurement.fixed_probabilities import best_budgets
from fedgame.games.procurement.jsam import solve_jsam
from fedgame.games.procurement.ordered import OrderedCosts
from fedgame.games.procurement.profiles import Profiles, score
from tests.games.procurement.judge import (
    best_of_global_search,
    descending_grid,
    judged,
    objective,
)

some_costs = st.lists(st.one_of(st.just(0.0), st.floats(1e-4, 10)), min_size=1, max_size=8)
some_terms = st.builds(Terms, st.floats(0.03, 30), st.floats(0.03, 30), st.floats(0.01, 10))


def random_instance(rng: np.random.Generator, n: int) -> tuple[FloatArray, Terms]:
    costs = np.sort(rng.uniform(0, 2, n) if rng.random() < 0.5 else 10 ** rng.uniform(-3, 1, n))
    if rng.random() < 0.3:
        costs[: rng.integers(1, n + 1)] = 0
    eta, q, cap = 10 ** rng.uniform(-2, 2), 10 ** rng.uniform(-2, 2), 10 ** rng.uniform(-2.5, 1.5)
    return costs, Terms(eta, q, cap)


def test_200_random_instances_are_never_above_the_best_of_a_global_search() -> None:
    rng = np.random.default_rng(0)
    binding, gaps = 0, []
    while binding < 200:
        costs, terms = random_instance(rng, int(rng.integers(1, 7)))
        choice = solve_jsam(costs, terms)
        found = objective(choice, costs, terms)
        assert found == pytest.approx(judged(choice.probabilities, costs, terms)[0], rel=1e-11)
        binds = bool((choice.budgets >= terms.epsilon_max).any())
        binding += binds
        if binds:
            best = best_of_global_search(costs, terms, rng)
            assert found <= best * (1 + 1e-9)
            gaps.append(best / found - 1)
    assert np.mean(np.array(gaps) < 1e-6) > 0.8  # the search does come close


def test_grids_of_probabilities_hold_nothing_better() -> None:
    rng = np.random.default_rng(1)
    grids = {n: descending_grid(n, units) for n, units in ((2, 60), (3, 60), (4, 32), (5, 20))}
    binding = 0
    for _ in range(300):
        n = int(rng.integers(2, 6))
        costs, terms = random_instance(rng, n)
        choice = solve_jsam(costs, terms)
        binding += bool((choice.budgets >= terms.epsilon_max).any())
        best = judged(grids[n], costs, terms).min()
        assert objective(choice, costs, terms) <= best * (1 + 1e-11)
    assert binding > 100


def test_where_the_cap_binds_theorem_3_gives_way() -> None:
    # Two clients that cost nothing: all spare probability to one of them would be 5 % worse.
    terms = Terms(eta=0.05, q=0.34, epsilon_max=0.04)
    choice = solve_jsam([0.0, 0.0, 5.0], terms)
    assert choice.probabilities.tolist() == [0.5, 0.5, 0]
    assert choice.budgets.tolist() == [0.04, 0.04, 0]
    costs = np.array([0.0, 0.0, 5.0])
    printed = judged(np.array([[2 / 3, 1 / 3, 0]]), costs, terms)[0]
    assert printed > 1.04 * objective(choice, costs, terms)


def test_one_client_may_have_a_probability_of_its_own() -> None:
    costs, terms = np.array([1.116, 1.472, 1.844]), Terms(eta=0.19, q=0.57, epsilon_max=0.185)
    choice = solve_jsam(costs, terms)
    first, _, third = choice.probabilities
    assert third == 0
    assert 0.5 < first < 0.58
    assert choice.budgets[0] == terms.epsilon_max > choice.budgets[1] > 0
    line = np.linspace(0.5, 1, 20001)
    values = judged(np.stack([line, 1 - line, 0 * line], axis=1), costs, terms)
    assert objective(choice, costs, terms) <= values.min() * (1 + 1e-12)
    assert first == pytest.approx(line[np.argmin(values)], abs=1e-4)
    certificate = certify(choice, costs, terms, optimises_selection=True)
    assert certificate.kkt_residual < 1e-10


@settings(max_examples=80, deadline=None)
@given(some_costs, some_terms)
def test_the_certificate_holds(costs: list[float], terms: Terms) -> None:
    values = np.array(costs)
    choice = solve_jsam(values, terms)
    assert choice.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert (choice.budgets <= terms.epsilon_max).all()
    certificate = certify(choice, values, terms, optimises_selection=True)
    assert certificate.kkt_residual < 1e-8
    if certificate.brute_force_gap is not None:
        assert certificate.brute_force_gap < 1e-11


@settings(max_examples=60, deadline=None)
@given(some_costs, some_terms, st.data())
def test_a_budget_does_not_rise_in_the_own_cost(
    costs: list[float], terms: Terms, data: st.DataObject
) -> None:
    values = np.array(costs)
    client = data.draw(st.integers(0, len(costs) - 1))
    own = sorted(data.draw(st.lists(st.floats(0, 20), min_size=2, max_size=8)))
    budgets = []
    for cost in own:
        values[client] = cost
        budgets.append(solve_jsam(values, terms).budgets[client])
    assert (np.diff(budgets) <= 1e-9 * max(budgets)).all()


@settings(max_examples=40, deadline=None)
@given(some_costs, some_terms, st.floats(0.01, 100))
def test_scaling_scales_the_cap_as_well(costs: list[float], terms: Terms, factor: float) -> None:
    # (Q, eta, cap) is (1, eta/sqrt(Q), cap/sqrt(Q)) with the objective's eta part unchanged
    root = np.sqrt(terms.q)
    standard = Terms(terms.eta / root, 1.0, terms.epsilon_max / root)
    values = np.array(costs)
    ours, theirs = solve_jsam(values, terms), solve_jsam(values, standard)
    assert objective(ours, values, terms) == pytest.approx(
        root * objective(theirs, values, standard), rel=1e-10
    )
    dearer = Terms(factor * terms.eta, terms.q, terms.epsilon_max)
    assert objective(solve_jsam(factor * values, dearer), factor * values, dearer) == pytest.approx(
        factor * objective(ours, values, terms), rel=1e-10
    )


def test_a_cap_that_does_not_bind_changes_nothing() -> None:
    costs = np.array([0.3, 0.9, 0.4, 1.7])
    free = solve_jsam(costs, Terms(1.0))
    tight = Terms(1.0, 1.0, free.budgets.max() * (1 + 1e-12))
    assert np.array_equal(solve_jsam(costs, tight).budgets, free.budgets)
    below = solve_jsam(costs, Terms(1.0, 1.0, 0.9 * free.budgets.max()))
    assert below.budgets.max() == 0.9 * free.budgets.max()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_if_nobody_costs_anything_everybody_is_selected_at_the_cap(n: int) -> None:
    choice = solve_jsam(np.zeros(n), Terms(1.0, 1.0, 3.0))
    assert choice.probabilities == pytest.approx(np.full(n, 1 / n), rel=1e-15)
    assert choice.budgets.tolist() == [3.0] * n


@pytest.mark.parametrize("seed", range(12))
def test_the_best_group_is_the_best_of_all_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs, terms = random_instance(rng, 30)
    ordered = OrderedCosts.of(costs)
    profiles, found = best_groups(ordered, np.arange(1, 31), terms)
    for m in range(1, 31):
        selected, sizes = np.full(m, m), np.arange(1, m + 1)
        at_cap = group_objective(ordered, selected, sizes, terms).min()
        alone = score(ordered, Profiles.plain(30, selected[:1], sizes[:1]), terms).objective[0, 0]
        assert found[0, m - 1] == pytest.approx(min(at_cap, alone), rel=1e-11)
    best = profiles.take(np.array([np.argmin(found[0])])).probabilities()
    assert found.min() == pytest.approx(judged(best, costs, terms)[0], rel=1e-11)


def test_a_score_is_the_judge_s() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        costs, terms = random_instance(rng, 7)
        selected = rng.integers(1, 8, 5)
        profiles = Profiles.plain(7, selected, rng.integers(1, selected + 1))
        found = score(OrderedCosts.of(costs), profiles, terms).objective[0]
        for place in range(5):
            p = profiles.take(np.array([place])).probabilities()
            assert p.sum() == pytest.approx(1, abs=1e-14)
            assert found[place] == pytest.approx(judged(p, costs, terms)[0], rel=1e-11)


def test_bounds_keep_the_optimum_and_drop_the_rest() -> None:
    rng = np.random.default_rng(8)
    left = []
    for _ in range(40):
        costs, terms = random_instance(rng, 60)
        choice = solve_jsam(costs, terms)
        value = objective(choice, costs, terms)
        bounds = Bounds(OrderedCosts.of(costs), value, np.arange(1, 61), terms)
        assert np.count_nonzero(choice.probabilities) in bounds.selected
        left.append(len(bounds.selected))
    assert np.median(left) < 20


def test_a_hundred_thousand_clients_at_a_low_cap() -> None:
    costs = 2 * np.random.default_rng(9).random(100_000)
    terms = Terms(10.0, 1.0, 0.01)
    choice = solve_jsam(costs, terms)
    assert np.count_nonzero(choice.budgets >= 0.01) > 1000
    certificate = certify(choice, costs, terms, optimises_selection=True)
    assert certificate.kkt_residual < 1e-3  # how j, a whole number, differs from a real one
    without = best_budgets(solve_jsam(costs, Terms(10.0)).probabilities, costs, terms)
    assert (without <= 0.01).all()


def test_costs_too_small_for_their_powers_count_as_nothing() -> None:
    terms = Terms(1.0, 1.0, 5.0)
    tiny: list[Any] = [1e-200, 0.5]
    assert np.array_equal(solve_jsam(tiny, terms).budgets, solve_jsam([0.0, 0.5], terms).budgets)
