"""The summary of a run as tables for the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fedgame.cli.game_output import print_game
from fedgame.cli.progress import at_most, bound, number
from fedgame.errors import RunFailed
from fedgame.reports.deals import SPENT_BY

MAX_CLIENTS = 20

_CLIENT_COLUMNS = {
    "client": "id",
    "beta": "beta",
    "strength": "strength",
    "noise\nmult.": "noise_multiplier",
    "guar-\nantee": "guarantee",
    "real-\nised": "realised",
    "claimed\ndelta": "claimed_delta",
    "sound\ndelta": "sound_delta_at_epsilon_1",
}
# broken by hand, so that the table fits 80 characters
_DEAL_COLUMNS = {
    "client": "id",
    "report": "report",
    "virtual\ncost": "virtual_cost",
    "proba-\nbility": "probability",
    "bought": "bought",
    "spent": "spent",
    "payment": "payment",
    "draws": "released",
}
_BOUNDS = {"guarantee", "realised", "sound_delta_at_epsilon_1", "spent"}
_BUDGETS = {"bought"}


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

    Of a game by messages: what leaked, what bounds say, and each player.

    Args:
        console: Where to print.
        summary: The run's summary.json with `run_dir` added.
    """
    if summary.get("strategy") == "aggregative":
        print_game(console, summary)
    else:
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
    bought = summary.get("procurement")
    system = bought.get("mechanism") if bought else summary.get("cell")
    table = Table(title=f"{system or 'run'} on {summary.get('task')}")
    table.add_column("after the last round", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    worst = f"worst guarantee (epsilon at delta {number(summary.get('delta'))})"
    uncovered = ", not all is covered" if summary.get("unaccounted") else ""
    guarantee = {worst: f"{bound(summary.get('worst_epsilon'))}{uncovered}"}
    rows = {
        "rounds": f"{summary.get('rounds')} of {summary.get('planned_rounds')}",
        "accuracy": number(summary.get("accuracy")),
        "loss": number(summary.get("loss")),
    }
    if bought:
        rows |= {
            "participants": f"{bought.get('participants')} of {summary.get('population')}",
            "budget": number(bought.get("budget")),
            "total payment": number(bought.get("total_payment")),
            "expected cost": number(bought.get("expected_cost")),
        } | guarantee
    else:
        rows["s-bar (mean strength)"] = number(summary.get("s_bar"))
        rows |= guarantee
        rows["exploitability"] = number(summary.get("exploitability"))
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _client_table(clients: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> Table:
    neighbours = summary.get("neighbours")
    columns, file = _CLIENT_COLUMNS, "clients.csv"
    captions = []
    title = f"clients: epsilon by {summary.get('accountant')}, neighbours {neighbours}"
    if not summary.get("procurement"):
        captions.append("deltas at epsilon 1")
    if summary.get("procurement"):
        columns, file = _DEAL_COLUMNS, "purchases.csv"
        captions.append("bought is rounded down, spent is rounded up")
        title = f"clients: epsilon bought, spent by {SPENT_BY}; neighbours {neighbours}"
    # without lines between the columns the numbers fit 80 characters, and none is cut
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for client in clients[:MAX_CLIENTS]:
        table.add_row(*(_cell(field, client.get(field)) for field in columns.values()))
    more = max(len(clients), int(summary.get("population") or 0)) - MAX_CLIENTS
    if more > 0:
        captions.append(f"{more} more in {file}")
    table.caption = "; ".join(captions)
    return table


def _cell(field: str, value: object) -> str:
    if isinstance(value, int):
        return str(value)
    if field in _BOUNDS:
        return bound(value)
    return at_most(value) if field in _BUDGETS else number(value)
