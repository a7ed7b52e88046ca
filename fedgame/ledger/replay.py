"""Reading back what a finished or broken run has spent, for audits that start from its folder."""

from __future__ import annotations

from pathlib import Path

from fedgame.errors import LedgerError
from fedgame.ledger.events import PrivacyEvent
from fedgame.ledger.store import Ledger

LEDGER_FILE = "ledger.sqlite"
"""The ledger's name in a run folder."""


def read_events(run_folder: Path) -> dict[int, list[PrivacyEvent]]:
    """Return each client's events from a run folder, ordered by round, step and purpose.

    Args:
        run_folder: The folder that holds `ledger.sqlite`.

    Raises:
        LedgerError: The folder has no ledger, or it is damaged.
    """
    path = Path(run_folder) / LEDGER_FILE
    if not path.is_file():
        raise LedgerError(f"{run_folder}: no {LEDGER_FILE} there, so it is no run folder")
    with Ledger(path, read_only=True) as ledger:
        return ledger.events_by_client()
