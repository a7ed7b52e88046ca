"""Compute the numbers of docs/aggregative.md and write them to results/pml/*.csv.

Everything is plain NumPy through the library, with fixed seeds; no Flower.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from scripts.pml_attacks import gain_rows, leakage_rows
from scripts.pml_correlation import correlation_rows
from scripts.pml_settings import RESULTS
from scripts.pml_stopping import stopping_rows
from scripts.pml_tradeoff import tradeoff_rows
from scripts.results import write_table

TABLES: Final[Mapping[str, Callable[[], list[dict[str, object]]]]] = {
    "gain": gain_rows,
    "leakage": leakage_rows,
    "tradeoff": tradeoff_rows,
    "correlation": correlation_rows,
    "stopping": stopping_rows,
}


TINY: Final = 1e-12
"""Below this a number is what rounding left of 0."""


def as_text(value: object) -> object:
    """Return a number in six digits, so that machines agree on it; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        number = float(value)
        return f"{0.0 if abs(number) < TINY else number:.6g}"
    return value


def write_tables(
    tables: Mapping[str, Callable[[], Iterable[Mapping[str, object]]]],
    output: Path,
    arguments: Sequence[str] | None,
    description: str | None,
) -> int:
    """Compute tables as a command line asks, and write each to a CSV file.

    Args:
        tables: What makes the rows of each, by name.
        output: Where the files are by default.
        arguments: The command line; None for the process's own.
        description: What the command does.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", choices=tables, action="append", help="one table; repeatable")
    parser.add_argument("--output", type=Path, default=output, help="folder of the CSV files")
    options = parser.parse_args(arguments)
    for name in options.only or tables:
        start = time.monotonic()
        rows = [{key: as_text(value) for key, value in row.items()} for row in tables[name]()]
        write_table(options.output / f"{name}.csv", rows)
        seconds = time.monotonic() - start
        sys.stdout.write(f"{options.output / name}.csv: {len(rows)} rows, {seconds:.0f} s\n")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables."""
    return write_tables(TABLES, RESULTS, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
