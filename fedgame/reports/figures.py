"""The figures of a run: each a function from the result to a figure, None where it is moot."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgame.reports.guarantees import format_number
from fedgame.reports.style import (
    BLUE,
    ORANGE,
    client_axis,
    finish,
    marks,
    one_two_five,
    plottable,
    thinned,
)
from fedgame.reports.summary import rounds_run, strength_rounds
from fedgame.strategies.base import ClientRecord, RunResult

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MAX_LEVELS: Final = 12
"""More distinct strengths than this are shown in equal steps of their logarithm."""


def accuracy_and_loss(result: RunResult) -> Figure | None:
    """Plot test accuracy and test loss by round; loss alone for a regression."""
    from plotly.subplots import make_subplots

    if not result.rounds:
        return None
    classifies = any(record.accuracy is not None for record in result.rounds)
    figure = make_subplots(rows=2 if classifies else 1, shared_xaxes=True, vertical_spacing=0.08)
    if classifies:
        accuracies = [record.accuracy for record in result.rounds]
        figure.add_trace(_line(result, accuracies, "Test accuracy", BLUE, "%{y:.2%}"), row=1, col=1)
        figure.update_yaxes(title="Accuracy", tickformat=".0%", row=1, col=1)
    last = 2 if classifies else 1
    losses = [record.loss for record in result.rounds]
    figure.add_trace(_line(result, losses, "Test loss", ORANGE, "%{y:.4g}"), row=last, col=1)
    figure.update_yaxes(title="Loss", rangemode="tozero", row=last, col=1)
    _round_axis(figure, result, row=last, col=1)
    return finish(figure, height=420 if classifies else 300)


def mean_strength(result: RunResult) -> Figure | None:
    """Plot s-bar, the mean of the strengths in use, by round; None without a game."""
    from plotly.graph_objects import Figure

    values = [record.mean_strength for record in result.rounds]
    if not _is_game(result) or not np.isfinite(values).any():
        return None
    figure = Figure(_line(result, values, "Mean strength", BLUE, "%{y:.4g}"))
    figure.update_yaxes(title="Mean strength s̄", rangemode="tozero")
    _round_axis(figure, result)
    return finish(figure)


def strength_distribution(result: RunResult) -> Figure | None:
    """Plot the share of clients at each strength by round, as a heat map; None without a game."""
    from plotly.graph_objects import Figure, Heatmap

    strengths = np.asarray(result.strengths, dtype=np.float64)
    if not _is_game(result) or not result.rounds or not np.isfinite(strengths).any():
        return None
    labels, shares = strength_shares(strengths)
    colorbar = {
        "orientation": "h",
        "title": {"text": "Share of clients", "side": "top"},
        "tickformat": ".0%",
        "thickness": 10,
        "len": 0.7,
        "yanchor": "top",
        "y": -0.22,
        "outlinewidth": 0,
    }
    heat = Heatmap(
        x=strength_rounds(result),
        y=labels,
        z=shares,
        zmin=0.0,
        zmax=shares.max(),
        # From transparent, so that an unused strength is the page's own background.
        colorscale=[[0.0, "rgba(29, 127, 191, 0)"], [1.0, "rgba(29, 127, 191, 1)"]],
        ygap=2,
        colorbar=colorbar,
        hovertemplate="round %{x}<br>strength %{y}<br>%{z:.1%} of clients<extra></extra>",
    )
    figure = Figure(heat)
    figure.update_yaxes(title="Strength s", type="category", showgrid=False)
    _round_axis(figure, result)
    figure.update_xaxes(showgrid=False)
    return finish(figure, height=400)


def strength_shares(strengths: NDArray[np.float64]) -> tuple[list[str], NDArray[np.float64]]:
    """Return levels of strength, as labels, and the share of clients at each level and round.

    Args:
        strengths: Shape (rounds, clients), NaN where a client's reply is missing; at least one
            value is finite.

    Returns:
        Labels in ascending order, and shares of shape (levels, rounds): each round's shares sum to
        1 over the clients that replied (0 where nobody did).
    """
    # Twelve digits: the same point of the grid can come back from the bridge a rounding error off.
    distinct, inverse = np.unique(strengths, return_inverse=True)
    rounded = np.array([float(f"{s:.12g}") for s in distinct])[inverse].reshape(strengths.shape)
    levels = np.unique(rounded[np.isfinite(rounded)])
    if len(levels) <= MAX_LEVELS:
        labels = [format_number(level) for level in levels]
        index = np.searchsorted(levels, rounded)
    else:
        lowest = levels[levels > 0].min() if (levels > 0).any() else 1.0
        edges = np.geomspace(lowest, max(levels[-1], 2 * lowest), MAX_LEVELS + 1)
        labels = [f"{format_number(a, 3)} to {format_number(b, 3)}" for a, b in pairwise(edges)]
        index = np.clip(np.searchsorted(edges, rounded, side="right") - 1, 0, MAX_LEVELS - 1)
    replied = np.isfinite(rounded)
    counts = np.stack([((index == k) & replied).sum(axis=1) for k in range(len(labels))])
    return labels, counts / np.maximum(replied.sum(axis=1), 1)


def epsilon_by_preference(result: RunResult) -> Figure | None:
    """Plot each client's guaranteed and realised epsilon against its beta; None without a game."""
    from plotly.graph_objects import Figure

    clients = sorted((c for c in result.clients if c.beta is not None), key=_beta)
    if not clients:
        return None
    title = client_axis("Privacy preference β", len(clients))
    clients = [clients[k] for k in thinned(len(clients))]
    guarantees = [client.guarantee for client in clients]
    realised = [client.realised for client in clients]
    figure = Figure()
    figure.add_trace(_marks(clients, guarantees, "Guaranteed beforehand", BLUE, "circle-open"))
    figure.add_trace(_marks(clients, realised, "Realised (ex post)", ORANGE, "diamond"))
    figure.update_xaxes(title=title)
    low, high = _beta(clients[0]), _beta(clients[-1])
    if 0 < low < high / 5:
        ticks = one_two_five(low, high)
        labels = [format_number(tick) for tick in ticks]
        figure.update_xaxes(type="log", tickvals=ticks, ticktext=labels)
    figure.update_yaxes(title="ε", rangemode="tozero")
    return finish(figure, legend=True)


