"""Draw the figure of docs/attacks.md from results/attack/*.csv with headless Chromium."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from plotly.graph_objects import Figure, Scatter

from fedgame.reports.style import BLUE, ORANGE
from scripts.attack_results import RESULTS, STRENGTHS
from scripts.docs_figures import INK, Figures, draw_all, finish_figure
from scripts.table_parts import Rows

LINES: Final = {
    "claimed_delta": ("claimed by the paper", ORANGE, "dash", "square"),
    "sound_delta": ("sound (PLD)", BLUE, "solid", "circle"),
    "attacked_delta": ("attack, proven with 95 %", INK, "dot", "triangle-up"),
}
SMALLEST: Final = 1e-3
"""An attack that proves less is drawn here."""


def two_point_figure(rows: Rows) -> Figure:
    """Plot delta at epsilon 1 against strength where every state is seen, with projections."""
    own = [row for row in rows if (row["setting"], row["sinkhorn"]) == ("every state", "on")]
    figure = Figure()
    for column, (name, color, dash, symbol) in LINES.items():
        line = Scatter(
            x=[float(row["strength"]) for row in own],
            y=[max(float(row[column]), SMALLEST) for row in own],
            name=name,
            mode="lines+markers",
            line={"color": color, "width": 2, "dash": dash},
            marker={"symbol": symbol, "size": 9, "color": color},
            cliponaxis=False,
        )
        figure.add_trace(line)
    texts = [f"{strength:g}" for strength in STRENGTHS]
    figure.update_xaxes(type="log", tickvals=STRENGTHS, ticktext=texts, title="Strength s")
    ticks = [SMALLEST, 0.01, 0.1, 1]
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    figure.update_yaxes(title="Delta at epsilon 1", range=[-3.05, 0.05])
    return finish_figure(figure, height=440, legend_y=-0.18)


FIGURES: Final[Figures] = {"two-point.png": ("two_point.csv", two_point_figure)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the figure; return 1 if it cannot be drawn."""
    return draw_all(FIGURES, RESULTS, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
