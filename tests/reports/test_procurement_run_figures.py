from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from fedgame.reports import procurement_run_figures as figures
from fedgame.reports import style
from fedgame.reports.procurement_section import FIGURES

DRAWN = [draw for _, draw, _ in FIGURES]


def trace(figure: Any, name: str) -> Any:
    (found,) = [each for each in figure.data if each.name == name]
    return found


def points(figure: Any, name: str) -> dict[str, Any]:
    """Return the marks of a trace by client."""
    one = trace(figure, name)
    return dict(zip(one.customdata, zip(one.x, one.y, strict=True), strict=True))


def test_a_purchase_has_every_figure(make_jsam: Any) -> None:
    for draw in DRAWN:
        figure = draw(make_jsam())
        assert figure is not None
        json.loads(figure.to_json())
        assert figure.layout.paper_bgcolor == "rgba(0, 0, 0, 0)"
        assert figure.layout.width is None


def test_a_run_that_bought_nothing_has_only_accuracy_and_loss(make_result: Any) -> None:
    drawn = [draw.__name__ for draw in DRAWN if draw(make_result()) is not None]
    assert drawn == ["accuracy_and_loss"]


def test_selection_and_budgets_are_the_records(make_jsam: Any) -> None:
    result = make_jsam()
    figure = figures.selection_and_budgets(result)
    for name, value in (("Selection probability", "probability"), ("Budget", "budget")):
        assert points(figure, name) == {
            str(k): (purchase.virtual_cost, getattr(purchase, value))
            for k, purchase in enumerate(result.procurement.purchases[:3])
        }
    assert figure is not None
    (line,) = {shape.x0 for shape in figure.layout.shapes}
    assert line == pytest.approx((1.2 + 1.6) / 2)


def test_payments_and_costs_are_the_records(make_jsam: Any) -> None:
    result = make_jsam()
    figure = figures.payments_and_costs(result)
    assert figure is not None
    paid, cost = figure.data
    by_report = {purchase.report: purchase for purchase in result.procurement.purchases}
    sold = [by_report[report] for report in paid.x]
    assert len(sold) == 4
    assert list(paid.y) == [purchase.payment for purchase in sold]
    assert list(cost.y) == pytest.approx([p.report * p.budget for p in sold], rel=1e-15)


def test_spent_is_plotted_against_bought(make_jsam: Any) -> None:
    result = make_jsam()
    figure = figures.bought_and_spent(result)
    bought = [purchase.budget for purchase in result.procurement.purchases]
    assert points(figure, "Spent, by PLD") == {
        str(k): (bought[k], result.clients[k].epsilon["pld"]) for k in (0, 2)
    }
    assert points(figure, "Nothing spent") == {"1": (bought[1], 0.0)}
    line = trace(figure, "All that was bought")
    assert list(line.x) == list(line.y) == [0.0, bought[0]]


def test_budgets_that_differ_widely_get_logarithmic_axes(make_jsam: Any) -> None:
    result = make_jsam(clients=60)
    figure = figures.bought_and_spent(result)
    assert figure is not None
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert all(tick > 0 for tick in figure.layout.xaxis.tickvals)
    lowest = min(value for _, value in points(figure, "Spent, by PLD").values())
    ((_, bottom),) = points(figure, "Nothing spent").values()
    assert 0 < bottom < lowest
    narrow = figures.bought_and_spent(make_jsam())
    assert narrow is not None
    assert narrow.layout.xaxis.type is None


def test_what_nobody_knows_is_a_gap(make_jsam: Any) -> None:
    result = make_jsam()
    first, *others = result.clients
    lost = replace(first, epsilon={"pld": math.inf})
    figure = figures.bought_and_spent(replace(result, clients=(lost, *others)))
    assert figure is not None
    assert points(figure, "Spent, by PLD")["0"][1] is None
    json.loads(figure.to_json())


def test_draws_are_plotted_scheduled_against_released(make_jsam: Any) -> None:
    result = make_jsam()
    figure = figures.selection_counts(result)
    purchases = result.procurement.purchases[:3]
    for name, values in (
        ("Scheduled", [7, 0, 9]),
        ("Released", [5, 0, 9]),
        ("Expected", [16 / 2, 16 / 3, 16 / 4]),
    ):
        assert points(figure, name) == {
            str(k): (purchase.virtual_cost, pytest.approx(value))
            for k, (purchase, value) in enumerate(zip(purchases, values, strict=True))
        }


def test_the_axis_of_draws_has_room_for_marks_at_zero(make_jsam: Any) -> None:
    figure = figures.selection_counts(make_jsam())
    assert figure is not None
    low, high = figure.layout.yaxis.range
    assert low < 0 < 9 < high


def test_counts_that_differ_widely_have_a_place_for_zero(make_jsam: Any) -> None:
    result = make_jsam()
    first, *others = result.procurement.purchases
    often = replace(first, scheduled=900, released=899)
    record = replace(result.procurement, purchases=(often, *others))
    figure = figures.selection_counts(replace(result, procurement=record))
    assert figure is not None
    assert figure.layout.yaxis.type == "log"
    ticks = dict(zip(figure.layout.yaxis.ticktext, figure.layout.yaxis.tickvals, strict=True))
    released = trace(figure, "Released")
    assert list(released.y) == [899, ticks["0"], 9]
    assert list(released.text) == ["899", "0", "9"]
    assert 0 < ticks["0"] < ticks["1"] == 1


def test_accuracy_is_plotted_against_money_used(make_jsam: Any) -> None:
    result = make_jsam()
    figure = figures.accuracy_by_money(result)
    assert figure is not None
    (line,) = figure.data
    assert list(line.x) == list(result.procurement.used) == [0.25, 0.5, 0.75]
    assert list(line.y) == [record.accuracy for record in result.rounds]
    assert list(line.customdata) == [5, 10, 15]


def test_a_regression_plots_loss_against_money_used(make_jsam: Any) -> None:
    result = make_jsam()
    rounds = tuple(replace(record, accuracy=None) for record in result.rounds)
    figure = figures.accuracy_by_money(replace(result, rounds=rounds))
    assert figure is not None
    assert figure.data[0].name == "Test loss"
    assert list(figure.data[0].y) == [record.loss for record in result.rounds]


def test_known_costs_are_not_called_virtual(make_jsam: Any) -> None:
    result = make_jsam()
    known = tuple(replace(p, virtual_cost=p.report) for p in result.procurement.purchases)
    public = replace(result, procurement=replace(result.procurement, purchases=known))
    for each, title in ((result, "Virtual cost v"), (public, "Cost c")):
        counts, budgets = figures.selection_counts(each), figures.selection_and_budgets(each)
        assert counts is not None
        assert budgets is not None
        assert counts.layout.xaxis.title.text == budgets.layout.xaxis2.title.text == title


def test_of_many_clients_a_figure_says_how_many_it_shows(make_jsam: Any) -> None:
    result = make_jsam(clients=4_000, rounds=1)
    for draw in (figures.bought_and_spent, figures.selection_counts):
        figure = draw(result)
        assert figure is not None
        marks = max(len(each.x) for each in figure.data)
        assert style.MAX_POINTS - 1 <= marks <= style.MAX_POINTS
        assert "2,000 of 3,000 clients" in figure.layout.xaxis.title.text
