"""The SQLite file below a ledger: opening, upgrading, transactions, closing."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from fedgame.errors import DiskError, DuplicateRow, LedgerError
from fedgame.ledger.layout import (
    BY_ROUND,
    CHARGE,
    EVENT,
    EVENT_INDEX,
    LAYOUTS,
    RELEASE,
    VERSION,
    Table,
)

TIMEOUT = 30
"""Seconds to wait for another process that writes."""

FORMER = "former_release"
"""What the table of releases of an older version is called while it is upgraded."""

CACHE_KIBIBYTES = 2**16
"""Memory that a large ledger may take while it is written; rows of a round touch all its pages."""

OF_THE_DISK = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
"""How the names of SQLite's errors begin that say nothing about what was to be written."""


@contextmanager
def one_line_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, whose text names the file."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_CONSTRAINT_PRIMARYKEY":
            raise DuplicateRow(f"ledger {path}: a row is there already") from error
        if name.startswith(OF_THE_DISK):
            raise DiskError(f"ledger {path}: {error}") from error
        raise LedgerError(f"ledger {path}: {error}") from error
    except UnicodeDecodeError as error:
        raise LedgerError(f"ledger {path}: it is damaged ({error.reason})") from error


class Database:
    """An open file of releases and purchases; a context manager.

    A closed one is a single file. Different processes may use the same file one after another, and
    a process that is killed loses nothing that it had committed.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the ledger at `path`, and make it if it is not there.

        A ledger of an older version is upgraded unless it is opened for reading.

        Args:
            path: The file; its folder must exist.
            read_only: Open an existing ledger without being able to change it, for audits.

        Raises:
            LedgerError: The file cannot be opened, is damaged, or is no ledger.
        """
        self.path = Path(path)
        self.read_only = read_only
        mode = "ro" if read_only else "rwc"
        if read_only and not self.path.is_file():
            raise LedgerError(f"ledger {self.path}: no such file")
        with one_line_errors(self.path):
            self.connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=TIMEOUT,
                isolation_level=None,
            )
        try:
            with one_line_errors(self.path):
                self._prepare()
        except LedgerError:
            self.connection.close()
            raise

    def _prepare(self) -> None:
        if not self.read_only:
            self._keep_a_log()
            self.connection.execute("PRAGMA synchronous = FULL")
            self.connection.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
            with self.transaction():
                self._upgrade()
        version = self.version()
        if version not in (LAYOUTS if self.read_only else (VERSION,)):
            raise LedgerError(f"ledger {self.path}: not a ledger of version 1 to {VERSION}")
        self._require(LAYOUTS[version])

    def _require(self, tables: tuple[Table, ...]) -> None:
        for table in tables:
            self.connection.execute(f"SELECT {table.columns} FROM {table.name} LIMIT 1")

    def _keep_a_log(self) -> None:
        """Turn write-ahead logging on; unlike others, this statement does not wait by itself."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                # a full disk stays full
                if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _upgrade(self) -> None:
        """Bring an empty file, or a ledger of an older version, to the present version."""
        version = self.version()
        tables = self.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        empty = tables == 0 and version == 0
        if not empty and not 1 <= version < VERSION:
            return
        # another program's file of this number has no such tables, and stays as it was
        older = LAYOUTS.get(version, ())
        self._require(older)
        there = {table.name for table in older}
        if older:
            self.connection.execute(f"ALTER TABLE {RELEASE.name} RENAME TO {FORMER}")
            there.remove(RELEASE.name)
        for table in LAYOUTS[VERSION]:
            if table.name not in there:
                self.connection.execute(table.create)
        self.connection.execute(EVENT_INDEX)
        if older:
            self._move(older[0])
        self.connection.execute(f"PRAGMA user_version = {VERSION}")

    def _move(self, release: Table) -> None:
        """Take the releases over from the table that had the whole event in every row."""
        content = ", ".join(release.content)
        self.connection.execute(
            f"INSERT INTO {EVENT.name} ({content}) SELECT DISTINCT {content} FROM {FORMER}"
        )
        # an event that is not found again would be refused as unknown: none is lost
        self.connection.execute(
            f"INSERT INTO {CHARGE.name} ({CHARGE.columns}) "
            f"SELECT {CHARGE.order}, have.id FROM {FORMER} AS new "
            f"LEFT JOIN {EVENT.name} AS have ON {release.same} ORDER BY {BY_ROUND}"
        )
        self.connection.execute(f"DROP TABLE {FORMER}")

    def version(self) -> int:
        """Return the version of the file's layout, which another process may have upgraded."""
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all that happens inside, or nothing.

        Raises:
            LedgerError: The ledger is open for reading only, or SQLite fails.
            DuplicateRow: A row with the same key is there already.
        """
        if self.read_only:
            raise LedgerError(f"ledger {self.path}: it is open for reading only")
        with one_line_errors(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # SQLite undoes some failures by itself
                    self.connection.execute("ROLLBACK")
                raise

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
