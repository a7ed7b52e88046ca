"""Figures of a solution of the coupled equations: densities, strengths, means and residuals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.hjb_fpk import HjbFpkSolution
from fedgame.reports.hjb_fpk_summary import masses, type_strengths
from fedgame.reports.style import BLUE, GREY, finish, log_axis, plottable, thinned

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PANELS: Final = 3
"""Types with a panel of their own: of more, the lowest, a middle and the highest preference."""
MOST_LINES: Final = 9
"""Types with a line of their own; of more, so many evenly chosen."""
SNAPSHOTS: Final = 5
"""Times at which densities are drawn."""
MAP_TIMES: Final = 121
MAP_STATES: Final = 241
"""Most columns and rows of a heat map."""
OUTSIDE: Final = 1e-4
"""States are drawn between which all but this part of the clients are, at every time."""

EDGE: Final = "#e8452c"
"""Of a line on a heat map: apart from every colour of its scale."""

Indices = NDArray[np.intp]


def snapshot_times(solution: HjbFpkSolution) -> list[int]:
    """Return the indices of a few times, from 0 to T."""
    return sorted({int(n) for n in evenly(len(solution.t), SNAPSHOTS)})


def evenly(count: int, most: int) -> Indices:
    """Return at most so many of `count` indices, the first and the last among them."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.intp)


def chosen_types(solution: HjbFpkSolution, most: int) -> list[int]:
    """Return the types that a figure shows, by rising preference."""
    order = np.argsort(np.array(solution.settings.betas), kind="stable")
    return [int(order[k]) for k in evenly(len(order), most)]


def inhabited(solution: HjbFpkSolution) -> slice:
    """Return the range of cells outside of which hardly any client ever is."""
    below = np.cumsum(masses(solution), axis=-1)
    first = np.flatnonzero((below > OUTSIDE / 2).any(axis=(0, 1)))
    last = np.flatnonzero((below < 1 - OUTSIDE / 2).any(axis=(0, 1)))
    if not first.size or not last.size:
        return slice(None)
    return slice(int(first[0]), int(last[-1]) + 2)


def densities(solution: HjbFpkSolution) -> Figure:
    """Plot the density of the state at a few times, one panel a type."""
    types, times = chosen_types(solution, PANELS), snapshot_times(solution)
    figure = _panels(solution, types)
    cells = inhabited(solution)
    x = solution.x[cells]
    shown = thinned(len(x))
    for row, j in enumerate(types, start=1):
        for n, color in zip(times, _ramp(len(times)), strict=True):
            name = f"t = {solution.t[n]:.4g}"
            line = _line(x[shown], solution.mu[j, n, cells][shown], name, color, "x")
            line.update(legendgroup=name, showlegend=row == 1)
            figure.add_trace(line, row=row, col=1)
        figure.update_yaxes(title="Density μ", rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title="State x", row=len(types), col=1)
    return _finish_panels(figure, len(types), legend=True)


def strength_maps(solution: HjbFpkSolution) -> Figure:
    """Plot s*(t, x) as a heat map, one panel a type; nine tenths of its clients between lines."""
    from plotly.graph_objects import Heatmap

    types = chosen_types(solution, PANELS)
    figure = _panels(solution, types)
    cells = inhabited(solution)
    x = solution.x[cells]
    # the last strengths hold for no time at all
    columns, rows = evenly(len(solution.t) - 1, MAP_TIMES), evenly(len(x), MAP_STATES)
    t = solution.t[columns]
    for row, j in enumerate(types, start=1):
        values = solution.s_star[j][:, cells][np.ix_(columns, rows)].T
        heat = Heatmap(
            x=t.tolist(),
            y=x[rows].tolist(),
            z=[plottable(line) for line in values.round(5).tolist()],
            coloraxis="coloraxis",
            hovertemplate="t = %{x:.4g}, x = %{y:.4g}<br>s* = %{z:.4g}<extra></extra>",
        )
        figure.add_trace(heat, row=row, col=1)
        below = np.cumsum(masses(solution)[j][columns], axis=-1)
        for level in (0.05, 0.95):
            edge = solution.x[(below >= level).argmax(axis=-1)]
            line = _line(t, edge, "", EDGE, "t")
            line.update(showlegend=False, hoverinfo="skip", hovertemplate=None, line_width=1.5)
            figure.add_trace(line, row=row, col=1)
        figure.update_yaxes(title="State x", row=row, col=1)
    figure.update_xaxes(title="Time t", row=len(types), col=1)
    figure.update_layout(
        coloraxis={
            "colorscale": "Viridis",
            "cmin": solution.settings.s_min,
            "cmax": max(solution.settings.s_max, solution.settings.s_min * 1.001),
            "colorbar": {"title": {"text": "s*"}, "thickness": 14, "outlinewidth": 0},
        }
    )
    return _finish_panels(figure, len(types), legend=False)


