"""Draw the figures of docs/aggregative.md from results/pml/*.csv with headless Chromium."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from fedgame.reports.style import BLUE, ORANGE
from scripts.docs_figures import Figures, draw_all, finish_figure
from scripts.pml_settings import RESULTS
from scripts.pml_stopping import BUDGETS
from scripts.table_parts import Rows

SKY: Final = "#56b4e9"
GREEN: Final = "#009e73"
PINK: Final = "#cc79a7"
DARK: Final = "#4d4d4d"

Look = tuple[str, str, str, str]
"""Name, colour, dash and mark of a line: colours of Okabe and Ito, told apart by the others too."""

NOISE_LOOKS: Final[Mapping[str, Look]] = {
    "none": ("no noise", BLUE, "solid", "circle"),
    "low": ("M<sub>k</sub> = 1 + 0.5 k", ORANGE, "dash", "square"),
    "medium": ("M<sub>k</sub> = 1 + k", GREEN, "solid", "triangle-up"),
    "high": ("M<sub>k</sub> = 1 + 1.5 k", PINK, "dot", "diamond"),
}
RULE_LOOKS: Final[Mapping[str, Look]] = {
    "filter": ("filter (exact)", BLUE, "solid", "circle"),
    "theorem-1": ("Theorem 1", ORANGE, "dash", "square"),
    "corollary-2": ("Corollary 2", GREEN, "solid", "triangle-up"),
    "group-dp": ("group DP", PINK, "dot", "diamond"),
}
BOUND_LOOKS: Final[Mapping[str, Look]] = {
    "group_dp": ("group DP", PINK, "dot", "diamond"),
    "theorem_1": ("Theorem 1", ORANGE, "dash", "square"),
    "exact": ("exact leakage", BLUE, "solid", "circle"),
    "bayes": ("Bayes adversary", GREEN, "solid", "triangle-up"),
    "matching": ("gradient matching over blind", SKY, "dash", "x"),
    "matching_as_in_paper": ("the same as the paper counts", DARK, "dot", "cross"),
    "ceiling": ("ceiling", "#000000", "longdash", ""),
}
PLAYER_LOOKS: Final[Mapping[str, Look]] = {
    "ceiling": ("ceiling", "#000000", "longdash", ""),
    "lemma_5_upper": ("Lemma 5 (1), upper", ORANGE, "dash", "square"),
    "exact": ("exact, Lemma 5's transcript", BLUE, "", "circle"),
    "lemma_5_lower": ("Lemma 5 (2), mended", BLUE, "solid", ""),
    "dp": ("DP of a player", PINK, "dot", ""),
    "mean_exact": ("exact, mean of runs", GREEN, "solid", "triangle-up"),
    "matching": ("gradient matching over blind", SKY, "dash", "x"),
    "matching_as_in_paper": ("the same as the paper counts", DARK, "dot", "cross"),
}
LEFT_PANEL: Final = ("ceiling", "group_dp", "theorem_1", "exact")
RIGHT_PANEL: Final = ("exact", "bayes", "matching", "matching_as_in_paper")
EVERY: Final = 4
"""Lines over iterations have a mark at each fourth."""


def _line(look: Look, rows: Rows, x: str, y: str, **more: Any) -> Scatter:
    """Return a line through all rows that have a number there."""
    name, color, dash, symbol = look
    shown = [row for row in rows if row[y]]
    modes = [mode for mode, wanted in (("lines", dash), ("markers", symbol)) if wanted]
    return Scatter(
        x=[float(row[x]) for row in shown],
        y=[float(row[y]) for row in shown],
        name=name,
        legendgroup=name,
        mode="+".join(modes),
        line={"color": color, "width": 2, "dash": dash or "solid"},
        marker={"symbol": symbol or "circle", "size": 8, "color": color},
        **more,
    )


def _sparse(trace: Scatter) -> Scatter:
    """Return a line over iterations with fewer marks."""
    return trace.update(marker={"maxdisplayed": len(trace.x) // EVERY})


def gain_figure(rows: Rows) -> Figure:
    """Plot the gain of gradient matching by iteration, one line a level of noise."""
    figure = Figure()
    for noise, look in NOISE_LOOKS.items():
        own = [row for row in rows if row["noise"] == noise]
        figure.add_trace(_sparse(_line(look, own, "iteration", "gain")))
    own = [row for row in rows if row["noise"] == "none"]
    figure.add_trace(_line(("best blind guess", DARK, "longdash", ""), own, "iteration", "blind"))
    figure.update_xaxes(title="Iteration")
    figure.update_yaxes(title="Gain: cosine similarity + 1", range=[0.9, 2.05])
    return finish_figure(figure, height=420, legend_y=-0.18)


def leakage_figure(rows: Rows) -> Figure:
    """Plot bounds and exact leakage by iteration, and beside them what adversaries gain."""
    titles = ["Leakage and its bounds (logarithmic)", "Leakage and what adversaries gain"]
    figure = make_subplots(rows=1, cols=2, subplot_titles=titles, horizontal_spacing=0.1)
    # message 0 leaks nothing, which a logarithmic axis cannot show
    later = [row for row in rows if int(row["iteration"]) > 0]
    for column, (names, shown) in enumerate(((LEFT_PANEL, later), (RIGHT_PANEL, rows)), start=1):
        for name in names:
            twice = column > 1 and name in LEFT_PANEL
            trace = _line(BOUND_LOOKS[name], shown, "iteration", name, showlegend=not twice)
            figure.add_trace(_sparse(trace), row=1, col=column)
    figure.update_xaxes(title="Iteration")
    ticks = [1, 2, 5, 10, 20, 50, 100, 200]
    figure.update_yaxes(title="Nats", col=1)
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[str(t) for t in ticks], row=1, col=1)
    return finish_figure(figure, height=460, legend_y=-0.18)


def tradeoff_figure(rows: Rows) -> Figure:
    """Plot the least mean squared error against the budget, one panel an update rule."""
    titles = {"ye": "Rule ye", "wang": "Rule wang"}
    figure = make_subplots(
        rows=1, cols=2, subplot_titles=list(titles.values()), horizontal_spacing=0.08
    )
    for column, rule in enumerate(titles, start=1):
        for holder in ("group-dp", "theorem-1", "filter"):
            own = [row for row in rows if row["rule"] == rule and row["holder"] == holder]
            trace = _line(RULE_LOOKS[holder], own, "budget", "error", showlegend=column == 1)
            figure.add_trace(trace, row=1, col=column)
    ticks = [0.1, 0.3, 1, 3, 10, 30, 100]
    figure.update_xaxes(title="Budget R, nats", range=[0, 6.3])
    figure.update_yaxes(
        type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks], range=[-1.1, 2.2]
    )
    figure.update_yaxes(title="Mean squared error", col=1)
    return finish_figure(figure, height=440, legend_y=-0.18)


def correlation_figure(rows: Rows) -> Figure:
    """Plot what one player leaks against the number of players."""
    figure = Figure([_line(look, rows, "players", name) for name, look in PLAYER_LOOKS.items()])
    ticks = [2, 3, 5, 10, 20, 30, 50, 100, 200]
    figure.update_xaxes(type="log", tickvals=ticks, title="Number of players N")
    figure.update_yaxes(title="Nats about player 1")
    return finish_figure(figure, height=520, legend_y=-0.15)


def stopping_figure(rows: Rows) -> Figure:
    """Plot iterations allowed and error reached against the budget, one column a prior."""
    titles = ["Independent types", "Correlated types"]
    figure = make_subplots(
        rows=2, cols=2, subplot_titles=titles, horizontal_spacing=0.08, vertical_spacing=0.08
    )
    for column, prior in enumerate(("product", "correlated"), start=1):
        for rule in reversed(tuple(RULE_LOOKS)):
            own = [row for row in rows if row["prior"] == prior and row["rule"] == rule]
            for row, value in enumerate(("iterations", "error"), start=1):
                first = row == column == 1
                trace = _line(RULE_LOOKS[rule], own, "budget", value, showlegend=first)
                figure.add_trace(trace, row=row, col=column)
    figure.update_xaxes(type="log", tickvals=BUDGETS, ticktext=[f"{r:g}" for r in BUDGETS])
    figure.update_xaxes(title="Budget R, nats", row=2)
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title="Iterations allowed", row=1, col=1)
    figure.update_yaxes(title="Distance to equilibrium", row=2, col=1)
    return finish_figure(figure, height=720, legend_y=-0.1)


FIGURES: Final[Figures] = {
    "pml-gain.png": ("gain.csv", gain_figure),
    "pml-leakage.png": ("leakage.csv", leakage_figure),
    "pml-tradeoff.png": ("tradeoff.csv", tradeoff_figure),
    "pml-correlation.png": ("correlation.csv", correlation_figure),
    "pml-stopping.png": ("stopping.csv", stopping_figure),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the figures; return 1 if one cannot be drawn."""
    return draw_all(FIGURES, RESULTS, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
