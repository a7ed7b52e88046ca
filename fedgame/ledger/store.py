"""The ledger on disk: one SQLite file that is written before anything is sent.

Rows outlive the process that wrote them, so that a resumed run adds to what was spent before. Each
worker of a simulation writes a file of its own; `merge` makes one of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from fedgame.errors import DuplicateRow
from fedgame.ledger.answers import Answer
from fedgame.ledger.database import Database, one_line_errors
from fedgame.ledger.encoding import (
    ANSWER,
    LAYOUTS,
    PURCHASE,
    RELEASE,
    Table,
    digestible,
    event_of,
    from_purchase_record,
    from_record,
    to_purchase_record,
    to_record,
)
from fedgame.ledger.events import LedgerRow, PrivacyEvent
from fedgame.ledger.merging import merge, missing
from fedgame.ledger.purchases import Purchase

__all__ = ["Ledger", "merge", "missing"]


class Ledger(Database):
    """All releases of one or many clients, keyed by (client, round, step, purpose).

    Beside them stands what was bought from the clients, where budgets are bought. A context
    manager; a closed ledger is a single file. Different processes may use the same file one after
    another, and a process that is killed loses nothing that `append` returned from.
    """

    def __init__(self, path: Path, *, read_only: bool = False, repeats: bool = False) -> None:
        """Open the ledger at `path`; see `Database`.

        Args:
            path: The file; its folder must exist.
            read_only: Open an existing ledger without being able to change it.
            repeats: Whether rows and purchases that are there already may be written again if they
                are the same, as where a run that was killed does its last round once more.
        """
        super().__init__(path, read_only=read_only)
        self._repeats = repeats

    def append(
        self,
        rows: Iterable[LedgerRow],
        check: Callable[[], None] = lambda: None,
        *answers: Answer,
    ) -> None:
        """Write all rows or none; they are on disk when it returns.

        Args:
            rows: The releases.
            check: Called when nobody else can write; nothing is written if it raises.
            *answers: The reply that they are for, and what else is kept with them, each in place of
                the last one of its kind.

        Raises:
            DuplicateRow: A row with the same key is there already, or comes twice.
            LedgerError: A row cannot be stored, or the file cannot be written.
        """
        reason = "a release must be charged once, and noise never drawn twice"
        self._insert(RELEASE, [to_record(row) for row in rows], reason, check, answers)

    def append_purchases(self, purchases: Iterable[Purchase], *answers: Answer) -> None:
        """Write all purchases or none; they are on disk when it returns.

        Args:
            purchases: The purchases.
            *answers: The reply that they are for, as in `append`.

        Raises:
            DuplicateRow: A client has sold already, be it the same, or comes twice.
            LedgerError: The file cannot be written.
        """
        records = [to_purchase_record(purchase) for purchase in purchases]
        self._insert(PURCHASE, records, "a budget is bought once", answers=answers)

    def answer(self, action: str) -> Answer | None:
        """Return the last reply to one kind of order, None if there is none."""
        query = f"SELECT {ANSWER.columns} FROM {ANSWER.name} WHERE action = ?"
        with one_line_errors(self.path):
            found = self.connection.execute(query, (action,)).fetchone()
        return None if found is None else Answer(*found)

    def _insert(
        self,
        table: Table,
        records: list[tuple[Any, ...]],
        reason: str,
        check: Callable[[], None] = lambda: None,
        answers: Sequence[Answer] = (),
    ) -> None:
        try:
            with self.transaction():
                check()
                new = self._new(table, records) if self._repeats else records
                self.connection.executemany(table.insert, new)
                replace = ANSWER.insert.replace("INSERT", "INSERT OR REPLACE", 1)
                self.connection.executemany(replace, [astuple(answer) for answer in answers])
        except DuplicateRow:
            raise DuplicateRow(
                f"ledger {self.path}: {self._first_duplicate(table, records)} is there already: "
                f"{reason}"
            ) from None

    def _new(self, table: Table, records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the records that are not there word for word."""
        where = " AND ".join(f"{column} = ?" for column in table.key)
        query = f"SELECT {table.columns} FROM {table.name} WHERE {where}"

        def stored(record: tuple[Any, ...]) -> bool:
            key = record[: len(table.key)]
            return bool(self.connection.execute(query, key).fetchone() == record)

        return [record for record in records if not stored(record)]

    def _first_duplicate(self, table: Table, records: list[tuple[Any, ...]]) -> str:
        where = " AND ".join(f"{column} = ?" for column in table.key)
        query = f"SELECT 1 FROM {table.name} WHERE {where}"
        seen: set[tuple[Any, ...]] = set()
        for record in records:
            key = record[: len(table.key)]
            if key in seen or self.connection.execute(query, key).fetchone():
                return table.describe(key)
            seen.add(key)
        return "a row"

    def _records(self, table: Table) -> list[tuple[Any, ...]]:
        with one_line_errors(self.path):
            stored = {known.name: known for known in LAYOUTS[self.version()]}.get(table.name)
            if stored is None:
                return []
            unknown = (None,) * (len(table.content) - len(stored.content))
            return [record + unknown for record in self.connection.execute(stored.select)]

    def rows(self) -> list[LedgerRow]:
        """Return all rows, ordered by client, round, step and purpose.

        Raises:
            LedgerError: The file is damaged, or a row is not what it should be.
        """
        return [from_record(self.path, record) for record in self._records(RELEASE)]

    def events_by_client(self) -> dict[int, list[PrivacyEvent]]:
        """Return each client's events, ordered by round, step and purpose."""
        events: dict[int, list[PrivacyEvent]] = {}
        for record in self._records(RELEASE):
            events.setdefault(record[0], []).append(event_of(self.path, record))
        return events

    def purchases(self) -> dict[int, Purchase]:
        """Return what was bought, by client, in the order of the clients.

        Raises:
            LedgerError: The file is damaged, or a purchase is not what it should be.
        """
        found = [from_purchase_record(self.path, record) for record in self._records(PURCHASE)]
        return {purchase.client: purchase for purchase in found}

    def count(self, client: int, purpose: str) -> int:
        """Return how many releases `client` has made for `purpose`; a row of n steps counts n.

        Raises:
            LedgerError: The file is damaged.
        """
        query = "SELECT total(coalesce(steps, 1)) FROM release WHERE client = ? AND purpose = ?"
        with one_line_errors(self.path):
            found = self.connection.execute(query, (int(client), purpose)).fetchone()
        return int(found[0])

    def digest(self) -> str:
        """Return the SHA-256 of the rows, in hexadecimal: equal for equal rows, however written.

        Purchases are part of it where there are any.
        """
        digest = hashlib.sha256()
        for record in self._records(RELEASE):
            digest.update(json.dumps(digestible(record)).encode() + b"\n")
        for record in self._records(PURCHASE):
            digest.update(json.dumps([PURCHASE.name, *record]).encode() + b"\n")
        return digest.hexdigest()
