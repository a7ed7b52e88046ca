"""Figures of a run that bought privacy: what became of the budgets, the schedule and the money."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedgame.reports import procurement_figures
from fedgame.reports.deals import Deal, deals
from fedgame.reports.figures import MAX_LEVELS
from fedgame.reports.style import (
    BLUE,
    GREY,
    ORANGE,
    client_axis,
    finish,
    log_axis,
    marks,
    plottable,
    thinned,
)
from fedgame.strategies.base import RunResult

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

NO_DRAW: Final = 0.5
"""Where 0 stands on a logarithmic axis of counts."""


def selection_and_budgets(result: RunResult) -> Figure | None:
    """Plot each client's probability and budget against its virtual cost."""
    sold = deals(result)
    if not sold:
        return None
    return procurement_figures.selection_and_budgets(
        np.array([deal.purchase.virtual_cost for deal in sold]),
        np.array([deal.purchase.probability for deal in sold]),
        np.array([deal.purchase.budget for deal in sold]),
        _names(sold),
        cost=_cost_title(sold),
    )


def payments_and_costs(result: RunResult) -> Figure | None:
    """Plot each client's payment, and what the budget costs it, against its report."""
    sold = deals(result)
    if not sold:
        return None
    return procurement_figures.payments_and_costs(
        np.array([deal.purchase.report for deal in sold]),
        np.array([deal.purchase.budget for deal in sold]),
        np.array([deal.purchase.payment for deal in sold]),
        _names(sold),
    )


def bought_and_spent(result: RunResult) -> Figure | None:
    """Plot the epsilon that each client spent against the epsilon that was bought from it.

    Clients from which nothing was bought are left out. Both axes are logarithmic where budgets
    differ widely; who spent nothing is then at the bottom.
    """
    from plotly.graph_objects import Figure

    sold = [deal for deal in deals(result) if deal.purchase.budget > 0]
    if not sold:
        return None
    sold.sort(key=lambda deal: deal.purchase.budget)
    title = client_axis("ε bought", len(sold))
    low, high = _extent(sold)
    is_wide = high > procurement_figures.WIDE * low
    shown = [sold[k] for k in thinned(len(sold))]
    figure = Figure(_all_spent(low if is_wide else 0.0, high))
    for trace in _spent(shown, low / 2 if is_wide else 0.0):
        figure.add_trace(trace)
    figure.update_xaxes(title=title)
    figure.update_yaxes(title="ε spent")
    if is_wide:
        log_axis(figure, "x", low, high)
        log_axis(figure, "y", low, high)
    else:
        figure.update_layout(xaxis_range=padded(high), yaxis_range=padded(high))
    return finish(figure, height=360, legend=True)


def _extent(sold: Sequence[Deal]) -> tuple[float, float]:
    values = [deal.purchase.budget for deal in sold] + [deal.spent or 0.0 for deal in sold]
    positive = [value for value in values if 0 < value < inf]
    return min(positive), max(positive)


def _all_spent(low: float, high: float) -> Any:
    from plotly.graph_objects import Scatter

    return Scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        name="All that was bought",
        line={"color": GREY, "width": 1.5, "dash": "dash"},
        hoverinfo="skip",
    )


def _spent(sold: Sequence[Deal], bottom: float) -> list[Any]:
    """Return a trace of the clients that spent something, and one of those that did not."""
    some = [deal for deal in sold if deal.spent != 0]
    none = [deal for deal in sold if deal.spent == 0]
    hover = "bought ε = %{x:.4g}<br>spent ε = "
    traces = [
        marks(
            [deal.purchase.budget for deal in some],
            [deal.spent for deal in some],
            _names(some),
            name="Spent, by PLD",
            color=ORANGE,
            symbol="diamond",
            hover=f"{hover}%{{y:.4g}}<extra></extra>",
            crowd=len(sold),
        )
    ]
    if none:
        traces.append(
            marks(
                [deal.purchase.budget for deal in none],
                [bottom] * len(none),
                _names(none),
                name="Nothing spent",
                color=GREY,
                symbol="x-thin",
                hover=f"{hover}0<extra></extra>",
                crowd=len(sold),
            )
        )
    return traces


