"""Draw the figure of docs/heterogeneity.md from results/heterogeneity.csv with Chromium."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from fedgame.reports.style import BLUE, ORANGE
from scripts.docs_figures import Figures, draw_all, finish_figure
from scripts.table_parts import Rows, listed
from scripts.tables import ROOT

LOOKS: Final = {
    "mfpg": ("MFPG: each its own epsilon", BLUE, "circle"),
    "dp-sgd": ("DP-SGD: the strictest for all", ORANGE, "square-open"),
}


def heterogeneity_figure(rows: Rows) -> Figure:
    """Plot accuracy by seed, and beside it each client's guarantee by its preference."""
    titles = ["Test accuracy", "Guaranteed epsilon of each client, all seeds"]
    figure = make_subplots(rows=1, cols=2, subplot_titles=titles, horizontal_spacing=0.12)
    game = [row for row in rows if row["method"] == "mfpg"]
    betas = listed(game[0]["betas"])
    for method, (name, color, symbol) in LOOKS.items():
        own = [row for row in rows if row["method"] == method]
        look = {
            "mode": "markers",
            "name": name,
            "legendgroup": name,
            "marker": {"color": color, "symbol": symbol, "size": 10 if symbol == "circle" else 15},
        }
        seeds = [row["seed"] for row in own]
        accuracy = [100 * float(row["accuracy"]) for row in own]
        figure.add_trace(Scatter(x=seeds, y=accuracy, **look), row=1, col=1)
        points = [
            (beta, epsilon)
            for row in own
            for beta, epsilon in zip(betas, listed(row["guarantees"]), strict=True)
        ]
        x, y = zip(*points, strict=True)
        figure.add_trace(Scatter(x=x, y=y, showlegend=False, **look), row=1, col=2)
    figure.update_xaxes(title="Seed", type="category", row=1, col=1)
    figure.update_yaxes(title="%", row=1, col=1)
    ticks = [0.3, 0.5, 1, 2, 3]
    figure.update_xaxes(title="beta", type="log", tickvals=ticks, row=1, col=2)
    figure.update_yaxes(title="epsilon at delta 1e-5", rangemode="tozero", row=1, col=2)
    return finish_figure(figure, height=420, legend_y=-0.2)


FIGURES: Final[Figures] = {"heterogeneity.png": ("heterogeneity.csv", heterogeneity_figure)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the figure; return 1 if it cannot be drawn."""
    return draw_all(FIGURES, ROOT / "results", arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
