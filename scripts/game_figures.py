"""Draw the figures of docs/mfpg.md with headless Chromium: its equations, and many players."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fedgame.games.privacy.hjb_fpk import solve_hjb_fpk
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk
from fedgame.reports.hjb_fpk_figures import strengths_at_start
from fedgame.reports.limit_page import limit_figure
from fedgame.reports.limit_result import LimitRow
from scripts.docs_figures import draw_figure, finish_figure
from scripts.picture import PictureError, find_browser
from scripts.tables import ROOT, TableError, read_results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ONE_PREFERENCE: Final = HjbFpk(horizon=1.5, theta=0.75, s0=0.01, num_clients=8, points=1600)
"""All clients have beta = 1; the constants are those of the paper's logistic task, G = 0."""
IMAGES: Final = ROOT / "docs" / "images"


def equations_figure() -> Figure:
    """Return the best strength against the state, where all clients have one preference."""
    return finish_figure(strengths_at_start(solve_hjb_fpk(ONE_PREFERENCE)), 380, -0.25)


def players_figure() -> Figure:
    """Return the distance of N players from the mean field against N, from limit.csv."""
    stored = read_results(ROOT / "results" / "mfne" / "limit.csv")
    rows = [
        LimitRow(
            population=row["population"],
            players=int(row["players"]),
            distance=float(row["distance"]),
            mean_distance=float(row["mean_distance"]),
            residual=float(row["residual"]),
            rounds=int(row["rounds"]),
            converged=row["converged"] == "True",
        )
        for row in stored
    ]
    exponents = {row["population"]: float(row["exponent"]) for row in stored}
    return finish_figure(limit_figure(rows, exponents), 420, -0.25)


FIGURES: Final = {"hjb-fpk.png": equations_figure, "mean-field-limit.png": players_figure}


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the figures; return 1 if one cannot be drawn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=IMAGES, help="folder of the pictures")
    options = parser.parse_args(arguments)
    for name, figure_of in FIGURES.items():
        try:
            draw_figure(find_browser(), figure_of(), options.output / name)
        except (PictureError, TableError) as error:
            sys.stderr.write(f"error: {name}: {error}\n")
            return 1
        sys.stdout.write(f"{options.output / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