def _marks(
    clients: list[ClientRecord], values: list[float], name: str, color: str, symbol: str
) -> Any:
    return marks(
        [_beta(client) for client in clients],
        values,
        [client.id for client in clients],
        name=name,
        color=color,
        symbol=symbol,
        hover="β = %{x:.4g}<br>ε = %{y:.4g}",
    )


def exploitability(result: RunResult) -> Figure | None:
    """Plot the largest gain of any client from changing its strength alone; None without a game."""
    from plotly.graph_objects import Figure

    values = [record.exploitability for record in result.rounds]
    if all(value is None for value in values):
        return None
    figure = Figure(_line(result, values, "Exploitability", BLUE, "%{y:.3g}"))
    figure.update_yaxes(title="Exploitability", rangemode="tozero")
    _round_axis(figure, result)
    return finish(figure)


def _is_game(result: RunResult) -> bool:
    return any(client.beta is not None for client in result.clients) or any(
        record.exploitability is not None for record in result.rounds
    )


def _beta(client: ClientRecord) -> float:
    return client.beta if client.beta is not None else 0.0


def _line(
    result: RunResult, values: list[float | None] | list[float], name: str, color: str, hover: str
) -> Any:
    from plotly.graph_objects import Scatter

    return Scatter(
        x=[record.round for record in result.rounds],
        y=plottable(list(values)),
        name=name,
        # A line alone would not show a single round.
        mode="lines+markers" if len(result.rounds) <= MAX_LEVELS else "lines",
        line={"color": color, "width": 2},
        hovertemplate=f"round %{{x}}: {hover}<extra></extra>",
    )


def _round_axis(figure: Figure, result: RunResult, **where: int) -> None:
    few = rounds_run(result) <= MAX_LEVELS
    figure.update_xaxes(title="Round", dtick=1 if few else None, tickformat="d", **where)
