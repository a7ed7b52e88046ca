"""One look for all figures: colours, axes, margins, and how many clients a scatter plot shows.

Colours of Okabe and Ito, told apart by shape as well; transparent background and mid-grey text,
which a page in light or dark mode can overrule; margins fit for a narrow screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BLUE: Final = "#1d7fbf"
ORANGE: Final = "#d55e00"
GREY: Final = "#7b8087"
GRID: Final = "rgba(128, 132, 138, 0.25)"
FONT: Final = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

MAX_POINTS: Final = 2_000
"""More clients than this are thinned evenly in a scatter plot."""
MAX_LABELLED: Final = 1_000.0
"""A logarithmic axis over a larger ratio than this is labelled at powers of ten only."""
MANY_POINTS: Final = 50
"""More clients than this get small, translucent marks."""


def thinned(count: int) -> NDArray[np.intp]:
    """Return which of so many clients, in the order of the x-axis, a scatter plot shows."""
    return np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(np.intp)


def client_axis(title: str, count: int, noun: str = "client") -> str:
    """Return the title of an axis of clients, which says if not all of them are shown."""
    if count <= MAX_POINTS:
        return title
    return f"{title} ({MAX_POINTS:,} of {count:,} {noun}s)"


def marks(
    x: Sequence[float],
    y: Sequence[float | None],
    clients: Sequence[object],
    *,
    name: str,
    color: str,
    symbol: str,
    hover: str,
    crowd: int | None = None,
    noun: str = "client",
) -> Any:
    """Return a scatter trace of one mark a client.

    Args:
        x: Positions, one a client.
        y: Heights; what is not finite is left out.
        clients: Their names, for the hover text.
        name: Of the trace.
        color: Of the marks.
        symbol: Shape of the marks.
        hover: Hover text after the client's name, with %{x} and %{y}.
        crowd: How many clients all traces show together, if more than this one does.
        noun: What a client is called.
    """
    from plotly.graph_objects import Scatter

    many = (crowd or len(clients)) > MANY_POINTS
    return Scatter(
        x=list(x),
        y=plottable(y),
        customdata=list(clients),
        mode="markers",
        name=name,
        marker={
            "color": color,
            "symbol": symbol,
            "size": 5 if many else 8,
            "line": {"color": color, "width": 1 if many else 2},
        },
        opacity=0.5 if many else 1.0,
        # a mark at 0 is whole
        cliponaxis=False,
        hovertemplate=f"{noun} %{{customdata}}<br>{hover}",
    )


def plottable(values: Sequence[float | None]) -> list[float | None]:
    """Turn what has no place on an axis into a gap."""
    return [None if value is None or not np.isfinite(value) else float(value) for value in values]


def one_two_five(low: float, high: float) -> list[float]:
    """Return ticks for a logarithmic axis: plotly's own leave a narrow range nearly bare."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    return [tick for tick in ticks if low / 1.1 <= tick <= high * 1.1]


def log_axis(figure: Figure, axis: str, low: float, high: float, **where: int) -> None:
    """Make an axis, "x" or "y", logarithmic, labelled at 1, 2 and 5 where there is room."""
    ticks = one_two_five(low, high)
    if high > MAX_LABELLED * low:
        ticks = [tick for tick in ticks if f"{tick:e}".startswith("1")]
    update = figure.update_xaxes if axis == "x" else figure.update_yaxes
    update(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks], **where)


def finish(figure: Figure, height: int = 320, *, legend: bool = False) -> Figure:
    """Give a figure the common look and return it."""
    axis = {
        "gridcolor": GRID,
        "zeroline": False,
        "automargin": True,
        "ticks": "",
        "exponentformat": "power",
        "title_standoff": 8,
    }
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.update_layout(
        template="none",
        autosize=True,
        height=height,
        margin={"l": 48, "r": 12, "t": 12, "b": 40},
        paper_bgcolor="rgba(0, 0, 0, 0)",
        plot_bgcolor="rgba(0, 0, 0, 0)",
        font={"family": FONT, "size": 13, "color": GREY},
        hoverlabel={"bgcolor": "#20252b", "bordercolor": "#20252b", "font": {"color": "#ffffff"}},
        showlegend=legend,
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": -0.22, "yanchor": "top"},
    )
    return figure