def strengths_at_start(solution: HjbFpkSolution) -> Figure:
    """Plot s* at time 0 against the state, one line a type."""
    from plotly.graph_objects import Figure

    types = chosen_types(solution, MOST_LINES)
    cells = inhabited(solution)
    x = solution.x[cells]
    shown = thinned(len(x))
    figure = Figure(
        [
            _line(x[shown], solution.s_star[j, 0, cells][shown], _beta(solution, j), color, "x")
            for j, color in zip(types, _ramp(len(types)), strict=True)
        ]
    )
    figure.update_xaxes(title="State x")
    figure.update_yaxes(title="Strength s* at t = 0", rangemode="tozero")
    return finish(figure, height=400, legend=True)


def mean_strengths(solution: HjbFpkSolution) -> Figure:
    """Plot the population's mean strength over time, and each type's."""
    from plotly.graph_objects import Figure

    types = chosen_types(solution, MOST_LINES)
    shown = thinned(len(solution.t))
    t, by_type = solution.t[shown], type_strengths(solution)
    traces = [
        _line(t, by_type[j][shown], _beta(solution, j), color, "t", width=1.5)
        for j, color in zip(types, _ramp(len(types)), strict=True)
    ]
    everyone = _line(t, solution.mean_strength[shown], "All, s-bar", BLUE, "t", width=3.5)
    figure = Figure([*(traces if len(types) > 1 else []), everyone])
    figure.update_xaxes(title="Time t")
    figure.update_yaxes(title="Mean strength", rangemode="tozero")
    return finish(figure, height=400, legend=True)


def residuals(solution: HjbFpkSolution) -> Figure:
    """Plot the residual of each Picard iteration and the tolerance."""
    from plotly.graph_objects import Figure, Scatter

    values = np.array(solution.residuals)
    positive = [*values[(values > 0) & np.isfinite(values)], solution.settings.tolerance]
    count = np.arange(1, len(values) + 1)
    shown = thinned(len(values))
    history = Scatter(
        x=count[shown].tolist(),
        y=plottable([value if value > 0 else None for value in values[shown].tolist()]),
        mode="lines+markers",
        line={"color": BLUE},
        hovertemplate="iteration %{x}: %{y:.3g}<extra></extra>",
    )
    figure = Figure([history])
    tolerance = solution.settings.tolerance
    figure.add_hline(y=tolerance, line={"color": GREY, "width": 1.5, "dash": "dash"})
    figure.update_xaxes(
        title="Picard iteration", tickformat="d", dtick=1 if len(values) <= 20 else None
    )
    log_axis(figure, "y", min(positive), max(positive))
    figure.update_yaxes(title="Residual (units of x)")
    return finish(figure)


def _beta(solution: HjbFpkSolution, kind: int) -> str:
    return f"β = {solution.settings.betas[kind]:.4g}"


def _panels(solution: HjbFpkSolution, types: list[int]) -> Figure:
    from plotly.subplots import make_subplots

    return make_subplots(
        rows=len(types),
        shared_xaxes=True,
        vertical_spacing=0.09,
        subplot_titles=[_beta(solution, j) for j in types],
    )


def _finish_panels(figure: Figure, panels: int, *, legend: bool) -> Figure:
    finish(figure, height=140 + 210 * panels, legend=legend)
    # in a tall figure the same fraction of its height is far below the axis
    return figure.update_layout(margin_t=30, legend_y=-0.5 / (1.2 * panels + 0.8))


def _line(
    x: FloatArray, y: FloatArray, name: str, color: str, letter: str, *, width: float = 2.0
) -> Any:
    from plotly.graph_objects import Scatter

    return Scatter(
        x=x.tolist(),
        y=plottable(y.tolist()),
        name=name,
        mode="lines",
        line={"color": color, "width": width},
        hovertemplate=f"{letter} = %{{x:.4g}}: %{{y:.4g}}<extra>{name}</extra>",
    )


def _ramp(count: int) -> list[str]:
    """Return colours of an even change, each visible on a light and on a dark page."""
    from plotly.colors import sample_colorscale

    colors: list[str] = sample_colorscale("Plasma", np.linspace(0.25, 0.8, max(count, 2)).tolist())
    return colors[:count]
