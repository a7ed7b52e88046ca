"""A prior as one line of text, as it stands in a configuration."""

from __future__ import annotations

import difflib
import math
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # scipy.stats loads when first used: half a second that most runs do without

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.continuous_prior import UNBOUNDED_QUANTILE
from fedgame.games.procurement.csv_file import CsvTable, finite_number, read_rows, read_table
from fedgame.games.procurement.prior import Prior
from fedgame.games.procurement.virtual_cost import make_prior

FORMS = (
    "uniform:LOW:HIGH, NAME:ARGUMENTS with a continuous distribution of scipy.stats, "
    "or samples:FILE"
)
COLUMN = "sensitivity"
INFINITE = {"inf": math.inf, "-inf": -math.inf}


def parse_prior(text: str, c_max: float | None = None, *, folder: Path = Path()) -> Prior:
    """Return the prior that a text names.

    Args:
        text: "uniform:LOW:HIGH"; or "NAME:ARG:...", a continuous distribution of scipy.stats with
            its shape arguments and, if wanted, loc and scale; or "samples:FILE", a CSV file with
            the column `sensitivity` (or a single column), or with one number a line.
        c_max: Where to truncate a distribution, > 0; by default at the end of its support, and if
            that is infinite at the 0.999 quantile.
        folder: Where FILE is looked for.

    Raises:
        ValueError: The text is no such distribution, or its arguments or c_max are not allowed.
        DataError: FILE cannot be read, or holds something else than finite numbers >= 0.

    >>> parse_prior("uniform:0:1").virtual_cost([0.1, 0.5]).tolist()
    [0.2, 1.0]
    """
    name, *arguments = (part.strip() for part in text.split(":"))
    if name == "samples":
        if c_max is not None:
            raise ValueError(f"c_max = {c_max}: samples end at the largest of them; leave it out")
        return make_prior(_samples(folder / text.partition(":")[2].strip()))
    distribution = _uniform(arguments) if name == "uniform" else _of_scipy(name, arguments)
    if c_max is None and not distribution.ppf(UNBOUNDED_QUANTILE) > 0:
        raise ValueError("has hardly any probability above 0, where sensitivities are")
    return make_prior(distribution, c_max)


def _uniform(arguments: list[str]) -> Any:
    if len(arguments) != 2:
        raise ValueError(f"uniform has 2 arguments, LOW and HIGH, not {len(arguments)}")
    low, high = _numbers(arguments)
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"LOW = {low:g} must be below HIGH = {high:g}, both finite")
    return scipy.stats.uniform(low, high - low)


def _of_scipy(name: str, arguments: list[str]) -> Any:
    family = getattr(scipy.stats, name, None)
    if isinstance(family, scipy.stats.rv_discrete):
        raise ValueError(f"{name} is discrete; allowed: {FORMS}")
    if not isinstance(family, scipy.stats.rv_continuous):
        known = [
            key
            for key in dir(scipy.stats)
            if isinstance(getattr(scipy.stats, key), scipy.stats.rv_continuous)
        ]
        close = difflib.get_close_matches(name, [*known, "samples"], n=1)
        hint = f", did you mean {close[0]!r}?" if close else ";"
        raise ValueError(f"unknown distribution {name!r}{hint} allowed: {FORMS}")
    shapes = [shape.strip() for shape in (family.shapes or "").split(",") if shape.strip()]
    least, most = len(shapes), len(shapes) + 2
    if not least <= len(arguments) <= most:
        names = ", ".join([*shapes, "loc", "scale"])
        raise ValueError(
            f"{name} has {least} to {most} arguments, {names}, of which loc and scale may be left "
            f"out; not {len(arguments)}"
        )
    distribution = family(*_numbers(arguments))
    if not np.isfinite(distribution.ppf(0.5)):
        given = ", ".join(arguments)
        raise ValueError(f"{name} does not allow the arguments {given} (the scale must be > 0)")
    return distribution


def _numbers(arguments: list[str]) -> list[float]:
    numbers = []
    for argument in arguments:
        # the shapes of some distributions may be infinite, such as the bounds of truncnorm
        infinite = INFINITE.get(argument.lower().lstrip("+"))
        number = finite_number(argument) if infinite is None else infinite
        if number is None:
            raise ValueError(f"argument {argument!r} must be a number")
        numbers.append(number)
    return numbers


def _samples(path: Path) -> FloatArray:
    if path.is_dir():
        raise ValueError("samples need a file: samples:FILE")
    rows = read_rows(path)
    if any(len(cells) > 1 for _, cells in rows) or finite_number(rows[0][1][0]) is None:
        table = read_table(path)
        column = table.header[0] if len(table.header) == 1 else COLUMN
    else:
        table, column = CsvTable(path, ["sample"], rows), "sample"
    return table.numbers(column, least=0)
