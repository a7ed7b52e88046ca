"""Figures of a game by messages: each from the run to a figure, None where it is moot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fedgame.accountants.pml_bounds import Bound
from fedgame.accountants.pml_logs import FloatArray
from fedgame.reports.figures import MAX_LEVELS
from fedgame.reports.game_run import GameRun
from fedgame.reports.game_summary import log_gain, player_lines
from fedgame.reports.style import (
    BLUE,
    GREY,
    ORANGE,
    client_axis,
    finish,
    log_axis,
    marks,
    plottable,
    thinned,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GREEN: Final = "#009e73"
AMBER: Final = "#c98f00"
PURPLE: Final = "#b5548c"
SKY: Final = "#4aa3d9"
BROWN: Final = "#8a6d3b"
OLIVE: Final = "#7a7a1f"

BOUND_COLORS: Final = {
    "Theorem 1": ORANGE,
    "composition": AMBER,
    "group DP": PURPLE,
    "Corollary 1": BROWN,
    "Corollary 2": OLIVE,
}
SHOWN: Final = ("Theorem 1", "composition", "group DP")
"""The bounds that are drawn at once; a click on the legend shows the others."""

FLATTENED: Final = 5.0
"""A logarithmic axis serves where something drawn is this many times the leakage and the budget."""

WIDE: Final = 20.0
"""An axis of other numbers is logarithmic over a larger ratio than this."""

DECADES: Final = 1e4
"""How far below the largest value a logarithmic axis begins at the lowest."""


class Line(NamedTuple):
    """One line over the iterations.

    Attributes:
        name: In the legend.
        values: One an iteration.
        color: Of the line.
        dash: Its pattern.
        shown: Whether it is drawn at once; otherwise a click on the legend shows it.
        width: In pixels.
    """

    name: str
    values: FloatArray
    color: str
    dash: str = "solid"
    shown: bool = True
    width: float = 2.0


def leakage(run: GameRun) -> Figure | None:
    """Plot the exact leakage by iteration with its bounds, what attacks gained, and the budget."""
    exact = run.audit.leakage
    if not len(exact):
        return None
    lines = [*_bounds(run), *_attacks(run), Line("Exact leakage", exact, BLUE, width=3.0)]
    possible = np.array([record.possible for record in run.result.iterations])
    if len(possible) == len(exact):
        lines.append(Line("Could have leaked", possible, BLUE, width=1.0))
    ceiling = np.full(len(exact), float(run.audit.ceiling.value))
    lines.append(Line("Ceiling", ceiling, GREY, "dash"))
    if run.budget is not None:
        lines.append(Line("Budget R", np.full(len(exact), run.budget), GREY))
    figure = _plot(lines, " nats")
    highs = [float(line.values.max()) for line in lines if line.shown]
    if max(highs) > FLATTENED * max(float(exact.max()), run.budget or 0.0):
        _log_leakage(figure, lines, max(highs))
    figure.update_yaxes(title="Leakage (nats)")
    return finish(figure, height=460, legend=True)


def _bounds(run: GameRun) -> Iterator[Line]:
    """Yield the bounds on the leakage of all types together."""
    for bound in run.audit.bounds:
        if bound.value.ndim == 1:
            name = bound.name.partition(",")[0]
            color = BOUND_COLORS.get(name, GREY)
            dash = "solid" if bound.source.covers == "this transcript" else "dash"
            dash = dash if bound.source.worth == "rigorous" else "dot"
            yield Line(_named(bound), bound.value, color, dash, bound.name in SHOWN, 1.5)


def _named(bound: Bound) -> str:
    worth = bound.source.worth
    return bound.name if worth == "rigorous" else f"{bound.name} ({worth})"


def _attacks(run: GameRun) -> Iterator[Line]:
    yield Line("Bayes, log gain", run.audit.bayes_log_gain, GREEN, "dashdot")
    outcome = run.audit.outcome
    if outcome is not None and outcome.attack is not None:
        yield Line("Gradient matching, log gain", log_gain(outcome.attack), SKY, "dashdot")


def _log_leakage(figure: Figure, lines: list[Line], high: float) -> None:
    """Put leakages on a logarithmic axis; what is too small for it, or below 0, is a gap."""
    drawn = np.concatenate([line.values for line in lines if line.shown])
    low = max(float(drawn[drawn > 0].min()), high / DECADES)
    for trace in figure.data:
        trace.y = [None if y is None or y < low else y for y in trace.y]
    log_axis(figure, "y", low, high)
    figure.update_yaxes(range=[np.log10(low / 1.2), np.log10(1.3 * high)])


def individual_leakage(run: GameRun) -> Figure | None:
    """Plot what leaked about each player by itself, its DP bound, and the most that could leak."""
    from plotly.graph_objects import Figure

    players = player_lines(run)
    if not players:
        return None
    shown = [players[k] for k in thinned(len(players))]
    x = [float(player.id) for player in shown]
    series = [
        ("Leakage", [player.individual_leakage for player in shown], BLUE, "circle"),
        ("Bayes, log gain", [player.bayes_log_gain for player in shown], GREEN, "diamond-open"),
        ("Ceiling", [player.individual_ceiling for player in shown], GREY, "line-ew-open"),
    ]
    names = [player.id for player in shown]
    traces = [
        marks(
            x,
            values,
            names,
            name=name,
            color=color,
            symbol=symbol,
            hover="%{y:.4g} nats<extra></extra>",
            noun="player",
        )
        for name, values, color, symbol in series
    ]
    figure = Figure(traces)
    figure.update_xaxes(title=client_axis("Player", len(players), "player"), tickformat="d")
    if len(players) <= MAX_LEVELS:
        figure.update_xaxes(dtick=1)
    figure.update_yaxes(title="About one player (nats)")
    return finish(figure, legend=True)


def error(run: GameRun) -> Figure | None:
    """Plot the distance of the strategies to the equilibrium; None where there may be several."""
    outcome = run.audit.outcome
    if outcome is None or outcome.error is None:
        return None
    return _score(Line("Distance", outcome.error, BLUE), "Distance to equilibrium")


def exploitability(run: GameRun) -> Figure | None:
    """Plot the largest gain of any player from changing its strategy alone."""
    outcome = run.audit.outcome
    if outcome is None:
        return None
    return _score(Line("Exploitability", outcome.exploitability, BLUE), "Exploitability")


def _score(line: Line, title: str) -> Figure | None:
    """Plot a number >= 0 that should fall, on a logarithmic axis where it falls far."""
    finite = line.values[np.isfinite(line.values)]
    if not len(finite):
        return None
    figure = _plot([line])
    _positive_axis(figure, finite)
    figure.update_yaxes(title=title)
    return finish(figure)


def _positive_axis(figure: Figure, values: FloatArray) -> None:
    """Make the axis of numbers >= 0 logarithmic where they differ widely."""
    low, high = float(values.min()), float(values.max())
    if low > 0 and high > WIDE * low:
        log_axis(figure, "y", low, high)
    else:
        figure.update_yaxes(rangemode="tozero")


def noise(run: GameRun) -> Figure | None:
    """Plot the scales of the noise of the messages that were sent, and the planned ones."""
    transcript = run.result.transcript
    if not transcript.sent.any():
        return None
    planned = run.result.dynamics.schedules.noise[: len(transcript)]
    sent, scales = transcript.sent, transcript.scales
    # an iteration in which nothing was sent has neither
    highest = np.where(sent, scales, -np.inf).max(axis=1)
    smallest = np.where(sent, scales, np.inf).min(axis=1)
    lines = [Line("Planned", planned, GREY, "dash"), Line("Largest used", highest, BLUE)]
    if (smallest < highest).any():
        lines.append(Line("Smallest used", smallest, ORANGE))
    figure = _plot(lines)
    _positive_axis(figure, np.concatenate([planned, scales[sent]]))
    figure.update_yaxes(title="Noise scale M")
    return finish(figure, legend=True)


def _plot(lines: list[Line], unit: str = "") -> Figure:
    """Return a figure of lines over the iterations, of which at most 2,000 are shown."""
    from plotly.graph_objects import Figure

    count = len(lines[0].values)
    shown = thinned(count)
    figure = Figure([_trace(line, shown, unit) for line in lines])
    few = count <= MAX_LEVELS
    figure.update_xaxes(title="Iteration", dtick=1 if few else None, tickformat="d")
    return figure


def _trace(line: Line, shown: np.ndarray[Any, np.dtype[np.intp]], unit: str) -> Any:
    from plotly.graph_objects import Scatter

    return Scatter(
        x=shown.tolist(),
        y=plottable(line.values[shown].tolist()),
        name=line.name,
        legendrank=1 if line.color == BLUE else None,
        visible=True if line.shown else "legendonly",
        mode="lines+markers" if len(shown) <= MAX_LEVELS and line.dash == "solid" else "lines",
        line={"color": line.color, "width": line.width, "dash": line.dash},
        hovertemplate=f"iteration %{{x}}: %{{y:.4g}} {unit}".rstrip()
        + f"<extra>{line.name}</extra>",
    )
