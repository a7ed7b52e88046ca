"""What all pages are made of: the frame, the key numbers, and figures that need no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from fedgame.reports import template

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FROM_SEED = "reproducible: not private against anyone who knows the seed"


@dataclass(frozen=True)
class Plot:
    """A figure with its title and the caption above it."""

    title: str
    figure: Figure
    caption: str


def header(kicker: str, title: str, lead: str, *, failed: bool) -> str:
    """Return the head of a page about a run: what it is, its title, and what came of it."""
    mark = ' <span class="failed">(failed)</span>' if failed else ""
    return (
        f'<header><p class="kicker">{escape(kicker)}</p><h1>{escape(title)}{mark}</h1>'
        f'<p class="lead">{escape(lead)}</p></header>'
    )


def limits(notes: Sequence[str]) -> str:
    """Return the box of what a page's numbers do not cover; nothing without notes."""
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    heading = "<h2>What these numbers do not cover</h2>"
    return f'<aside aria-label="Limits">{heading}<ul>{items}</ul></aside>'


def settings(config: Mapping[str, object], versions: Mapping[str, str]) -> str:
    """Return the sections that list the configuration and the versions."""
    return (
        f"<section><h2>Settings</h2>{_list(config)}</section>"
        f"<section><h2>Versions</h2>{_list(versions)}</section>"
    )


def _list(values: Mapping[str, object]) -> str:
    items = "".join(
        f"<div><dt>{escape(key)}</dt><dd>{escape(_setting(values[key]))}</dd></div>"
        for key in sorted(values)
    )
    return f'<dl class="list">{items}</dl>'


def _setting(value: object) -> str:
    if value == "":
        return "(empty)"
    return str(value).lower() if isinstance(value, bool) else str(value)


def key_numbers(numbers: Iterable[tuple[str, str, str]]) -> str:
    """Return the box of key numbers from (name, value, detail); without a value, none is shown."""
    items = "".join(
        f'<div><dt>{escape(name)}</dt><dd class="value">{escape(value)}</dd>'
        f'<dd class="detail">{escape(detail)}</dd></div>'
        for name, value, detail in numbers
        if value
    )
    return f'<dl class="key">{items}</dl>'


def render_page(title: str, body: str, plots: Iterable[Plot], after: str, numbers: str) -> str:
    """Return a self-contained page.

    Args:
        title: Its title, plain text.
        body: HTML above the figures.
        plots: The figures; the page has no such section without any.
        after: HTML below the figures.
        numbers: Name of the file that has the figures' numbers, for readers without JavaScript.
    """
    sections, scripts = [], []
    for number, plot in enumerate(plots, start=1):
        identifier, name = f"figure-{number}", escape(plot.title)
        sections.append(
            f"<figure><figcaption><h3>{name}</h3>{escape(plot.caption)}</figcaption>"
            f'<div class="plot" id="{identifier}" role="img" aria-label="{name}" '
            f'style="min-height:{plot.figure.layout.height}px"></div></figure>'
        )
        # "<" occurs in JSON inside strings only; escaped, no text can end the script element.
        data = str(plot.figure.to_json()).replace("<", "\\u003c")
        scripts.append(f'<script type="application/json" id="{identifier}-data">{data}</script>')
    if sections:
        from plotly.offline import get_plotlyjs

        body += (
            "<section><h2>Figures</h2><noscript><p>The figures need JavaScript; "
            f"{escape(numbers)} has the numbers.</p></noscript>{''.join(sections)}</section>"
        )
        scripts.append(f"<script>{get_plotlyjs()}</script>")
    return template.PAGE.substitute(
        policy=template.POLICY,
        title=escape(title),
        style=template.STYLE,
        body=body + after,
        scripts="".join(scripts) + f"<script>{template.SCRIPT}</script>",
    )
