"""Making one ledger of those that the workers of a simulation wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedgame.errors import DuplicateRow, LedgerError
from fedgame.ledger.database import Database, one_line_errors
from fedgame.ledger.encoding import PURCHASE, RELEASE, Table, from_record
from fedgame.ledger.events import LedgerRow


def merge(target: Database, sources: Iterable[Path]) -> None:
    """Add the releases and purchases of the sources to the target, all or none.

    A release is in one source only, the worker's that made it. A purchase may be in several, since
    both sides of a deal may record it, if it is the same in all. Where the target has purchases,
    one that it lacks was never agreed on and is left out.

    Args:
        target: The ledger of the whole run, open for writing.
        sources: The ledgers of the workers; those of version 1 are upgraded.

    Raises:
        LedgerError: A release is in two sources, a release or purchase of a source contradicts the
            target's, two sources contradict each other, or a file cannot be read.
    """
    with _gathered(target, sources, (RELEASE, PURCHASE)), target.transaction():
        _unite(target, target.path, RELEASE, into="main", origin="temp")
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
    same = " AND ".join(f"new.{column} = have.{column}" for column in RELEASE.key)
    with _gathered(target, sources, (RELEASE,)), one_line_errors(target.path):
        found = target.connection.execute(
            f"SELECT {RELEASE.columns} FROM main.release AS have WHERE NOT EXISTS "
            f"(SELECT 1 FROM temp.release AS new WHERE {same}) "
            f"ORDER BY {RELEASE.order}"
        ).fetchall()
    return [from_record(target.path, record) for record in found]


@contextmanager
def _gathered(
    target: Database, sources: Iterable[Path], tables: tuple[Table, ...]
) -> Iterator[None]:
    """Copy what the sources hold into temporary tables of the same names beside the target's."""
    connection = target.connection
    for table in tables:
        connection.execute(f"CREATE TEMP TABLE {table.name} {table.types}")
    try:
        for path in sources:
            if not path.is_file():
                raise LedgerError(f"ledger {path}: no such file")
            Database(path).close()  # refuses what is no ledger, recovers what a killed process left
            with one_line_errors(path):
                connection.execute("ATTACH ? AS source", (f"{path.absolute().as_uri()}?mode=ro",))
                try:
                    _copy_releases(target, path)
                    if PURCHASE in tables:
                        _unite(target, path, PURCHASE, into="temp", origin="source")
                finally:
                    connection.execute("DETACH source")
        yield
    finally:
        for table in tables:
            connection.execute(f"DROP TABLE temp.{table.name}")


def _copy_releases(target: Database, path: Path) -> None:
    try:
        with one_line_errors(path):
            target.connection.execute(
                f"INSERT INTO temp.release SELECT {RELEASE.columns} FROM source.release"
            )
    except DuplicateRow:
        key = target.connection.execute(
            f"SELECT {RELEASE.order} FROM temp.release "
            f"JOIN source.release USING ({RELEASE.order}) LIMIT 1"
        ).fetchone()
        raise LedgerError(
            f"ledger {path}: {RELEASE.describe(key)} is in another ledger too: row twice"
        ) from None


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
    differ = " OR ".join(f"have.{column} IS NOT new.{column}" for column in table.content)
    conflict = target.connection.execute(
        f"SELECT {table.order} FROM {into}.{table.name} AS have "
        f"JOIN {origin}.{table.name} AS new USING ({table.order}) WHERE {differ} LIMIT 1"
    ).fetchone()
    if conflict:
        raise LedgerError(f"ledger {path}: {table.describe(conflict)} differs in another ledger")
