"""The sensitivities that clients reported: from a CSV file, or listed in a TOML file."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedgame.cli.options import Given, Options, as_number
from fedgame.errors import DataError
from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.csv_file import CsvTable, number_at_least, read_table

CLIENT, SENSITIVITY, LOSS = "client", "sensitivity", "loss"


@dataclass(frozen=True)
class Reports:
    """What the clients reported.

    Attributes:
        clients: Their names, in the order of the file.
        sensitivities: c_k, shape (clients,), finite and >= 0.
        losses: Initial local losses, shape (clients,); empty where they were not asked for.
        refusal: The error about one client's report: from its index and what is allowed.
    """

    clients: list[str]
    sensitivities: FloatArray
    losses: FloatArray
    refusal: Callable[[int, str], DataError]


def read_reports(options: Options, *, with_losses: bool) -> Reports:
    """Read the reports.

    Args:
        options: The command's values, of which `reports` is a path or a list of numbers.
        with_losses: Whether the mechanism needs the clients' losses, which a list does not have.

    Raises:
        ConfigError: There are no reports.
        DataError: A file cannot be read or lacks a column, a client stands there twice, or a value
            is not the number that it must be.
    """
    given = options.given("reports")
    if given is None:
        raise options.refuse("reports", "give a CSV file with the columns client,sensitivity")
    if isinstance(given.value, list):
        if with_losses:
            raise options.refuse("reports", f"must be a CSV file with a column {LOSS} for bbm")
        return _from_list(given)
    if not isinstance(given.value, str):
        raise options.refuse("reports", "must be a CSV file or a list of numbers")
    return _from_file(given.folder / given.value, with_losses=with_losses)


def _from_list(given: Given) -> Reports:
    values = given.value if isinstance(given.value, list) else []

    def refusal(index: int, allowed: str) -> DataError:
        return DataError(f"{given.label}[{index}] = {values[index]!r}: {allowed}")

    if not values:
        raise DataError(f"{given.label} = []: one number a client is needed, at least one")
    numbers = [as_number(value) for value in values]
    for index, number in enumerate(numbers):
        if number is None or number < 0:
            raise refusal(index, number_at_least(0))
    names = [str(index) for index in range(len(values))]
    return Reports(names, np.array(numbers, dtype=np.float64), np.array([]), refusal)


def _from_file(path: Path, *, with_losses: bool) -> Reports:
    table = read_table(path)
    return Reports(
        clients=_names(table),
        sensitivities=table.numbers(SENSITIVITY, least=0),
        losses=table.numbers(LOSS, least=-math.inf) if with_losses else np.array([]),
        refusal=lambda index, allowed: table.refusal(index, SENSITIVITY, allowed),
    )


def _names(table: CsvTable) -> list[str]:
    names = table.texts(CLIENT)
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if not name.strip():
            raise table.refusal(index, CLIENT, "must not be empty")
        if name in first:
            line = table.rows[first[name]][0]
            raise table.refusal(index, CLIENT, f"must differ from the client of line {line}")
        first[name] = index
    return names
