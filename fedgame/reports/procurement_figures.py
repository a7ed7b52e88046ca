"""Figures of a purchase of privacy: whom the server selects, what it buys, and what it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedgame.games.best_response import FloatArray
from fedgame.reports.style import (
    BLUE,
    GREY,
    ORANGE,
    client_axis,
    finish,
    log_axis,
    marks,
    thinned,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

WIDE: Final = 20.0
"""A larger ratio of largest to smallest height, or largest to median cost, gets a log axis."""


def selection_and_budgets(
    virtual_costs: FloatArray,
    probabilities: FloatArray,
    budgets: FloatArray,
    clients: Sequence[str],
    *,
    cost: str = "Virtual cost v",
) -> Figure:
    """Plot each client's selection probability and budget against its virtual cost.

    A dashed line marks the threshold, beyond which nobody is selected. Who is not selected lies at
    the bottom, grey.

    Args:
        virtual_costs: v_k, shape (clients,).
        probabilities: p_k, shape (clients,).
        budgets: epsilon_k, shape (clients,), > 0 where p_k > 0.
        clients: Their names.
        cost: Title of the axis of virtual costs.
    """
    from plotly.subplots import make_subplots

    order = np.argsort(virtual_costs, kind="stable")
    shown = order[thinned(len(order))]
    names = [clients[k] for k in shown]
    figure = make_subplots(rows=2, shared_xaxes=True, vertical_spacing=0.08)
    panels = (
        ("Selection probability", "Probability p", "p", probabilities, BLUE, "circle-open"),
        ("Budget", "Budget ε", "ε", budgets, ORANGE, "diamond"),
    )
    for row, (name, title, letter, values, color, symbol) in enumerate(panels, start=1):
        look = {"name": name, "color": color, "symbol": symbol}
        for trace in _split(virtual_costs[shown], values[shown], names, letter, look):
            figure.add_trace(trace, row=row, col=1)
        figure.update_yaxes(title=title, row=row, col=1)
        low, high = _positive_range(values)
        if high > WIDE * low:
            log_axis(figure, "y", low, high, row=row, col=1)
        else:
            figure.update_yaxes(rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title=client_axis(cost, len(order)), row=2, col=1)
    # zero has no place on a logarithmic axis
    if virtual_costs.all() and virtual_costs.max() > WIDE * float(np.median(virtual_costs)):
        log_axis(figure, "x", *_positive_range(virtual_costs))
    finish(figure, height=500)
    _mark_threshold(figure, threshold(virtual_costs, probabilities))
    return figure


def _positive_range(values: FloatArray) -> tuple[float, float]:
    positive = values[values > 0]
    return float(positive.min()), float(positive.max())


def _split(
    x: FloatArray, y: FloatArray, names: Sequence[str], letter: str, look: Mapping[str, str]
) -> list[Any]:
    """Return a trace of the clients above 0, and one of those at 0, which no logarithm can show."""
    low, high = _positive_range(y)
    bottom = low / 2 if high > WIDE * low else 0.0
    above = y > 0
    hover = "v = %{x:.4g}<br>"
    traces = [
        marks(
            x[above].tolist(),
            y[above].tolist(),
            [name for name, is_above in zip(names, above, strict=True) if is_above],
            hover=f"{hover}{letter} = %{{y:.4g}}<extra></extra>",
            crowd=len(names),
            **look,
        )
    ]
    if not above.all():
        traces.append(
            marks(
                x[~above].tolist(),
                [bottom] * int((~above).sum()),
                [name for name, is_above in zip(names, above, strict=True) if not is_above],
                hover=f"{hover}{letter} = 0<extra></extra>",
                name="Not selected",
                color=GREY,
                symbol="x-thin",
                crowd=len(names),
            )
        )
    return traces


def _mark_threshold(figure: Figure, place: float | None) -> None:
    if place is None:
        return
    figure.add_vline(x=place, line={"color": GREY, "width": 1.5, "dash": "dash"})
    # of all things on a logarithmic axis only an annotation stands at the logarithm
    shown = log10(place) if figure.layout.xaxis.type == "log" else place
    figure.add_annotation(
        x=shown, y=1, yref="y domain", yanchor="bottom", text="threshold", showarrow=False
    )
    figure.update_layout(margin_t=28)


def threshold(virtual_costs: FloatArray, probabilities: FloatArray) -> float | None:
    """Return the virtual cost between those who are selected and those who are not.

    None where everybody is selected, or where the selection does not go by virtual cost.

    >>> threshold(np.array([0.3, 0.1, 0.2]), np.array([0.0, 0.6, 0.4]))
    0.25
    """
    selected = probabilities > 0
    if selected.all():
        return None
    last, first = virtual_costs[selected].max(), virtual_costs[~selected].min()
    return float((last + first) / 2) if last <= first else None


def payments_and_costs(
    sensitivities: FloatArray, budgets: FloatArray, payments: FloatArray, clients: Sequence[str]
) -> Figure:
    """Plot each client's payment, and its cost c_k epsilon_k, against its reported sensitivity.

    Args:
        sensitivities: c_k, shape (clients,).
        budgets: epsilon_k, shape (clients,).
        payments: pi_k, shape (clients,).
        clients: Their names.
    """
    from plotly.graph_objects import Figure

    order = np.argsort(sensitivities, kind="stable")
    shown = order[thinned(len(order))]
    names = [clients[k] for k in shown]
    figure = Figure()
    traces = (
        ("Payment π", "π", payments, BLUE, "circle-open"),
        ("Cost of privacy c ε", "c ε", sensitivities * budgets, ORANGE, "diamond"),
    )
    for name, letter, values, color, symbol in traces:
        trace = marks(
            sensitivities[shown].tolist(),
            values[shown].tolist(),
            names,
            name=name,
            color=color,
            symbol=symbol,
            hover=f"c = %{{x:.4g}}<br>{letter} = %{{y:.4g}}",
        )
        figure.add_trace(trace)
    figure.update_xaxes(title=client_axis("Reported sensitivity c", len(order)))
    figure.update_yaxes(title="Money", rangemode="tozero")
    return finish(figure, legend=True)
