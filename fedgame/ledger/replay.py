"""Reading back what a finished or broken run has spent, for audits that start from its folder."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from fedgame.errors import LedgerError
from fedgame.ledger.events import LedgerRow, PrivacyEvent
from fedgame.ledger.store import Ledger

LEDGER_FILE = "ledger.sqlite"
"""The ledger's name in a run folder."""

NODE_LEDGERS = "node-*.sqlite"
"""What simulated nodes' own ledgers look like; they are there while a run lasts, or if it broke."""


def read_events(run_folder: Path) -> dict[int, list[PrivacyEvent]]:
    """Return each client's events from a run folder, ordered by round, step and purpose.

    A run that was killed has releases in its nodes' ledgers that the server never recorded: they
    count. Where the two differ, the node's row is taken, since it was written first.

    Args:
        run_folder: The folder that holds `ledger.sqlite`.

    Raises:
        LedgerError: The folder has no ledger, or one is damaged.
    """
    path = Path(run_folder) / LEDGER_FILE
    if not path.is_file():
        raise LedgerError(f"{run_folder}: no {LEDGER_FILE} there, so it is no run folder")
    rows: dict[tuple[int, int, int, str], LedgerRow] = {}
    for source in (path, *sorted(Path(run_folder).glob(NODE_LEDGERS))):
        with Ledger(source, read_only=True) as ledger:
            rows.update(
                {(row.client, row.round, row.step, row.purpose): row for row in ledger.rows()}
            )
    events: defaultdict[int, list[PrivacyEvent]] = defaultdict(list)
    for key in sorted(rows):
        events[key[0]].append(rows[key].event)
    return dict(events)
