"""Draw the figure of docs/population.md from results/population/scaling.csv."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from fedgame.reports.style import BLUE, ORANGE
from scripts.docs_figures import Figures, draw_all, finish_figure
from scripts.population import SCALING
from scripts.table_parts import Rows

LOOKS: Final = {"logistic": (BLUE, "circle"), "quadratic": (ORANGE, "square")}
KINDS: Final = {
    "choice_seconds": ("all clients choose", "solid"),
    "plain_seconds": ("nobody chooses", "dot"),
}
MICROSECONDS: Final = 1e6
GIBIBYTE: Final = 1024


def scaling_figure(rows: Rows) -> Figure:
    """Plot the cost of a client in a round, and the memory of all processes, by clients."""
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.12)
    for task, (color, symbol) in LOOKS.items():
        own = sorted((row for row in rows if row["task"] == task), key=_clients)
        for column, (kind, dash) in KINDS.items():
            costs = [MICROSECONDS * float(row[column]) / _clients(row) for row in own]
            figure.add_trace(
                Scatter(
                    x=[_clients(row) for row in own],
                    y=costs,
                    name=f"{task}, {kind}",
                    line={"color": color, "width": 2, "dash": dash},
                    marker={"symbol": symbol, "size": 8},
                ),
                row=1,
                col=1,
            )
        figure.add_trace(
            Scatter(
                x=[_clients(row) for row in own],
                y=[float(row["peak_mebibytes"]) / GIBIBYTE for row in own],
                showlegend=False,
                line={"color": color, "width": 2},
                marker={"symbol": symbol, "size": 8},
            ),
            row=1,
            col=2,
        )
    finish_figure(figure, height=420, legend_y=-0.26)
    figure.update_xaxes(title="Clients", type="log", dtick=1)
    figure.update_yaxes(title="Microseconds a client and round", type="log", dtick=1, col=1)
    figure.update_yaxes(title="GiB of all processes", rangemode="tozero", col=2)
    return figure


def _clients(row: Mapping[str, str]) -> int:
    return int(row["clients"])


FIGURES: Figures = {"population.png": (SCALING.name, scaling_figure)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the figure."""
    return draw_all(FIGURES, SCALING.parent, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
