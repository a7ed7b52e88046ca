"""The figures of a purchase, as functions of arrays, and the page that holds them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fedgame.games.procurement.allocation import allocate
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.complete_information import JsamCi
from fedgame.games.procurement.jsam import Jsam
from fedgame.games.procurement.prior_spec import parse_prior
from fedgame.reports import style
from fedgame.reports.procurement_figures import (
    payments_and_costs,
    selection_and_budgets,
    threshold,
)
from fedgame.reports.procurement_page import SolvedPurchase, notes, render_purchase

V = np.array([0.8, 0.2, 1.8, 0.4])
P = np.array([0.25, 0.5, 0.0, 0.25])
EPSILON = np.array([0.35, 0.9, 0.0, 0.45])
NAMES = ["c", "a", "d", "b"]


def points(trace: Any) -> list[tuple[str, float, float]]:
    return list(zip(trace.customdata, trace.x, trace.y, strict=True))


def test_probability_and_budget_stand_at_the_virtual_cost() -> None:
    figure = selection_and_budgets(V, P, EPSILON, NAMES)
    probability, out, budget, out_below = figure.data
    assert points(probability) == [("a", 0.2, 0.5), ("b", 0.4, 0.25), ("c", 0.8, 0.25)]
    assert points(budget) == [("a", 0.2, 0.9), ("b", 0.4, 0.45), ("c", 0.8, 0.35)]
    assert points(out) == points(out_below) == [("d", 1.8, 0.0)]
    json.loads(figure.to_json())


def test_the_threshold_is_marked_between_the_last_in_and_the_first_out() -> None:
    figure = selection_and_budgets(V, P, EPSILON, NAMES)
    assert [shape.x0 for shape in figure.layout.shapes] == [pytest.approx(1.3)] * 2
    assert [note.text for note in figure.layout.annotations] == ["threshold"]


@pytest.mark.parametrize("p", [[0.25] * 4, [0.5, 0.0, 0.5, 0.0]])
def test_no_threshold_where_all_are_selected_or_not_by_cost(p: list[float]) -> None:
    assert threshold(V, np.array(p)) is None
    figure = selection_and_budgets(V, np.array(p), np.array(p), NAMES)
    assert not figure.layout.shapes
    assert not figure.layout.annotations


def test_a_cheapest_client_that_dwarfs_the_others_does_not_hide_them() -> None:
    budgets = np.array([0.1, 40.0, 0.0, 0.2])
    figure = selection_and_budgets(V, P, budgets, NAMES)
    assert figure.layout.yaxis.type is None
    assert figure.layout.yaxis2.type == "log"
    # no logarithm shows 0, so who is out lies below all others
    assert 0 < figure.data[3].y[0] < 0.1
    assert "= 0" in figure.data[3].hovertemplate
    assert [float(tick) for tick in figure.layout.yaxis2.ticktext] == [
        0.1,
        0.2,
        0.5,
        1,
        2,
        5,
        10,
        20,
    ]


def test_a_prior_with_a_heavy_tail_gets_a_logarithmic_axis_with_the_threshold_in_place() -> None:
    v = np.array([0.8, 0.2, 90.0, 0.4])
    figure = selection_and_budgets(v, P, EPSILON, NAMES)
    assert figure.layout.xaxis.type == figure.layout.xaxis2.type == "log"
    assert [shape.x0 for shape in figure.layout.shapes] == [pytest.approx(45.4)] * 2
    assert figure.layout.annotations[0].x == pytest.approx(np.log10(45.4))
    free = selection_and_budgets(np.array([0.8, 0.0, 90.0, 0.4]), P, EPSILON, NAMES)
    assert free.layout.xaxis.type is None


def test_payment_and_cost_stand_at_the_reported_sensitivity() -> None:
    c, pay = V / 2, np.array([0.2, 0.3, 0.0, 0.25])
    payment, cost = payments_and_costs(c, EPSILON, pay, NAMES).data
    assert points(payment) == [("a", 0.1, 0.3), ("b", 0.2, 0.25), ("c", 0.4, 0.2), ("d", 0.9, 0.0)]
    assert [y for _, _, y in points(cost)] == pytest.approx([0.09, 0.09, 0.14, 0.0])


def test_many_clients_are_thinned_and_the_axis_says_so() -> None:
    n = style.MAX_POINTS + 500
    v = np.random.default_rng(0).permutation(np.linspace(0.01, 1, n))
    names = [str(k) for k in range(n)]
    figure = selection_and_budgets(v, np.full(n, 1 / n), v, names)
    assert len(figure.data[0].x) == style.MAX_POINTS
    assert (figure.data[0].x[0], figure.data[0].x[-1]) == (0.01, 1.0)
    assert "2,000 of 2,500 clients" in figure.layout.xaxis2.title.text


def purchase(
    mechanism: Any, *, payments: bool = True, prior: str = "uniform:0:1"
) -> SolvedPurchase:
    c, terms = np.array([0.1, 0.2, 0.4, 0.6, 0.9]), Terms(1.0, epsilon_max=0.8)
    bought = allocate(mechanism, c, parse_prior(prior), terms, payments=payments)
    names = ["<b>x</b>", "</script><script>alert(1)</script>", "c", "d", "e"]
    return SolvedPurchase(names, c, prior, terms, bought)


def test_the_page_has_the_numbers_and_both_figures() -> None:
    html = render_purchase(purchase(Jsam()))
    assert "<h1>JSAM: 5 clients, prior uniform:0:1</h1>" in html
    assert "of 5 clients can be selected" in html
    assert html.count('class="plot"') == 2
    assert "The cap binds: some budgets are at 0.8." in html


def test_without_payments_there_is_one_figure() -> None:
    html = render_purchase(purchase(Jsam(), payments=False))
    assert html.count('class="plot"') == 1
    assert "Total payment" not in html


def test_a_name_cannot_leave_its_place_on_the_page() -> None:
    html = render_purchase(purchase(Jsam()))
    assert "<b>x" not in html
    assert "</script><script>alert" not in html


def test_notes_say_what_the_numbers_do_not() -> None:
    assert not any("iron" in note for note in notes(purchase(Jsam())))
    assert any("iron" in note for note in notes(purchase(Jsam(), prior="beta:0.5:0.5")))
    assert any("gain by reporting" in note for note in notes(purchase(JsamCi())))
    assert "leaves no gap" in render_purchase(purchase(JsamCi()))


def test_clients_that_cost_nothing_are_drawn_too() -> None:
    figure = selection_and_budgets(np.zeros(4), np.full(4, 0.25), np.full(4, 9.0), NAMES)
    assert figure.layout.xaxis.type is None
    assert sorted(x for trace in figure.data for x in trace.x) == [0.0] * 8
