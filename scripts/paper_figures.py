"""Draw figures 1 to 5 of docs/mfpg-paper.md with headless Chromium."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from math import log10
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from plotly.graph_objects import Bar, Figure, Scatter
from plotly.subplots import make_subplots

from fedgame.reports.style import BLUE, GREY, ORANGE, log_axis
from scripts.docs_figures import Figures, draw_all, finish_figure
from scripts.paper_frontier import FLAT
from scripts.paper_grid import BENCHMARK, CELLS, MODES
from scripts.table_parts import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOKS: Final[Mapping[str, tuple[str, str, str]]] = {
    "dp-sgd": ("DP-SGD", "#4d4d4d", "square"),
    "mfep": ("MFEP", "#009e73", "triangle-up"),
    "mapg-dp": ("MAPG-DP", ORANGE, "diamond"),
    "mfpg": ("MFPG", BLUE, "circle"),
    FLAT: ("MFEP, flat prior", "#56b4e9", "triangle-up-open"),
}
"""Name, colour (of Okabe and Ito) and mark of a cell."""
RULES: Final[Mapping[str, tuple[str, str, str]]] = {
    "paper": ("Paper's rule, G = C", ORANGE, "diamond"),
    "paper-small-g": ("Paper's rule, G from its Table 2", "#cc79a7", "square"),
    "sound": ("Loss and sound ε", BLUE, "circle"),
}
TITLES: Final = {"paper": "Paper mode, seed 42", "sound": "Sound mode, mean and range of 5 seeds"}
QUANTITIES: Final = {"loss": "Test loss", "accuracy": "Test accuracy", "delta": "δ"}
WIDE: Final = 10.0
"""The axis of a loss is logarithmic over a larger ratio than this."""
SMALLEST: Final = 1e-10
"""A smaller delta is off the axis."""


def trajectory_figure(task: str, rows: Rows) -> Figure:
    """Plot loss, accuracy and delta round by round, a column for each mode.

    Deltas: claimed as dashes, sound as lines; the latter at epsilon 1.
    """
    own = [row for row in rows if row["task"] == task]
    quantities = ["loss", *(["accuracy"] if any(row["accuracy"] for row in own) else []), "delta"]
    modes = [mode for mode in MODES if any(row["mode"] == mode for row in own)]
    figure = make_subplots(
        rows=len(quantities),
        cols=len(modes),
        column_titles=[TITLES[mode] for mode in modes],
        shared_xaxes="columns",
        horizontal_spacing=0.1,
        vertical_spacing=0.05,
    )
    for (column, mode), (line, quantity) in product(enumerate(modes, 1), enumerate(quantities, 1)):
        runs = [row for row in own if row["mode"] == mode]
        for trace in _traces(runs, quantity, legend=line == column == 1):
            figure.add_trace(trace, row=line, col=column)
        _axis(figure, quantity, runs, line, column)
    figure.update_xaxes(title="Round", row=len(quantities))
    figure.add_trace(_key("claimed δ", "dash"), row=1, col=1)
    figure.add_trace(_key("sound δ at ε = 1", "solid"), row=1, col=1)
    return finish_figure(figure, height=120 + 240 * len(quantities), legend_y=-0.07)


def _axis(figure: Figure, quantity: str, rows: Rows, row: int, column: int) -> None:
    """Give an axis of a quantity its title and scale."""
    if column == 1:
        figure.update_yaxes(title=QUANTITIES[quantity], row=row, col=column)
    if quantity == "accuracy":
        figure.update_yaxes(tickformat=".0%", row=row, col=column)
    elif quantity == "delta":
        log_axis(figure, "y", SMALLEST, 1.0, row=row, col=column)
        figure.update_yaxes(range=[log10(SMALLEST), 0.1], row=row, col=column)
    else:
        losses = [float(row["loss"]) for row in rows]
        if max(losses) > WIDE * min(losses):
            log_axis(figure, "y", min(losses), max(losses), row=row, col=column)


def _key(name: str, dash: str) -> Scatter:
    line = {"color": GREY, "dash": dash, "width": 2}
    return Scatter(x=[None], y=[None], name=name, mode="lines", line=line)


def _traces(rows: Rows, quantity: str, *, legend: bool) -> Iterator[Scatter]:
    for cell in CELLS:
        own = [row for row in rows if row["cell"] == cell]
        if not own:
            continue
        if quantity == "delta":
            yield _line(cell, own, "claimed_delta", "dash")
            yield _line(cell, own, "sound_delta", "solid")
        else:
            yield from _band(cell, own, quantity)
            yield _line(cell, own, quantity, "solid", legend=legend)


def _by_round(rows: Rows, column: str) -> dict[int, list[float]]:
    values: dict[int, list[float]] = {}
    for row in rows:
        values.setdefault(int(row["round"]), []).append(float(row[column]))
    return dict(sorted(values.items()))


def _line(cell: str, rows: Rows, column: str, dash: str, *, legend: bool = False) -> Scatter:
    name, color, _ = LOOKS[cell]
    values = _by_round(rows, column)
    return Scatter(
        x=list(values),
        y=[max(fmean(each), SMALLEST / 10) for each in values.values()],
        name=name,
        legendgroup=cell,
        showlegend=legend,
        mode="lines",
        line={"color": color, "width": 2, "dash": dash},
    )


def _band(cell: str, rows: Rows, column: str) -> Iterator[Scatter]:
    values = _by_round(rows, column)
    if all(len(each) < 2 for each in values.values()):
        return
    rounds = list(values)
    top, bottom = [max(each) for each in values.values()], [min(each) for each in values.values()]
    yield Scatter(
        x=[*rounds, *rounds[::-1]],
        y=[*top, *bottom[::-1]],
        fill="toself",
        fillcolor=LOOKS[cell][1],
        opacity=0.2,
        line={"width": 0},
        mode="lines",
        showlegend=False,
    )


def equilibrium_figure(rows: Rows) -> Figure:
    """Plot strength and delta at equilibrium against beta, and the distribution over the grid."""
    titles = ["Strength", "δ: claimed (dashes), sound at ε = 1", "Clients of β in [0.5, 1.5]"]
    figure = make_subplots(rows=1, cols=3, subplot_titles=titles, horizontal_spacing=0.08)
    for rule, (name, color, symbol) in RULES.items():
        alone = [r for r in rows if (r["rule"], r["population"]) == (rule, "equal")]
        for column, quantity, dash in (
            (1, "strength", "solid"),
            (2, "claimed_delta", "dash"),
            (2, "sound_delta", "solid"),
        ):
            trace = Scatter(
                x=[float(row["beta"]) for row in alone],
                y=[float(row[quantity]) for row in alone],
                name=name,
                legendgroup=rule,
                showlegend=column == 1,
                mode="lines+markers" if column == 1 else "lines",
                line={"color": color, "width": 2, "dash": dash, "shape": "hvh"},
                marker={"color": color, "symbol": symbol, "size": 5},
            )
            figure.add_trace(trace, row=1, col=column)
        figure.add_trace(_shares(rows, rule), row=1, col=3)
    for column in (1, 2):
        ticks = {"tickvals": [0.1, 1, 10], "ticktext": ["0.1", "1", "10"]}
        figure.update_xaxes(title="Preference β", type="log", **ticks, row=1, col=column)
    log_axis(figure, "y", 0.1, 2.0, row=1, col=1)
    log_axis(figure, "y", 0.01, 1.0, row=1, col=2)
    figure.update_xaxes(title="Strength", type="category", row=1, col=3)
    figure.update_layout(barmode="overlay")
    return finish_figure(figure, height=420, legend_y=-0.22)


def _shares(rows: Rows, rule: str) -> Bar:
    spread = [r for r in rows if (r["rule"], r["population"]) == (rule, "spread")]
    grid = sorted({float(row["strength"]) for row in rows})
    counts = [
        sum(float(r["probability"]) for r in spread if float(r["strength"]) == s) for s in grid
    ]
    return Bar(
        x=[f"{strength:g}" for strength in grid],
        y=counts,
        marker_color=RULES[rule][1],
        legendgroup=rule,
        showlegend=False,
    )


def frontier_figure(rows: Rows) -> Figure:
    """Plot accuracy on the logistic task against sound epsilon, and against the paper's axis."""
    titles = ["Sound mode: sound ε", "Paper mode: the paper's ε", "The same runs: sound ε"]
    figure = make_subplots(
        rows=1, cols=3, subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.03
    )
    panels = (("sound", "sound_epsilon"), ("paper", "level"), ("paper", "sound_epsilon"))
    for (column, (mode, x)), cell in product(enumerate(panels, 1), LOOKS):
        own = [row for row in rows if (row["mode"], row["cell"]) == (mode, cell)]
        if not own:
            continue
        figure.add_trace(_frontier(cell, own, x, legend=column == 1), row=1, col=column)
        values = [float(row[x]) for row in rows if row["mode"] == mode]
        if values:
            log_axis(figure, "x", min(values), max(values), row=1, col=column)
        figure.update_xaxes(title="ε" if x == "level" else "ε at δ = 1e-5", row=1, col=column)
    figure.update_yaxes(tickformat=".0%")
    figure.update_yaxes(title="Test accuracy", row=1, col=1)
    return finish_figure(figure, height=440, legend_y=-0.2)