def selection_counts(result: RunResult) -> Figure | None:
    """Plot how often each client was scheduled and how often it released, by virtual cost.

    Clients that cannot be drawn are left out. The axis of counts is logarithmic where they differ
    widely, with a place for 0.
    """
    from plotly.graph_objects import Figure

    sold = [deal for deal in deals(result) if deal.purchase.probability > 0]
    if not sold:
        return None
    sold.sort(key=lambda deal: deal.purchase.virtual_cost)
    total = sum(deal.purchase.scheduled for deal in sold)
    high = max(max(deal.purchase.scheduled, deal.purchase.probability * total) for deal in sold)
    is_wide = high > procurement_figures.WIDE
    shown = [sold[k] for k in thinned(len(sold))]
    figure = Figure(_counts(shown, total, NO_DRAW if is_wide else 0.0))
    figure.update_xaxes(title=client_axis(_cost_title(sold), len(sold)))
    figure.update_yaxes(title="Draws")
    if is_wide:
        log_axis(figure, "y", 1.0, high)
        axis = figure.layout.yaxis
        axis.update(tickvals=[NO_DRAW, *axis.tickvals], ticktext=["0", *axis.ticktext])
    else:
        figure.update_yaxes(range=padded(high))
    return finish(figure, legend=True)


def _counts(sold: Sequence[Deal], total: int, bottom: float) -> list[Any]:
    """Return the traces of what was expected, scheduled and released, none below the bottom."""
    series = (
        ("Expected", [deal.purchase.probability * total for deal in sold], GREY, "line-ew-open"),
        ("Scheduled", [float(deal.purchase.scheduled) for deal in sold], BLUE, "circle-open"),
        ("Released", [float(deal.purchase.released) for deal in sold], ORANGE, "x-thin"),
    )
    traces = []
    for name, counts, color, symbol in series:
        trace = marks(
            [deal.purchase.virtual_cost for deal in sold],
            [max(count, bottom) for count in counts],
            _names(sold),
            name=name,
            color=color,
            symbol=symbol,
            hover=f"v = %{{x:.4g}}<br>{name.lower()} %{{text}}<extra></extra>",
        )
        traces.append(trace.update(text=[f"{count:.4g}" for count in counts]))
    return traces


def padded(high: float) -> list[float]:
    """Return the range of an axis from 0 to `high` that leaves room for marks at its ends."""
    return [-0.05 * high, 1.08 * high]


def accuracy_by_money(result: RunResult) -> Figure | None:
    """Plot test accuracy, or the loss of a regression, against the money used so far."""
    from plotly.graph_objects import Figure, Scatter

    if result.procurement is None or not result.rounds:
        return None
    classifies = any(record.accuracy is not None for record in result.rounds)
    reached = [record.accuracy if classifies else record.loss for record in result.rounds]
    name, shown = ("Test accuracy", "%{y:.2%}") if classifies else ("Test loss", "%{y:.4g}")
    trace = Scatter(
        x=plottable(result.procurement.used),
        y=plottable(reached),
        customdata=[record.round for record in result.rounds],
        name=name,
        mode="lines+markers" if len(result.rounds) <= MAX_LEVELS else "lines",
        line={"color": BLUE if classifies else ORANGE, "width": 2},
        hovertemplate=f"round %{{customdata}}<br>money %{{x:.4g}}<br>{shown}<extra></extra>",
    )
    figure = Figure(trace)
    figure.update_xaxes(title="Money used", rangemode="tozero")
    if classifies:
        figure.update_yaxes(title="Accuracy", tickformat=".0%")
    else:
        figure.update_yaxes(title="Loss", rangemode="tozero")
    return finish(figure)


def _cost_title(sold: Sequence[Deal]) -> str:
    """Return what a mechanism orders clients by: under complete information, the costs."""
    known = all(deal.purchase.virtual_cost == deal.purchase.report for deal in sold)
    return "Cost c" if known else "Virtual cost v"


def _names(sold: Sequence[Deal]) -> list[str]:
    return [str(deal.client.id) for deal in sold]
