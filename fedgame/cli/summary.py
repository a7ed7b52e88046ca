"""The summary of a run as tables for the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fedgame.cli.progress import bound, number
from fedgame.errors import RunFailed

MAX_CLIENTS = 20

_CLIENT_COLUMNS = {
    "client": "id",
    "beta": "beta",
    "strength": "strength",
    "noise multiplier": "noise_multiplier",
    "guarantee": "guarantee",
    "realised": "realised",
    "claimed delta": "claimed_delta",
    "sound delta at epsilon 1": "sound_delta_at_epsilon_1",
}
_BOUNDS = {"guarantee", "realised", "sound_delta_at_epsilon_1"}


def read_summary(folder: Path) -> dict[str, Any]:
    """Return a run's summary.json with `run_dir` added.

    Raises:
        RunFailed: There is none, so the run did not come to its end.
    """
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFailed(f"no summary can be read in {folder}: {error}") from error
    return {**summary, "run_dir": str(folder)}


def print_summary(console: Console, summary: Mapping[str, Any]) -> None:
    """Print what a run reached: the model, the privacy of the worst client, and each client.

    Args:
        console: Where to print.
        summary: The run's summary.json with `run_dir` added.
    """
    console.print(_overview(summary))
    if summary.get("reason"):
        text = f"stopped early: {summary['reason']}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    clients: Sequence[Mapping[str, Any]] = summary.get("clients", ())
    if clients:
        console.print(_client_table(clients, summary))
    for note in summary.get("notes", ()):
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    folder = Path(str(summary["run_dir"]))
    for name, path in (("run folder", folder), ("report", folder / "report.html")):
        console.print(f"{name}: {path}", highlight=False, markup=False, soft_wrap=True)


def _overview(summary: Mapping[str, Any]) -> Table:
    table = Table(title=f"{summary.get('cell') or 'run'} on {summary.get('task')}")
    table.add_column("after the last round", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    rows: dict[str, object] = {
        "rounds": f"{summary.get('rounds')} of {summary.get('planned_rounds')}",
        "accuracy": number(summary.get("accuracy")),
        "loss": number(summary.get("loss")),
        "s-bar (mean strength)": number(summary.get("s_bar")),
        f"worst guarantee (epsilon at delta {number(summary.get('delta'))})": bound(
            summary.get("worst_epsilon")
        )
        + (", not all is covered" if summary.get("unaccounted") else ""),
        "exploitability": number(summary.get("exploitability")),
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table


def _client_table(clients: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> Table:
    accountant, neighbours = summary.get("accountant"), summary.get("neighbours")
    table = Table(title=f"clients: epsilon by {accountant}, neighbours {neighbours}")
    for name in _CLIENT_COLUMNS:
        table.add_column(name, justify="right")
    for client in clients[:MAX_CLIENTS]:
        table.add_row(
            *(
                (bound if field in _BOUNDS else number)(client.get(field))
                for field in _CLIENT_COLUMNS.values()
            )
        )
    if len(clients) > MAX_CLIENTS:
        table.caption = f"{len(clients) - MAX_CLIENTS} more in clients.csv"
    return table