def _frontier(cell: str, rows: Rows, x: str, *, legend: bool) -> Scatter:
    name, color, symbol = LOOKS[cell]
    levels: dict[float, list[Mapping[str, str]]] = {}
    for row in rows:
        levels.setdefault(float(row["level"]), []).append(row)
    groups = sorted(levels.values(), key=lambda own: fmean(float(row[x]) for row in own))
    accuracies = [[float(row["accuracy"]) for row in own] for own in groups]
    bars: dict[str, Any] = {
        "symmetric": False,
        "array": [max(each) - fmean(each) for each in accuracies],
        "arrayminus": [fmean(each) - min(each) for each in accuracies],
        "thickness": 1.2,
        "width": 3,
        "color": color,
    }
    return Scatter(
        x=[fmean(float(row[x]) for row in own) for own in groups],
        y=[fmean(each) for each in accuracies],
        error_y=bars,
        name=name,
        legendgroup=cell,
        showlegend=legend,
        mode="lines+markers",
        line={"color": color, "width": 2},
        marker={"color": color, "symbol": symbol, "size": 7},
    )


FIGURES: Final[Figures] = {
    "mfpg-1.png": ("full_benchmark_rounds.csv", partial(trajectory_figure, "quadratic")),
    "mfpg-2.png": ("full_benchmark_rounds.csv", partial(trajectory_figure, "logistic")),
    "mfpg-3.png": ("full_benchmark_rounds.csv", partial(trajectory_figure, "mnist")),
    "mfpg-4.png": ("equilibrium.csv", equilibrium_figure),
    "mfpg-5.png": ("frontier.csv", frontier_figure),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the figures; return 1 if one cannot be drawn."""
    return draw_all(FIGURES, BENCHMARK.parent, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
