"""The page of the mean-field limit, with its figure."""

from __future__ import annotations

from html import escape
from math import isfinite
from typing import TYPE_CHECKING

from fedgame.reports.limit_result import PROPORTION, LimitRow, SolvedLimit, limit_notes, limit_rows
from fedgame.reports.page import Plot, key_numbers, limits, render_page
from fedgame.reports.style import BLUE, ORANGE, finish, log_axis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plotly.graph_objects import Figure


def rate_words(exponent: float) -> str:
    """Return a measured rate as a power of N, "none" where it could not be fitted."""
    return f"N^{exponent:.2f}" if isfinite(exponent) else "none"


def limit_figure(rows: Sequence[LimitRow], exponents: Mapping[str, float]) -> Figure:
    """Plot distances against the number of players, both logarithmic; what is 0 has no place.

    Args:
        rows: The numbers; searches that did not converge are marked by a cross.
        exponents: The measured rate of each population, NaN without one.
    """
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for population, exponent in exponents.items():
        own = [row for row in rows if row.population == population and row.distance > 0]
        first = population == PROPORTION
        color, symbol = (BLUE, "circle") if first else (ORANGE, "diamond")
        marks = Scatter(
            x=[row.players for row in own],
            y=[row.distance for row in own],
            mode="lines+markers",
            name=f"{population}: {rate_words(exponent)}",
            line={"color": color, "width": 1.5, "dash": "solid" if first else "dash"},
            marker={
                "color": color,
                "size": 9,
                "symbol": [symbol if row.converged else "x" for row in own],
            },
            hovertemplate="N = %{x:,}: distance %{y:.3g}<extra>" + population + "</extra>",
        )
        figure.add_trace(marks)
    drawn = [row for row in rows if row.distance > 0]
    if drawn:
        distances, players = ([getattr(row, name) for row in drawn] for name in _AXES)
        log_axis(figure, "x", min(players), max(players))
        log_axis(figure, "y", min(distances), max(distances))
    figure.update_xaxes(title="Number of players N")
    figure.update_yaxes(title="Distance from the mean field")
    return finish(figure, height=420, legend=True)


_AXES = ("distance", "players")


def render_limit(solved: SolvedLimit) -> str:
    """Return the page as one self-contained HTML file that makes no network request."""
    title = f"Mean-field limit: {solved.rules.num_clients:,} clients, {solved.method}"
    lead = (
        f"The equilibria of N players approach the mean-field one, of mean strength "
        f"{solved.mean_strength:.4g}, "
        + ", ".join(
            f"like {rate_words(rate.exponent)} {name}" for name, rate in solved.rates.items()
        )
        + "."
    )
    failed = "" if solved.converged else ' <span class="failed">(not all converged)</span>'
    body = (
        '<header><p class="kicker">fedgame solve limit</p>'
        f'<h1>{escape(title)}{failed}</h1><p class="lead">{escape(lead)}</p></header>'
        f"{limits(limit_notes(solved))}{key_numbers(_numbers(solved))}"
    )
    exponents = {name: rate.exponent for name, rate in solved.rates.items()}
    plot = Plot(
        "Distance by the number of players",
        limit_figure(list(limit_rows(solved)), exponents),
        "Wasserstein-1 distance of the distributions of strengths; a cross is no equilibrium.",
    )
    return render_page(title, body, [plot], after=_table(solved), numbers="limit.csv")


def _numbers(solved: SolvedLimit) -> list[tuple[str, str, str]]:
    rates = [
        (f"Rate, {name}", rate_words(rate.exponent), f"N up to {int(rate.sizes.max()):,}")
        for name, rate in solved.rates.items()
    ]
    residual = max(float(rate.gains.max()) for rate in solved.rates.values())
    return [
        *rates,
        ("Residual", f"{residual:.2g}", "largest gain of a player"),
        ("Converged", "yes" if solved.converged else "no", "all searches"),
    ]


def _table(solved: SolvedLimit) -> str:
    heads = ("Population", "N", "Distance", "Of the means", "Residual", "Rounds", "Converged")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = ""
    for row in limit_rows(solved):
        cells = (
            row.population,
            f"{row.players:,}",
            f"{row.distance:.3g}",
            f"{row.mean_distance:.3g}",
            f"{row.residual:.2g}",
            f"{row.rounds:,}",
            "yes" if row.converged else "no",
        )
        body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    return (
        '<section><h2>By the number of players</h2><div class="scroll" role="region" '
        'aria-label="By the number of players" tabindex="0"><table class="plain">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )
