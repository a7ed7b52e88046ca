"""One message with 100 logistic clients against 100 messages with one client each, on Flower."""

from __future__ import annotations

import csv
import statistics
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CLIENTS = 100
ROUNDS = 8
WARM_UP = 2
"""Rounds that are not counted: the first message loads Ray and torch in every worker."""


def _seconds_a_round(nodes: int) -> float:
    """Return the median time of a round on `nodes` simulated nodes."""
    from fedgame.cli.experiment import prepare
    from fedgame.cli.on_flower import run_on_flower

    with tempfile.TemporaryDirectory(prefix="fedgame-bench-") as folder:
        overrides: dict[str, Any] = {
            "cell": "mfep",
            "task.name": "logistic",
            "num-clients": CLIENTS,
            "rounds": ROUNDS,
            "output-dir": folder,
        }
        texts = [f"{key}={value}" for key, value in overrides.items()]
        experiment = prepare(None, texts, nodes=nodes, superlink=None)
        summary = run_on_flower(experiment, None, Console(stderr=True), verbose=False)
        with (Path(str(summary["run_dir"])) / "metrics.csv").open() as stream:
            seconds = [float(row["seconds"]) for row in csv.DictReader(stream)]
    return statistics.median(seconds[WARM_UP:])


def main() -> None:
    """Measure both and print the ratio."""
    one, many = _seconds_a_round(1), _seconds_a_round(CLIENTS)
    table = Table(title=f"{CLIENTS} logistic clients on Flower, one round")
    table.add_column("messages")
    table.add_column("milliseconds", justify="right")
    table.add_column("ratio", justify="right")
    table.add_row("1 (a cohort)", f"{1000 * one:.0f}", "1.0")
    table.add_row(f"{CLIENTS} (one a client)", f"{1000 * many:.0f}", f"{many / one:.1f}")
    Console().print(table)
