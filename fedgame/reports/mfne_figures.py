"""Figures of a mean-field equilibrium: what each preference plays, and what that is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedgame.games.best_response import FloatArray
from fedgame.reports.mfne_result import SolvedMeanField, played_strengths
from fedgame.reports.style import BLUE, GREY, ORANGE, finish, log_axis, plottable

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

WIDE: Final = 5.0
"""An axis is logarithmic over a larger ratio than this."""

SMALLEST_DELTA: Final = 1e-12
"""A smaller delta is drawn as this: no accountant resolves it."""


def strength_by_preference(solved: SolvedMeanField) -> Figure:
    """Plot what each type plays, marks as large as their probability, and the type's mean.

    Args:
        solved: The equilibrium.
    """
    from plotly.graph_objects import Figure, Scatter

    rows = list(played_strengths(solved))
    played = Scatter(
        x=[row.beta for row in rows],
        y=[row.strength for row in rows],
        customdata=[[row.probability, row.epsilon] for row in rows],
        mode="markers",
        name="Strength played",
        marker={
            "color": BLUE,
            "size": [4 + 8 * float(np.sqrt(row.probability)) for row in rows],
            "line": {"color": BLUE, "width": 1},
        },
        opacity=0.8,
        cliponaxis=False,
        hovertemplate="β = %{x:.4g}<br>strength %{y:.4g}, probability %{customdata[0]:.4g}<br>"
        "sound ε %{customdata[1]:.4g}<extra></extra>",
    )
    mean = Scatter(
        x=solved.betas.tolist(),
        y=solved.means().tolist(),
        mode="lines",
        name="Mean of the type",
        line={"color": BLUE, "width": 1.5},
        hoverinfo="skip",
    )
    figure = Figure([mean, played])
    _level(figure, solved.equilibrium.mean_strength, "Mean of all, s̄", "dash", solved.betas)
    _level(figure, solved.price.optimum.mean_strength, "Social optimum", "dot", solved.betas)
    figure.update_xaxes(title="Preference β")
    figure.update_yaxes(title="Strength s")
    _axis(figure, "x", solved.betas)
    _axis(figure, "y", solved.grid)
    return finish(figure, height=380, legend=True)


def _level(figure: Figure, height: float, name: str, dash: str, betas: FloatArray) -> None:
    from plotly.graph_objects import Scatter

    color = GREY if dash == "dash" else ORANGE
    low, high = float(betas[0]), float(betas[-1])
    # one preference leaves no width to draw in
    ends = [low, high] if high > low else [low / 1.5, high * 1.5]
    line = Scatter(
        x=ends,
        y=[height, height],
        mode="lines",
        name=name,
        line={"color": color, "width": 1.5, "dash": dash},
        hovertemplate=f"{name}: %{{y:.4g}}<extra></extra>",
    )
    figure.add_trace(line)


def _axis(figure: Figure, axis: str, values: FloatArray, **where: int) -> None:
    low, high = float(values.min()), float(values.max())
    if high > WIDE * low > 0:
        log_axis(figure, axis, low, high, **where)


def distribution(solved: SolvedMeanField) -> Figure:
    """Plot the population over the grid, and below it what each strength gives: the deltas.

    Args:
        solved: The equilibrium.
    """
    from plotly.graph_objects import Bar
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, shared_xaxes=True, vertical_spacing=0.08)
    labels = [f"{strength:.4g}" for strength in solved.grid]
    bars = Bar(
        x=labels,
        y=solved.equilibrium.population.tolist(),
        name="Share of clients",
        marker_color=GREY,
        width=0.5,
        hovertemplate="strength %{x}: %{y:.1%}<extra></extra>",
    )
    figure.add_trace(bars, row=1, col=1)
    deltas = [("Sound δ at ε = 1", solved.sound_deltas, BLUE, "circle")]
    if solved.claimed_deltas is not None:
        deltas.append(("Claimed δ", solved.claimed_deltas, ORANGE, "diamond-open"))
    for name, values, color, symbol in deltas:
        figure.add_trace(_deltas(labels, values, name, color, symbol), row=2, col=1)
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=labels)
    figure.update_xaxes(title="Strength s", row=2, col=1)
    figure.update_yaxes(title="Share", tickformat=".0%", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title="δ", row=2, col=1)
    drawn = np.concatenate([values for _, values, _, _ in deltas])
    _axis(figure, "y", np.clip(drawn, SMALLEST_DELTA, None), row=2, col=1)
    return finish(figure, height=520, legend=True)


def _deltas(labels: list[str], values: FloatArray, name: str, color: str, symbol: str) -> Any:
    from plotly.graph_objects import Scatter

    return Scatter(
        x=labels,
        y=plottable(np.clip(values, SMALLEST_DELTA, None).tolist()),
        customdata=values.tolist(),
        mode="lines+markers",
        name=name,
        line={"color": color, "width": 1.5},
        marker={"color": color, "symbol": symbol, "size": 9, "line": {"color": color, "width": 2}},
        cliponaxis=False,
        hovertemplate="strength %{x}: δ = %{customdata:.4g}<extra>" + name + "</extra>",
    )
