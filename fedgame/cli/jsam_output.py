"""A purchase of privacy as JSON, as tables for the terminal, and as files."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedgame.cli.progress import number
from fedgame.cli.summary import MAX_CLIENTS
from fedgame.reports.procurement_page import SolvedPurchase, notes, render_purchase

CSV_NAME, HTML_NAME = "allocation.csv", "allocation.html"


def as_mapping(purchase: SolvedPurchase) -> dict[str, Any]:
    """Return everything as JSON's types; what does not exist is None."""
    bought, terms = purchase.allocation, purchase.terms
    certificate, found = bought.certificate, purchase.calibration
    return {
        "mechanism": bought.mechanism,
        "distribution": purchase.prior,
        "objective": bought.objective,
        "cost": bought.expected_cost,
        "threshold": bought.threshold,
        "total_payment": purchase.total_payment,
        "eta": terms.eta,
        "q": terms.q,
        "epsilon_max": terms.epsilon_max if math.isfinite(terms.epsilon_max) else None,
        "ironed": bought.ironed,
        "cap_binds": bought.cap_binds,
        "certificate": {
            "kkt_residual": certificate.kkt_residual,
            "brute_force_gap": certificate.brute_force_gap,
        },
        "calibration": None
        if found is None
        else {"expected_cost": found.expected_cost, "standard_error": found.standard_error},
        "clients": _rows(purchase),
    }


def _rows(purchase: SolvedPurchase) -> list[dict[str, Any]]:
    bought = purchase.allocation
    nothing = [None] * len(purchase.clients)
    columns: dict[str, list[Any]] = {
        "client": purchase.clients,
        "virtual_cost": bought.virtual_costs.tolist(),
        "probability": bought.probabilities.tolist(),
        "epsilon": bought.budgets.tolist(),
        "payment": nothing if bought.payments is None else bought.payments.tolist(),
    }
    if purchase.standard_errors is not None:
        columns["standard_error"] = purchase.standard_errors.tolist()
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def write_files(purchase: SolvedPurchase, folder: Path) -> None:
    """Write allocation.csv and allocation.html.

    Args:
        purchase: What they show.
        folder: An existing folder.

    Raises:
        OSError: A file cannot be written.
    """
    rows = [
        {"client": row["client"], "sensitivity": sensitivity, **row}
        for row, sensitivity in zip(_rows(purchase), purchase.sensitivities.tolist(), strict=True)
    ]
    with (folder / CSV_NAME).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (folder / HTML_NAME).write_text(render_purchase(purchase), encoding="utf-8")


def print_purchase(console: Console, purchase: SolvedPurchase, folder: Path | None) -> None:
    """Print the overview, the clients of lowest virtual cost, notes, and where the files are.

    Args:
        console: Where to print.
        purchase: What to print.
        folder: Where the files are, None without any.
    """
    console.print(_overview(purchase))
    console.print(_client_table(purchase, folder))
    for note in notes(purchase):
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    if folder is not None:
        for name in (CSV_NAME, HTML_NAME):
            console.print(str(folder / name), highlight=False, markup=False, soft_wrap=True)


def _overview(purchase: SolvedPurchase) -> Table:
    bought, terms, found = purchase.allocation, purchase.terms, purchase.calibration
    table = Table(title=Text(f"{bought.mechanism}, prior {purchase.prior}"))
    table.add_column("at these reports", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    gap = bought.certificate.brute_force_gap
    rows: Mapping[str, str | None] = {
        "objective": number(bought.objective),
        "expected cost B": number(bought.expected_cost),
        "total payment": number(purchase.total_payment),
        "threshold": f"{bought.threshold} of {len(purchase.clients)} clients",
        "eta": number(terms.eta),
        "expected cost under the prior": None
        if found is None
        else f"{number(found.expected_cost)} ± {number(found.standard_error, 2)}",
        "Q": number(terms.q),
        "epsilon-max": "none" if math.isinf(terms.epsilon_max) else number(terms.epsilon_max),
        "KKT residual": number(bought.certificate.kkt_residual, 2),
        "gap to brute force": None if gap is None else number(gap, 2),
    }
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, value)
    return table


def _client_table(purchase: SolvedPurchase, folder: Path | None) -> Table:
    table = Table(title="clients by virtual cost")
    rows = _rows(purchase)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="left" if name == "client" else "right")
    for index in np.argsort(purchase.allocation.virtual_costs, kind="stable")[:MAX_CLIENTS]:
        client, *values = rows[index].values()
        table.add_row(_printable(client), *(number(value) for value in values))
    if len(rows) > MAX_CLIENTS:
        where = "--output or --json shows them" if folder is None else f"in {CSV_NAME}"
        table.caption = f"{len(rows) - MAX_CLIENTS} more: {where}"
    return table


def _printable(name: str) -> Text:
    """Return a name that may be any text without what would move the terminal's cursor."""
    letters = (letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return Text("".join(letters))
