"""Reading back what a finished or broken run has spent, for audits that start from its folder."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from fedgame.errors import LedgerError
from fedgame.ledger.events import LedgerRow, PrivacyEvent
from fedgame.ledger.purchases import Purchase
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
    sources = _ledgers(run_folder)
    if len(sources) == 1:
        with Ledger(sources[0], read_only=True) as ledger:
            return ledger.events_by_client()
    rows: dict[tuple[int, int, int, str], LedgerRow] = {}
    for source in sources:
        with Ledger(source, read_only=True) as ledger:
            rows.update(
                {(row.client, row.round, row.step, row.purpose): row for row in ledger.rows()}
            )
    events: defaultdict[int, list[PrivacyEvent]] = defaultdict(list)
    for key in sorted(rows):
        events[key[0]].append(rows[key].event)
    return dict(events)


def read_purchases(run_folder: Path) -> dict[int, Purchase]:
    """Return what a run bought, by client; empty for a run that buys nothing.

    Args:
        run_folder: The folder that holds `ledger.sqlite`.

    Raises:
        LedgerError: The folder has no ledger, one is damaged, or a node recorded another deal than
            the server.
    """
    purchases: dict[int, Purchase] = {}
    for source in _ledgers(run_folder):
        with Ledger(source, read_only=True) as ledger:
            for client, purchase in ledger.purchases().items():
                if purchases.setdefault(client, purchase) != purchase:
                    raise LedgerError(
                        f"ledger {source}: the purchase of client {client} differs in another "
                        "ledger of the run"
                    )
    return {client: purchases[client] for client in sorted(purchases)}


def _ledgers(run_folder: Path) -> list[Path]:
    """Return the ledgers of a run, the server's first."""
    path = Path(run_folder) / LEDGER_FILE
    if not path.is_file():
        raise LedgerError(f"{run_folder}: no {LEDGER_FILE} there, so it is no run folder")
    return [path, *sorted(Path(run_folder).glob(NODE_LEDGERS))]
