"""Draw the figure of docs/mfpg.md from the solution of its equations, with headless Chromium."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fedgame.games.privacy.hjb_fpk import solve_hjb_fpk
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk
from fedgame.reports.hjb_fpk_figures import strengths_at_start
from scripts.docs_figures import draw_figure, finish_figure
from scripts.picture import PictureError, find_browser
from scripts.tables import ROOT

ONE_PREFERENCE: Final = HjbFpk(horizon=1.5, theta=0.75, s0=0.01, num_clients=8, points=1600)
"""All clients have beta = 1; the constants are those of the paper's logistic task, G = 0."""
PICTURE: Final = ROOT / "docs" / "images" / "hjb-fpk.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the figure; return 1 if it cannot be drawn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PICTURE)
    options = parser.parse_args(arguments)
    figure = strengths_at_start(solve_hjb_fpk(ONE_PREFERENCE))
    try:
        draw_figure(find_browser(), finish_figure(figure, 380, -0.25), options.output)
    except PictureError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{options.output}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
