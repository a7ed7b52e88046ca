"""The distinct events of a file: which number each has, and what a number stands for."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path

from fedgame.ledger.encoding import Content, damaged, to_event
from fedgame.ledger.events import PrivacyEvent
from fedgame.ledger.layout import CHARGE, EVENT

_CONTENT = ", ".join(EVENT.content)
_FIND = f"SELECT id FROM {EVENT.name} WHERE " + " AND ".join(
    f"{column} IS ?" for column in EVENT.content
)

WORTH_READING = 3
"""How many events are read in the time that it takes to look one up."""


def numbers_of(connection: sqlite3.Connection, contents: Collection[Content]) -> dict[Content, int]:
    """Return the number of each event, and add those that are not in the file.

    Args:
        connection: To the file, in a transaction, so that nobody adds the same event meanwhile.
        contents: The distinct events.
    """
    size = connection.execute(f"SELECT coalesce(max(id), 0) FROM {EVENT.name}").fetchone()[0]
    numbers: dict[Content, int] = {}
    if size <= WORTH_READING * len(contents):
        for number, *content in connection.execute(EVENT.select):
            numbers.setdefault(tuple(content), number)
    else:
        for content in contents:
            for (number,) in connection.execute(f"{_FIND} ORDER BY id LIMIT 1", content):
                numbers[content] = number
    new = [content for content in contents if content not in numbers]
    added = dict(zip(new, range(size + 1, size + 1 + len(new)), strict=True))
    connection.executemany(EVENT.insert, ((added[content], *content) for content in new))
    return numbers | added


class Events(dict[int, PrivacyEvent]):
    """The events of a file by their numbers, each read and checked when it is first asked for."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Read from an open file; `path` is for messages."""
        super().__init__()
        self._path, self._connection = path, connection

    def __missing__(self, number: int) -> PrivacyEvent:
        """Return the event of a number.

        Raises:
            LedgerError: There is none, or it is not what it should be; the text names a row.
        """
        query = f"SELECT {_CONTENT} FROM {EVENT.name} WHERE id = ?"
        content = self._connection.execute(query, (number,)).fetchone() or (None,)
        try:
            self[number] = to_event(*content)
        except (TypeError, ValueError) as error:
            raise damaged(self._path, self._first_row(number), error) from error
        return self[number]

    def _first_row(self, number: int) -> tuple[object, ...]:
        query = f"SELECT {CHARGE.order} FROM {CHARGE.name} WHERE event = ? "
        found: tuple[object, ...] = self._connection.execute(
            f"{query} ORDER BY {CHARGE.order} LIMIT 1", (number,)
        ).fetchone()
        return found
