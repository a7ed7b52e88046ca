"""The ledger on disk: one SQLite file that is written before anything is sent.

Rows outlive the process that wrote them, so that a resumed run adds to what was spent before. Each
worker of a simulation writes a file of its own; `merge` makes one of them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedgame.errors import DuplicateRow, LedgerError
from fedgame.ledger.encoding import (
    COLUMNS,
    CONTENT,
    KEY,
    ORDER,
    TABLE,
    VERSION,
    describe,
    from_record,
    to_record,
)
from fedgame.ledger.events import LedgerRow, PrivacyEvent

SELECT = f"SELECT {COLUMNS} FROM release ORDER BY {ORDER}"


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, whose text names the file."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_CONSTRAINT_PRIMARYKEY":
            raise DuplicateRow(f"ledger {path}: a row is there already") from error
        raise LedgerError(f"ledger {path}: {error}") from error
    except UnicodeDecodeError as error:
        raise LedgerError(f"ledger {path}: it is damaged ({error.reason})") from error


class Ledger:
    """All releases of one or many clients, keyed by (client, round, step, purpose).

    A context manager; a closed ledger is a single file. Different processes may use the same file
    one after another, and a process that is killed loses nothing that `append` returned from.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the ledger at `path`, and make it if it is not there.

        Args:
            path: The file; its folder must exist.
            read_only: Open an existing ledger without being able to change it, for audits.

        Raises:
            LedgerError: The file cannot be opened, is damaged, or is no ledger.
        """
        self.path = Path(path)
        mode = "ro" if read_only else "rwc"
        if read_only and not self.path.is_file():
            raise LedgerError(f"ledger {self.path}: no such file")
        with _one_line_errors(self.path):
            self.connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=30,
                isolation_level=None,
            )
        try:
            with _one_line_errors(self.path):
                self._prepare(read_only=read_only)
        except LedgerError:
            self.connection.close()
            raise
        self.read_only = read_only

    def _prepare(self, *, read_only: bool) -> None:
        if not read_only:
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
            with self.transaction():
                tables = self.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
                if tables == 0 and self._version() == 0:
                    self.connection.execute(TABLE)
                    self.connection.execute(f"PRAGMA user_version = {VERSION}")
        if self._version() != VERSION:
            raise LedgerError(f"ledger {self.path}: not a ledger of version {VERSION}")
        self.connection.execute(f"SELECT {COLUMNS} FROM release LIMIT 1")

    def _version(self) -> int:
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all that happens inside, or nothing."""
        with _one_line_errors(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # SQLite undoes some failures by itself
                    self.connection.execute("ROLLBACK")
                raise

    def append(self, rows: Iterable[LedgerRow]) -> None:
        """Write all rows or none; they are on disk when it returns.

        Raises:
            DuplicateRow: A row with the same key is there already, or comes twice.
            LedgerError: A row cannot be stored, or the file cannot be written.
        """
        records = [to_record(row) for row in rows]
        marks = ", ".join("?" * len(KEY + CONTENT))
        try:
            with self.transaction():
                self.connection.executemany(
                    f"INSERT INTO release ({COLUMNS}) VALUES ({marks})", records
                )
        except DuplicateRow:
            raise DuplicateRow(
                f"ledger {self.path}: {self._first_duplicate(records)} is there already: "
                "a release must be charged once, and noise never drawn twice"
            ) from None

    def _first_duplicate(self, records: list[tuple[Any, ...]]) -> str:
        where = " AND ".join(f"{column} = ?" for column in KEY)
        seen: set[tuple[Any, ...]] = set()
        for record in records:
            key = record[:4]
            found = self.connection.execute(f"SELECT 1 FROM release WHERE {where}", key).fetchone()
            if found or key in seen:
                return describe(key)
            seen.add(key)
        return "a row"

    def rows(self) -> list[LedgerRow]:
        """Return all rows, ordered by client, round, step and purpose.

        Raises:
            LedgerError: The file is damaged, or a row is not what it should be.
        """
        with _one_line_errors(self.path):
            found = self.connection.execute(SELECT).fetchall()
        return [from_record(self.path, record) for record in found]

    def events_by_client(self) -> dict[int, list[PrivacyEvent]]:
        """Return each client's events, ordered by round, step and purpose."""
        events: dict[int, list[PrivacyEvent]] = {}
        for row in self.rows():
            events.setdefault(row.client, []).append(row.event)
        return events

    def digest(self) -> str:
        """Return the SHA-256 of the rows, in hexadecimal: equal for equal rows, however written."""
        digest = hashlib.sha256()
        with _one_line_errors(self.path):
            for record in self.connection.execute(SELECT):
                digest.update(json.dumps(record).encode() + b"\n")
        return digest.hexdigest()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if not self.read_only:
            # Leave one self-contained file, unless another process still has it open.
            with suppress(sqlite3.Error):
                self.connection.execute("PRAGMA busy_timeout = 0")
                self.connection.execute("PRAGMA journal_mode = DELETE")
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@contextmanager
def _gathered(target: Ledger, sources: Iterable[Path]) -> Iterator[None]:
    """Copy the rows of all sources into the temporary table `incoming` beside the target's."""
    connection = target.connection
    connection.execute(TABLE.replace("CREATE TABLE release", "CREATE TEMP TABLE incoming"))
    try:
        for path in sources:
            if not path.is_file():
                raise LedgerError(f"ledger {path}: no such file")
            Ledger(path).close()  # refuses what is no ledger, recovers what a killed process left
            with _one_line_errors(path):
                connection.execute("ATTACH ? AS source", (f"{path.absolute().as_uri()}?mode=ro",))
                try:
                    _copy(target, path)
                finally:
                    connection.execute("DETACH source")
        yield
    finally:
        connection.execute("DROP TABLE temp.incoming")


def _copy(target: Ledger, path: Path) -> None:
    try:
        with _one_line_errors(path):
            target.connection.execute(
                f"INSERT INTO temp.incoming SELECT {COLUMNS} FROM source.release"
            )
    except DuplicateRow:
        key = target.connection.execute(
            f"SELECT {ORDER} FROM temp.incoming JOIN source.release USING ({ORDER}) LIMIT 1"
        ).fetchone()
        raise LedgerError(
            f"ledger {path}: {describe(key)} is in another ledger too: row twice"
        ) from None


def merge(target: Ledger, sources: Iterable[Path]) -> None:
    """Add the rows of the sources to the target, all or none.

    Args:
        target: The ledger of the whole run, open for writing.
        sources: The ledgers of the workers.

    Raises:
        LedgerError: A row is in two sources, a row of a source contradicts the target's, or a file
            cannot be read.
    """
    differ = " OR ".join(f"have.{column} IS NOT new.{column}" for column in CONTENT)
    with _gathered(target, sources), target.transaction():
        conflict = target.connection.execute(
            f"SELECT {ORDER} FROM main.release AS have JOIN temp.incoming AS new USING ({ORDER}) "
            f"WHERE {differ} LIMIT 1"
        ).fetchone()
        if conflict:
            raise LedgerError(f"ledger {target.path}: {describe(conflict)} differs in a source")
        target.connection.execute(
            f"INSERT OR IGNORE INTO main.release SELECT {COLUMNS} FROM temp.incoming"
        )


def missing(target: Ledger, sources: Iterable[Path]) -> list[LedgerRow]:
    """Return the target's rows that are in no source, ordered as `Ledger.rows`.

    In a finished simulation there are none: each is a release that some worker forgot.

    Raises:
        LedgerError: A row is in two sources, or a file cannot be read.
    """
    same = " AND ".join(f"new.{column} = have.{column}" for column in KEY)
    with _gathered(target, sources), _one_line_errors(target.path):
        found = target.connection.execute(
            f"SELECT {COLUMNS} FROM main.release AS have WHERE NOT EXISTS "
            f"(SELECT 1 FROM temp.incoming AS new WHERE {same}) ORDER BY {ORDER}"
        ).fetchall()
    return [from_record(target.path, record) for record in found]
