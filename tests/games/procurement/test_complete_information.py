"""A server that knows costs, and why a total cost held fixed is for such a server only."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Choice, Terms
from fedgame.games.procurement.complete_information import JsamCi, solve_fixed_cost
from fedgame.games.procurement.jsam import Jsam, solve_jsam
from tests.games.procurement.judge import descending_grid


def objective(choice: Choice, q: float) -> float:
    p = choice.probabilities
    distance = np.abs(p - 1 / len(p)).sum()
    selected = p > 0
    noise = q * ((p[selected] / choice.budgets[selected]) ** 2).sum()
    return float(distance + np.sqrt(distance**2 + noise))


def grid_objective(p: FloatArray, costs: FloatArray, total: float, q: float) -> FloatArray:
    """Return the objective of each row of probabilities, with the best budgets of cost `total`."""
    distance = np.abs(p - 1 / len(costs)).sum(axis=1)
    power_sum = (np.cbrt(p * costs) ** 2).sum(axis=1)
    return np.asarray(distance + np.sqrt(distance**2 + q * power_sum**3 / total**2))


def test_complete_information_is_jsam_at_the_costs_themselves() -> None:
    costs, terms = np.array([0.3, 0.1, 0.8]), Terms(2.0, epsilon_max=4)
    assert np.array_equal(JsamCi().choose(costs, terms).budgets, solve_jsam(costs, terms).budgets)
    assert JsamCi().complete_information
    assert not Jsam().complete_information


@pytest.mark.parametrize(("report", "sold"), [(0.04, 1.043), (0.05, 2.0)])
def test_with_a_fixed_total_a_budget_rises_in_the_own_report(report: float, sold: float) -> None:
    found = solve_fixed_cost([2 * report, 0.6], total_cost=0.2)
    assert found.budgets[0] == pytest.approx(sold, abs=5e-4)
    assert 2 * report * found.budgets[0] + 0.6 * found.budgets[1] == pytest.approx(0.2)


def test_with_a_fixed_total_a_client_gains_by_misreporting() -> None:
    def sold(report: float) -> float:
        return float(solve_fixed_cost([2 * report, 0.6], total_cost=0.2).budgets[0])

    def gain(claim: float) -> float:
        rent, _ = quad(sold, claim, 1, points=[0.0497, 0.3, 0.5], limit=200, epsabs=1e-6)
        return float((claim - 0.006) * sold(claim) + rent)

    assert gain(0.0497) > gain(0.006) + 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_a_fixed_total_is_spent_as_well_as_on_a_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 3 + seed % 2
    costs = np.sort(rng.uniform(0.05, 2, n))
    grid = descending_grid(n, 120 if n == 3 else 40)
    for total in (0.05, 0.3, 2.0):
        q = 10 ** rng.uniform(-1, 1)
        found = solve_fixed_cost(costs, total, q)
        assert found.probabilities.sum() == pytest.approx(1, abs=1e-14)
        assert costs @ found.budgets == pytest.approx(total, rel=1e-12)
        best = grid_objective(grid, costs, total, q).min()
        assert objective(found, q) <= best * (1 + 1e-9)
        on_own = grid_objective(found.probabilities[None], costs, total, q)[0]
        assert objective(found, q) == pytest.approx(on_own, rel=1e-12)


def test_the_last_probability_may_lie_inside() -> None:
    costs = np.array([0.02, 0.6])
    found = solve_fixed_cost(costs, 0.2)
    line = np.linspace(0.5, 1, 200_001)
    values = grid_objective(np.stack([line, 1 - line], axis=1), costs, 0.2, 1.0)
    assert found.probabilities[0] == pytest.approx(line[np.argmin(values)], abs=1e-5)
    assert 0.01 < found.probabilities[1] < 0.49


def test_where_eta_spends_as_much_both_agree() -> None:
    # with p uniform, B = sqrt(eta) Q^(1/4) S^(3/4): an eta for every total
    costs = np.array([0.7, 0.3, 0.4])
    eta = brentq(lambda x: costs @ solve_jsam(costs, Terms(x)).budgets - 5.0, 1.0, 1e4)
    assert solve_fixed_cost(costs, 5.0).budgets == pytest.approx(
        solve_jsam(costs, Terms(eta)).budgets, rel=1e-8
    )


def test_clients_keep_their_places() -> None:
    sorted_ones = solve_fixed_cost([0.1, 0.2, 0.9], 0.4)
    shuffled = solve_fixed_cost([0.9, 0.1, 0.2], 0.4)
    assert np.array_equal(shuffled.budgets, sorted_ones.budgets[[2, 0, 1]])


def test_one_client_gets_everything() -> None:
    found = solve_fixed_cost([0.5], 0.2)
    assert (found.probabilities.tolist(), found.budgets.tolist()) == ([1.0], [0.4])


@pytest.mark.parametrize(
    ("costs", "total", "q", "said"),
    [
        ([0.1, 0.2], 0.0, 1.0, r"total_cost = 0\.0: must be a finite number > 0"),
        ([0.1, 0.2], np.nan, 1.0, r"total_cost = nan"),
        ([0.1, 0.2], 1.0, -1.0, r"q = -1\.0: must be a finite number > 0"),
        ([0.1, -0.2], 1.0, 1.0, r"client 1 = -0\.2: must be a finite number >= 0"),
        ([0.1, 0.0], 1.0, 1.0, "client 1 costs nothing"),
        ([], 1.0, 1.0, "at least one"),
    ],
)
def test_bad_input_is_refused(costs: list[float], total: float, q: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        solve_fixed_cost(costs, total, q)
