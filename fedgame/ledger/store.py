"""The ledger on disk: one SQLite file that is written before anything is sent.

Rows outlive the process that wrote them, so that a resumed run adds to what was spent before. Each
worker of a simulation writes a file of its own; `merge` makes one of them.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from fedgame.errors import DuplicateRow, LedgerError
from fedgame.ledger.answers import Answer
from fedgame.ledger.catalogue import Events, numbers_of
from fedgame.ledger.database import Database, one_line_errors
from fedgame.ledger.encoding import (
    NO_EVENT,
    contents_of,
    damaged,
    digestible,
    from_purchase_record,
    from_record,
    to_purchase_record,
)
from fedgame.ledger.events import LedgerRow, PrivacyEvent
from fedgame.ledger.layout import (
    ANSWER,
    BY_ROUND,
    CHARGE,
    KEY,
    PURCHASE,
    RELEASE,
    Table,
    stored_in,
)
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
        charged = list(rows)  # events are told apart by identity: they have to stay
        contents = contents_of(charged)

        def records() -> list[tuple[Any, ...]]:
            known = numbers_of(self.connection, dict.fromkeys(contents.values()))
            numbers = {event: known[content] for event, content in contents.items()}
            return [
                (
                    int(row.client),
                    int(row.round),
                    int(row.step),
                    row.purpose,
                    numbers[id(row.event)],
                )
                for row in charged
            ]

        reason = "a release must be charged once, and noise never drawn twice"
        self._insert(CHARGE, records, reason, check, answers)

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
        self._insert(PURCHASE, lambda: records, "a budget is bought once", answers=answers)

    def answer(self, action: str) -> Answer | None:
        """Return the last reply to one kind of order, None if there is none."""
        query = f"SELECT {ANSWER.columns} FROM {ANSWER.name} WHERE action = ?"
        with one_line_errors(self.path):
            found = self.connection.execute(query, (action,)).fetchone()
        return None if found is None else Answer(*found)

    def _insert(
        self,
        table: Table,
        make: Callable[[], list[tuple[Any, ...]]],
        reason: str,
        check: Callable[[], None] = lambda: None,
        answers: Sequence[Answer] = (),
    ) -> None:
        records: list[tuple[Any, ...]] = []
        try:
            with self.transaction():
                check()
                records = make()
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
        query = f"SELECT {table.columns} FROM {table.name} WHERE {table.where}"

        def stored(record: tuple[Any, ...]) -> bool:
            key = record[: len(table.key)]
            return bool(self.connection.execute(query, key).fetchone() == record)

        return [record for record in records if not stored(record)]

    def _first_duplicate(self, table: Table, records: list[tuple[Any, ...]]) -> str:
        query = f"SELECT 1 FROM {table.name} WHERE {table.where}"
        seen: set[tuple[Any, ...]] = set()
        for record in records:
            key = record[: len(table.key)]
            if key in seen or self.connection.execute(query, key).fetchone():
                return table.describe(key)
            seen.add(key)
        return "a row"

    def _records(self, table: Table) -> list[tuple[Any, ...]]:
        with one_line_errors(self.path):
            stored = stored_in(self.version(), table.name)
            if stored is None:
                return []
            unknown = (None,) * (len(table.content) - len(stored.content))
            return [record + unknown for record in self.connection.execute(stored.select)]

    def _numbers_events(self) -> bool:
        """Whether the file has each event once, not one of an older version open for reading."""
        with one_line_errors(self.path):
            return stored_in(self.version(), CHARGE.name) is not None

    def rows(self) -> list[LedgerRow]:
        """Return all rows, ordered by client, round, step and purpose.

        Raises:
            LedgerError: The file is damaged, or a row is not what it should be.
        """
        if not self._numbers_events():
            return [from_record(self.path, record) for record in self._records(RELEASE)]
        with one_line_errors(self.path):
            events = Events(self.path, self.connection)
            return [
                LedgerRow(client, round_, step, purpose, events[number])
                for client, round_, step, purpose, number in self.connection.execute(CHARGE.select)
            ]

    def events_by_client(self) -> dict[int, list[PrivacyEvent]]:
        """Return each client's events, ordered by round, step and purpose.

        Raises:
            LedgerError: As for `rows`.
        """
        found: defaultdict[int, list[PrivacyEvent]] = defaultdict(list)
        if not self._numbers_events():
            for row in self.rows():
                found[row.client].append(row.event)
            return dict(found)
        with one_line_errors(self.path):
            events = Events(self.path, self.connection)
            query = f"SELECT client, event FROM {CHARGE.name} ORDER BY {BY_ROUND}"
            for client, number in self.connection.execute(query):
                found[client].append(events[number])
        return {client: found[client] for client in sorted(found)}

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
        query = f"""SELECT total(coalesce(steps, 1)), count(*) - count(kind)
            FROM {RELEASE.name} WHERE client = ? AND purpose = ?"""
        with one_line_errors(self.path):
            found, lost = self.connection.execute(query, (int(client), purpose)).fetchone()
        if lost:
            raise LedgerError(f"ledger {self.path}: {lost} rows of client {client}: {NO_EVENT}")
        return int(found)

    def digest(self) -> str:
        """Return the SHA-256 of the rows, in hexadecimal: equal for equal rows, however written.

        Purchases are part of it where there are any.

        Raises:
            LedgerError: The file is damaged.
        """
        digest = hashlib.sha256()
        for record in self._records(RELEASE):
            if record[len(KEY)] is None:
                raise damaged(self.path, record[: len(KEY)], NO_EVENT)
            digest.update(json.dumps(digestible(record)).encode() + b"\n")
        for record in self._records(PURCHASE):
            digest.update(json.dumps([PURCHASE.name, *record]).encode() + b"\n")
        return digest.hexdigest()
