"""Draw the figure of docs/flow.md from results/flow/curve.csv with headless Chromium."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from fedgame.reports.style import BLUE, ORANGE
from scripts.docs_figures import Figures, draw_all, finish_figure
from scripts.flow_curve import RESULTS
from scripts.flow_tables import mean, points
from scripts.table_parts import Rows

Look = tuple[str, str, str, str]
"""Name, colour, dash and mark of a line."""

GREEN: Final = "#009e73"
DARK: Final = "#4d4d4d"
DATA_LOOKS: Final = ((BLUE, "circle"), (ORANGE, "square"))
"""Colour and mark of the data reading, one a strength."""
RAW_LOOKS: Final[Mapping[str, Look]] = {
    "parameters": ("parameter reading", GREEN, "dash", "triangle-up"),
    "dp-sgd": ("DP-SGD", DARK, "dot", "diamond"),
}
PANELS: Final = (("logistic", "accuracy"), ("quadratic", "loss"))
EPSILON_TICKS: Final = (0.03, 0.1, 0.3, 1, 3, 10)


def _line(look: Look, x: Sequence[float], y: Sequence[float], *, first: bool) -> Scatter:
    name, color, dash, symbol = look
    return Scatter(
        x=x,
        y=y,
        name=name,
        legendgroup=name,
        showlegend=first,
        mode="lines+markers",
        line={"color": color, "width": 2, "dash": dash},
        marker={"symbol": symbol, "size": 9, "color": color},
    )


def curve_figure(rows: Rows) -> Figure:
    """Plot epsilon against the burn-in, and beside it utility at that epsilon, means over seeds."""
    titles = ["Cost of the burn-in", "Logistic: test accuracy", "Quadratic: test loss"]
    figure = make_subplots(rows=1, cols=3, subplot_titles=titles, horizontal_spacing=0.09)
    for column, (task, measure) in enumerate(PANELS, start=2):
        found = points(rows, task)
        strengths = sorted({strength for strength, _ in found})
        for strength, (color, symbol) in zip(strengths, DATA_LOOKS, strict=True):
            own = {k: methods["data"] for (s, k), methods in found.items() if s == strength}
            look = (f"data reading, s = {strength:g}", color, "solid", symbol)
            cost = [mean(each, "epsilon") for each in own.values()]
            utility = [mean(each, measure) for each in own.values()]
            if column == 2:
                trace = _line(look, list(own), cost, first=True)
                figure.add_trace(trace, row=1, col=1)
            trace = _line(look, cost, utility, first=False)
            figure.add_trace(trace, row=1, col=column)
        for method, raw_look in RAW_LOOKS.items():
            pairs = sorted(
                (mean(each[method], "epsilon"), mean(each[method], measure))
                for each in found.values()
            )
            cost, utility = [x for x, _ in pairs], [y for _, y in pairs]
            figure.add_trace(_line(raw_look, cost, utility, first=column == 2), row=1, col=column)
    ticks = {
        "type": "log",
        "tickvals": EPSILON_TICKS,
        "ticktext": [f"{t:g}" for t in EPSILON_TICKS],
    }
    figure.update_xaxes(title="Steps K", col=1)
    figure.update_yaxes(title="Epsilon at delta 1e-5", **ticks, col=1)
    for column in (2, 3):
        figure.update_xaxes(title="Epsilon at delta 1e-5", **ticks, col=column)
    return finish_figure(figure, height=420, legend_y=-0.22)


FIGURES: Figures = {"flow-curve.png": ("curve.csv", curve_figure)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the figure."""
    return draw_all(FIGURES, RESULTS, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
