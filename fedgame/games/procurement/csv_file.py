"""CSV files from elsewhere: columns by name, every error with its line."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedgame.errors import DataError
from fedgame.games.best_response import FloatArray

Row = tuple[int, list[str]]
"""A line's number in the file, from 1, and its cells."""


@dataclass(frozen=True)
class CsvTable:
    """A CSV file with a header.

    Attributes:
        path: The file.
        header: Names of the columns.
        rows: The lines below the header that are not blank.
    """

    path: Path
    header: list[str]
    rows: list[Row]

    def texts(self, column: str) -> list[str]:
        """Return a column, shape (rows,); where a line is too short, the empty text.

        Raises:
            DataError: There is no such column.
        """
        if column not in self.header:
            names = ", ".join(self.header)
            raise DataError(f"{self.path}: no column {column}; its columns are: {names}")
        index = self.header.index(column)
        return [cells[index] if index < len(cells) else "" for _, cells in self.rows]

    def numbers(self, column: str, *, least: float) -> FloatArray:
        """Return a column of finite numbers, shape (rows,).

        Args:
            column: Its name.
            least: The smallest number that is allowed.

        Raises:
            DataError: There is no such column, or a cell is not such a number.
        """
        numbers = [finite_number(text) for text in self.texts(column)]
        for index, number in enumerate(numbers):
            if number is None or number < least:
                raise self.refusal(index, column, number_at_least(least))
        return np.array(numbers, dtype=np.float64)

    def refusal(self, index: int, column: str, allowed: str) -> DataError:
        """Return the error about one cell: its place, its text and what is allowed."""
        value = self.texts(column)[index]
        return DataError(f"{self.path} line {self.rows[index][0]}: {column} = {value!r}: {allowed}")


def read_table(path: Path) -> CsvTable:
    """Return a CSV file with a header; a byte order mark, CRLF and blank lines do not matter.

    Raises:
        DataError: The file cannot be read, has no header or no line below it, names a column twice,
            or has a line with more cells than the header.
    """
    (_, first), *rows = read_rows(path)
    header = [name.strip() for name in first]
    repeated = [name for k, name in enumerate(header) if name and name in header[:k]]
    if repeated:
        raise DataError(f"{path}: two columns are called {repeated[0]}")
    if not rows:
        raise DataError(f"{path}: a header and nothing below it; one line a client is needed")
    for line, cells in rows:
        if any(cell.strip() for cell in cells[len(header) :]):
            counts = f"{len(cells)} cells, but the header has {len(header)}"
            raise DataError(f"{path} line {line}: {counts}; quote a text that contains a comma")
    return CsvTable(path, header, rows)


def read_rows(path: Path) -> list[Row]:
    """Return the lines that are not blank, at least one.

    Raises:
        DataError: The file cannot be read, is not text in UTF-8, is no CSV, or has no such line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            rows = [(reader.line_num, cells) for cells in reader]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not text in UTF-8 ({error.reason})") from error
    except csv.Error as error:
        raise DataError(f"{path}: is no CSV file ({error})") from error
    rows = [(line, cells) for line, cells in rows if any(cell.strip() for cell in cells)]
    if not rows:
        raise DataError(f"{path}: is empty")
    return rows


def finite_number(text: str) -> float | None:
    """Return the finite number that a text is, None if it is none.

    >>> [finite_number(text) for text in (" 1e-3", "nan", "1_0", "")]
    [0.001, None, None, None]
    """
    try:
        # Python's own notation for long numbers is nobody's CSV
        number = math.nan if "_" in text else float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def number_at_least(least: float) -> str:
    """Say which numbers are allowed."""
    return "must be a finite number" + ("" if math.isinf(least) else f" >= {least:g}")
