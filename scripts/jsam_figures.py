"""Draw the figures of docs/jsam.md from results/jsam/*.csv with headless Chromium."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from fedgame.reports.style import BLUE, ORANGE
from scripts.docs_figures import Figures, draw_all, finish_figure
from scripts.jsam_grid import BUDGETS, MECHANISMS, RESULTS, SEED, SIMILARITIES, job_of
from scripts.table_parts import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable

POWERS: Final = tuple(10.0**power for power in range(-3, 5))
LINEAR_ETA: Final = 30.0
"""The linear panel of cost against eta ends here, a bit after selection has become uniform."""
LINEAR_COST: Final = 16.0
"""Participants against cost are shown up to here: everybody takes part by then."""
EXPLAINED: Final = {100: ", all clients alike", 0: ", at most two classes a client"}
"""What the title of a split adds."""
TOP_FIRST: Final = tuple(MECHANISMS)[::-1]
"""In the order of drawing: JSAM comes last and lies on top."""

LOOKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "jsam": {"name": "JSAM", "color": BLUE, "symbol": "circle", "dash": "solid"},
    "jsam-ci": {"name": "JSAM-CI", "color": "#56b4e9", "symbol": "circle-open", "dash": "dot"},
    "usbm": {"name": "USBM", "color": ORANGE, "symbol": "square", "dash": "dash"},
    "fsbm-50": {"name": "FSBM-50", "color": "#009e73", "symbol": "triangle-up", "dash": "solid"},
    "fsbm-75": {"name": "FSBM-75", "color": "#cc79a7", "symbol": "triangle-down", "dash": "dot"},
    "bbm": {"name": "BBM", "color": "#4d4d4d", "symbol": "x", "dash": "dash"},
}
"""Colours of Okabe and Ito, told apart by mark and line as well."""


def _line(mechanism: str, x: list[float], y: list[float], **more: Any) -> Scatter:
    look = LOOKS[mechanism]
    return Scatter(
        x=x,
        y=y,
        name=look["name"],
        legendgroup=mechanism,
        legendrank=list(MECHANISMS).index(mechanism),
        mode="lines+markers",
        line={"color": look["color"], "width": 2, "dash": look["dash"]},
        marker={"symbol": look["symbol"], "size": 8, "color": look["color"]},
        **more,
    )


def accuracy_figure(rows: Rows) -> Figure:
    """Plot final accuracy against what was paid, one panel a split, one line a mechanism.

    Lines are runs of the first seed; where there are others, a bar spans all of them.
    """
    figure = make_subplots(
        rows=2,
        cols=2,
        subplot_titles=[f"s = {s} %{EXPLAINED.get(s, '')}" for s in SIMILARITIES],
        horizontal_spacing=0.07,
        vertical_spacing=0.12,
    )
    for index, (similarity, mechanism) in enumerate(product(SIMILARITIES, TOP_FIRST)):
        row, column = divmod(index // len(TOP_FIRST), 2)
        own = [row for row in rows if _is_of(row, mechanism, similarity)]
        trace = _accuracy_line(mechanism, own, legend=index < len(TOP_FIRST))
        figure.add_trace(trace, row=row + 1, col=column + 1)
    ticks = [f"{budget:g}" for budget in BUDGETS]
    figure.update_xaxes(type="log", tickvals=list(BUDGETS), ticktext=ticks)
    figure.update_xaxes(title="Paid to all clients", row=2)
    figure.update_yaxes(tickformat=".0%", range=[0, 1])
    figure.update_yaxes(title="Test accuracy", col=1)
    return finish_figure(figure, height=820, legend_y=-0.09)


def _is_of(row: Mapping[str, str], mechanism: str, similarity: int) -> bool:
    job = job_of(row)
    return (job.mechanism, job.similarity) == (mechanism, similarity)


def _accuracy_line(mechanism: str, rows: Rows, *, legend: bool) -> Scatter:
    first = sorted(
        (row for row in rows if job_of(row).seed == SEED), key=lambda row: job_of(row).budget
    )
    above, below = [], []
    for row in first:
        same = [r for r in rows if job_of(r).budget == job_of(row).budget]
        accuracy = [float(r["accuracy"]) for r in same]
        above.append(max(accuracy) - float(row["accuracy"]))
        below.append(float(row["accuracy"]) - min(accuracy))
    return _line(
        mechanism,
        [float(row["total_payment"]) for row in first],
        [float(row["accuracy"]) for row in first],
        showlegend=legend,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": above,
            "arrayminus": below,
            "thickness": 1.5,
            "width": 4,
            "color": LOOKS[mechanism]["color"],
            "visible": any(above) or any(below),
        },
    )


def cost_figure(rows: Rows) -> Figure:
    """Plot the expected cost against eta: the whole range, and its beginning on linear axes."""
    titles = ["Logarithmic axes", f"Linear axes, η up to {LINEAR_ETA:g}"]
    figure = make_subplots(rows=1, cols=2, subplot_titles=titles, horizontal_spacing=0.1)
    top = 0.0
    for mechanism, eta, cost in _curves(rows, "eta", "expected_cost"):
        figure.add_trace(_line(mechanism, eta, cost), row=1, col=1)
        figure.add_trace(_line(mechanism, eta, cost, showlegend=False), row=1, col=2)
        shown = [b for a, b in zip(eta, cost, strict=True) if a <= LINEAR_ETA]
        top = max(top, *shown)
    figure.update_traces(marker_size=5)
    figure.update_xaxes(title="η, weight of the training loss")
    figure.update_yaxes(title="Expected cost", col=1)
    plain = {"tickvals": POWERS, "ticktext": [f"{power:g}" for power in POWERS]}
    figure.update_xaxes(type="log", **plain, row=1, col=1)
    figure.update_yaxes(type="log", **plain, row=1, col=1)
    figure.update_xaxes(range=[0, LINEAR_ETA], row=1, col=2)
    figure.update_yaxes(range=[0, 1.1 * top], row=1, col=2)
    return finish_figure(figure, height=440, legend_y=-0.18)


def participants_figure(rows: Rows) -> Figure:
    """Plot how many clients a mechanism selects against what that is expected to cost."""
    figure = Figure()
    for mechanism, cost, participants in _curves(rows, "expected_cost", "participants"):
        figure.add_trace(_line(mechanism, cost, participants))
    figure.update_traces(marker_size=6)
    figure.update_xaxes(title="Expected cost", range=[0, LINEAR_COST])
    figure.update_yaxes(title="Clients selected", rangemode="tozero")
    return finish_figure(figure, height=420, legend_y=-0.18)


def _curves(rows: Rows, x: str, y: str) -> Iterable[tuple[str, list[float], list[float]]]:
    for mechanism in TOP_FIRST:
        own = [row for row in rows if row["mechanism"] == mechanism]
        if own:
            yield mechanism, [float(row[x]) for row in own], [float(row[y]) for row in own]


FIGURES: Final[Figures] = {
    "jsam-accuracy.png": ("accuracy.csv", accuracy_figure),
    "jsam-cost.png": ("cost.csv", cost_figure),
    "jsam-participants.png": ("cost.csv", participants_figure),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the figures; return 1 if one cannot be drawn."""
    return draw_all(FIGURES, RESULTS, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
