"""What the scripts share that draw the figures of docs/ with headless Chromium."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from fedgame.reports.style import finish
from scripts.picture import PictureError, draw, find_browser
from scripts.table_parts import Rows
from scripts.tables import ROOT, TableError, read_results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

WIDTH: Final = 900
SCALE: Final = 2
INK: Final = "#24292f"

Figures: TypeAlias = "Mapping[str, tuple[str, Callable[[Rows], Figure]]]"
"""Name of a picture: the file of results that it shows, and how."""


def finish_figure(figure: Figure, height: int, legend_y: float) -> Figure:
    """Give a figure the common look, on paper: a picture has no page to take colours from."""
    finish(figure, height, legend=True)
    figure.update_layout(
        width=WIDTH,
        margin={"l": 60, "r": 20, "t": 40, "b": 60},
        paper_bgcolor="#ffffff",
        plot_bgcolor="#ffffff",
        font={"size": 15, "color": INK},
        legend={"y": legend_y, "x": 0.5, "xanchor": "center"},
    )
    return figure


def draw_figure(browser: str, figure: Figure, picture: Path) -> None:
    """Draw a figure to a PNG file of its size.

    Args:
        browser: Path of Chromium.
        figure: The figure.
        picture: The file.

    Raises:
        PictureError: The browser draws nothing.
    """
    plot = figure.to_html(full_html=False, include_plotlyjs=True, config={"staticPlot": True})
    page = f'<!doctype html><meta charset="utf-8"><body style="margin: 0">{plot}</body>'
    with tempfile.TemporaryDirectory(prefix="fedgame-figure-") as folder:
        path = Path(folder) / "figure.html"
        path.write_text(page, encoding="utf-8")
        draw(browser, path, picture, size=(WIDTH, int(figure.layout.height)), scale=SCALE)


def draw_all(
    figures: Figures, results: Path, arguments: Sequence[str] | None, description: str | None
) -> int:
    """Draw figures as a command line asks; return 1 if one cannot be drawn.

    Args:
        figures: What to draw.
        results: Where the files of results are by default.
        arguments: The command line; None for the process's own.
        description: What the command does.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--results", type=Path, default=results, help="folder of the CSV files")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args(arguments)
    failed = False
    for name, (file, figure_of) in figures.items():
        try:
            rows = read_results(options.results / file)
            draw_figure(find_browser(), figure_of(rows), options.output / name)
        except (PictureError, TableError) as error:
            sys.stderr.write(f"error: {name}: {error}\n")
            failed = True
        else:
            sys.stdout.write(f"{options.output / name}\n")
    return 1 if failed else 0
