"""Draw the top of a run's report.html as a PNG with headless Chromium."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDTH, HEIGHT = 1200, 1500
DRAWING_MS = 20_000
TIMEOUT_SECONDS = 120


class PictureError(Exception):
    """The picture cannot be made; the text is for the user."""


def find_browser() -> str:
    """Return the path of a Chromium.

    Raises:
        PictureError: There is none on PATH.
    """
    for name in BROWSERS:
        path = shutil.which(name)
        if path:
            return path
    raise PictureError(f"no Chromium on PATH (looked for {', '.join(BROWSERS)})")


def find_report(run: Path | None) -> Path:
    """Return the report of a run folder, or of the newest one of `make run`.

    Raises:
        PictureError: There is no report.
    """
    if run is not None:
        reports = [run / "report.html"]
    else:
        runs = Path(os.environ.get("FEDGAME_HOME", ROOT / "runs"))
        reports = sorted(runs.glob("*/report.html"), key=lambda path: path.stat().st_mtime)
    if not reports or not reports[-1].is_file():
        raise PictureError(f"no report.html in {run or 'runs/'}; make run, or name a run folder")
    return reports[-1].resolve()


def draw(
    browser: str,
    page: Path,
    picture: Path,
    *,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    scale: int = 1,
) -> None:
    """Draw the top of a page.

    Args:
        browser: Path of a Chromium.
        page: An HTML file, its path absolute.
        picture: The PNG to write.
        size: Width and height of the window in CSS pixels.
        scale: Pixels of the picture for each of them, along each side.

    Raises:
        PictureError: The browser fails or writes nothing.
    """
    with tempfile.TemporaryDirectory(prefix="fedgame-picture-") as folder:
        drawn = Path(folder) / "picture.png"
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
            f"--window-size={size[0]},{size[1]}",
            f"--force-device-scale-factor={scale}",
            f"--virtual-time-budget={DRAWING_MS}",
            f"--screenshot={drawn}",
            page.as_uri(),
        ]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # Chromium refuses its sandbox to root
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PictureError(f"{browser}: {error}") from error
        if not drawn.is_file():
            lines = done.stderr.strip().splitlines() or ["no reason given"]
            raise PictureError(f"{browser} drew nothing: {lines[-1]}")
        picture.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(drawn, picture)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the picture; return 1 if it cannot be made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", type=Path, help="run folder; the newest one in runs/")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "images" / "report.png")
    options = parser.parse_args(arguments)
    try:
        draw(find_browser(), find_report(options.run), options.output)
    except PictureError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{options.output}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
