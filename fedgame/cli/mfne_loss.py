"""The loss term of a game that is solved without data: by curvature, or from a table."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedgame.cli.options import LARGEST, Options, as_number
from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.utilities import quadratic_loss

COLUMNS = ("strength", "loss")


@dataclass(frozen=True)
class QuadraticLoss:
    """kappa tau steps s: noise on a quadratic loss.

    Attributes:
        curvature: kappa, the trace of the Hessian.
        step_size: tau.
        steps: Local steps whose noise adds up.
    """

    curvature: float
    step_size: float
    steps: int

    def __call__(self, effective: FloatArray) -> FloatArray:
        """Return the loss at effective strengths, both of shape (m,)."""
        return quadratic_loss(self.curvature, self.step_size, effective, self.steps)


@dataclass(frozen=True)
class TabulatedLoss:
    """A measured loss curve, linear between its points.

    Attributes:
        name: Of the file.
        strengths: Effective strengths, increasing, shape (points,).
        losses: The loss at each, same shape.
    """

    name: str
    strengths: FloatArray
    losses: FloatArray

    def __call__(self, effective: FloatArray) -> FloatArray:
        """Return the loss at effective strengths, both of shape (m,)."""
        return np.interp(effective, self.strengths, self.losses)

    def covers(self, low: float, high: float) -> bool:
        """Return whether strengths from `low` to `high` are within the table, up to rounding."""
        slack = 1e-9
        inside = self.strengths[0] <= low * (1 + slack) and high * (1 - slack) <= self.strengths[-1]
        return bool(inside)


def read_table(options: Options) -> TabulatedLoss | None:
    """Read the table of the option `loss`, None where nobody gave one.

    Raises:
        ConfigError: It cannot be read, or is not two columns of numbers with rising strengths.
    """
    path = options.path("loss")
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise options.refuse("loss", f"cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise options.refuse("loss", "is not text in UTF-8") from error
    rows = list(csv.reader(text.splitlines()))
    if not rows or tuple(cell.strip() for cell in rows[0]) != COLUMNS:
        raise options.refuse("loss", f"must begin with the line {','.join(COLUMNS)}")
    points = [_point(options, number, row) for number, row in enumerate(rows[1:], start=2) if row]
    strengths, losses = np.array(points, dtype=np.float64).reshape(-1, 2).T
    if len(points) < 2 or not (np.diff(strengths) > 0).all():
        raise options.refuse("loss", "must have at least two lines, with rising strengths")
    return TabulatedLoss(Path(path).name, strengths, losses)


def _point(options: Options, number: int, row: list[str]) -> tuple[float, float]:
    try:
        strength, loss = (as_number(float(cell)) for cell in row)
    except ValueError:
        strength, loss = None, None
    if strength is None or loss is None or strength < 0 or abs(loss) > LARGEST:
        allowed = (
            f"line {number} must be two finite numbers, a strength of at least 0 and a loss of at "
            f"most {LARGEST:g} in size"
        )
        raise options.refuse("loss", allowed)
    return strength, loss
