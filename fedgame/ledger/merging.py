"""Making one ledger of those that the workers of a simulation wrote."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedgame.errors import DuplicateRow, LedgerError
from fedgame.ledger.catalogue import numbers_of
from fedgame.ledger.database import Database, one_line_errors
from fedgame.ledger.encoding import NO_EVENT, Content, damaged, from_record
from fedgame.ledger.events import LedgerRow
from fedgame.ledger.layout import BY_ROUND, CHARGE, EVENT, KEY, PURCHASE, RELEASE, Table

NUMBERS = "CREATE TEMP TABLE number (there INTEGER PRIMARY KEY, here INTEGER NOT NULL) STRICT"
"""What an event of one schema is called in another."""


def merge(target: Database, sources: Iterable[Path]) -> None:
    """Add the releases and purchases of the sources to the target, all or none.

    A release is in one source only, the worker's that made it. A purchase may be in several, since
    both sides of a deal may record it, if it is the same in all. Where the target has purchases,
    one that it lacks was never agreed on and is left out.

    Args:
        target: The ledger of the whole run, open for writing.
        sources: The ledgers of the workers; those of older versions are upgraded.

    Raises:
        LedgerError: A release is in two sources, a release or purchase of a source contradicts the
            target's, two sources contradict each other, or a file cannot be read.
    """
    with _gathered(target, sources, purchases=True) as events, target.transaction():
        _add_releases(target, events)
        _refuse_conflicts(target, target.path, PURCHASE, into="main", origin="temp")
        # what the server never saw signed is no deal, however sure the client is of it
        if not target.connection.execute("SELECT 1 FROM main.purchase LIMIT 1").fetchone():
            _unite(target, target.path, PURCHASE, into="main", origin="temp")


def missing(target: Database, sources: Iterable[Path]) -> list[LedgerRow]:
    """Return the target's releases that are in no source, ordered as `Ledger.rows`.

    In a finished simulation there are none: each is a release that some worker forgot.

    Raises:
        LedgerError: A release is in two sources, or a file cannot be read.
    """
    same = " AND ".join(f"new.{column} = have.{column}" for column in KEY)
    with _gathered(target, sources), one_line_errors(target.path):
        found = target.connection.execute(
            f"SELECT {RELEASE.columns} FROM main.release AS have WHERE NOT EXISTS "
            f"(SELECT 1 FROM temp.charge AS new WHERE {same}) "
            f"ORDER BY {RELEASE.order}"
        ).fetchall()
    return [from_record(target.path, record) for record in found]


@contextmanager
def _gathered(
    target: Database, sources: Iterable[Path], *, purchases: bool = False
) -> Iterator[dict[Content, int]]:
    """Copy what the sources hold into temporary tables of the same names beside the target's.

    Yields:
        The number of each event in those tables.
    """
    connection = target.connection
    tables = (CHARGE, PURCHASE) if purchases else (CHARGE,)
    gathered: dict[Content, int] = {}
    for statement in (NUMBERS, *(table.create_beside for table in tables)):
        connection.execute(statement)
    try:
        for path in sources:
            if not path.is_file():
                raise LedgerError(f"ledger {path}: no such file")
            Database(path).close()  # refuses what is no ledger, recovers what a killed process left
            with one_line_errors(path):
                connection.execute("ATTACH ? AS source", (f"{path.absolute().as_uri()}?mode=ro",))
                try:
                    _copy_releases(target, path, gathered)
                    if purchases:
                        _unite(target, path, PURCHASE, into="temp", origin="source")
                finally:
                    connection.execute("DETACH source")
        yield gathered
    finally:
        for name in ("number", *(table.name for table in tables)):
            connection.execute(f"DROP TABLE temp.{name}")


def _name_events(connection: sqlite3.Connection, pairs: list[tuple[int, int]]) -> None:
    """Note what the events of one schema are called in another."""
    connection.execute("DELETE FROM temp.number")
    # one statement is one transaction, wherever it is called
    connection.execute(
        "INSERT INTO temp.number "
        "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)",
        (json.dumps(pairs),),
    )


def _copy_releases(target: Database, path: Path, gathered: dict[Content, int]) -> None:
    """Copy a source's releases beside the target's, and number the events that are new.

    Numbers mean nothing outside their file: events are the same if their content is.
    """
    _name_events(
        target.connection,
        [
            (number, gathered.setdefault(tuple(content), len(gathered)))
            for number, *content in target.connection.execute(
                f"SELECT {EVENT.columns} FROM source.event"
            )
        ],
    )
    lost = target.connection.execute(
        f"SELECT {CHARGE.order} FROM source.charge "
        "WHERE event NOT IN (SELECT there FROM temp.number) LIMIT 1"
    ).fetchone()
    if lost:
        raise damaged(path, lost, NO_EVENT)
    try:
        with one_line_errors(path):
            target.connection.execute(
                f"INSERT INTO temp.charge ({CHARGE.columns}) SELECT {CHARGE.order}, here "
                f"FROM source.charge JOIN temp.number ON there = event ORDER BY {BY_ROUND}"
            )
    except DuplicateRow:
        key = target.connection.execute(
            f"SELECT {CHARGE.order} FROM temp.charge "
            f"JOIN source.charge USING ({CHARGE.order}) LIMIT 1"
        ).fetchone()
        raise LedgerError(
            f"ledger {path}: {CHARGE.describe(key)} is in another ledger too: row twice"
        ) from None


def _add_releases(target: Database, gathered: dict[Content, int]) -> None:
    """Add the gathered releases to the target's, where those that differ are refused."""
    numbers = numbers_of(target.connection, gathered)
    _name_events(target.connection, [(number, numbers[one]) for one, number in gathered.items()])
    conflict = target.connection.execute(
        f"SELECT {CHARGE.order} FROM main.charge AS mine "
        f"JOIN temp.charge AS theirs USING ({CHARGE.order}) "
        "JOIN temp.number ON there = theirs.event "
        "JOIN main.event AS new ON new.id = here "
        "LEFT JOIN main.event AS have ON have.id = mine.event "
        f"WHERE mine.event <> here AND NOT ({EVENT.same}) LIMIT 1"
    ).fetchone()
    if conflict:
        raise _contradiction(target.path, CHARGE, conflict)
    target.connection.execute(
        f"INSERT OR IGNORE INTO main.charge ({CHARGE.columns}) SELECT {CHARGE.order}, here "
        f"FROM temp.charge JOIN temp.number ON there = event ORDER BY {BY_ROUND}"
    )


def _unite(target: Database, path: Path, table: Table, into: str, origin: str) -> None:
    """Add the rows of one schema to another's, where equal rows are one and different ones refused.

    Args:
        target: Whose connection holds both schemas.
        path: The file that the message names.
        table: Which table of the two.
        into: The schema that is added to.
        origin: The schema whose rows are added.
    """
    _refuse_conflicts(target, path, table, into, origin)
    target.connection.execute(
        f"INSERT OR IGNORE INTO {into}.{table.name} "
        f"SELECT {table.columns} FROM {origin}.{table.name}"
    )


def _refuse_conflicts(target: Database, path: Path, table: Table, into: str, origin: str) -> None:
    """Refuse a row of one schema that differs in the other; arguments as for `_unite`."""
    conflict = target.connection.execute(
        f"SELECT {table.order} FROM {into}.{table.name} AS have "
        f"JOIN {origin}.{table.name} AS new USING ({table.order}) WHERE NOT ({table.same}) LIMIT 1"
    ).fetchone()
    if conflict:
        raise _contradiction(path, table, conflict)


def _contradiction(path: Path, table: Table, key: tuple[Any, ...]) -> LedgerError:
    return LedgerError(f"ledger {path}: {table.describe(key)} differs in another ledger")
