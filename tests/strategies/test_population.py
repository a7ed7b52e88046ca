"""A large population from start to report: what is shared between clients must not show."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from fedgame.accountants.pld import PldAccountant
from fedgame.ledger.store import Ledger
from fedgame.reports.summary import MAX_ROWS
from tests.html_page import Page
from tests.support import Run

CLIENTS = MAX_ROWS + 51
POPULATION = {"num-clients": CLIENTS, "rounds": 2, "mean-field.choice-every": 1}


@pytest.mark.parametrize("task", ["logistic", "quadratic"])
def test_a_population_runs_to_its_report(run: Run, task: str) -> None:
    finished = run({**POPULATION, "task.name": task}, nodes=2)
    summary, folder = finished.summary, finished.folder
    assert (summary["status"], summary["population"]) == ("finished", CLIENTS)
    assert len(summary["clients"]) == MAX_ROWS
    page = Page((folder / "report.html").read_text())
    assert len(page.rows) == MAX_ROWS + 1
    assert f"Shown are the {MAX_ROWS:,} of {CLIENTS:,} clients" in page.words
    with (folder / "clients.csv").open(newline="") as stream:
        rows = {int(row["id"]): row for row in csv.DictReader(stream)}
    assert sorted(rows) == list(range(CLIENTS))
    with Ledger(folder / "ledger.sqlite", read_only=True) as ledger:
        spent = ledger.events_by_client()
    assert {len(events) for events in spent.values()} == {2 * len(("choice", "update"))}
    for client in np.random.default_rng(0).integers(0, CLIENTS, 8).tolist():
        realised = PldAccountant().epsilon(spent[client], 1e-5)
        assert float(rows[client]["realised"]) == realised
        assert float(rows[client]["strength"]) == spent[client][-1].strength  # type: ignore[union-attr]


def test_a_population_has_the_same_bits_on_any_number_of_nodes(run: Run) -> None:
    runs = [run({**POPULATION, "num-clients": 301}, nodes=nodes) for nodes in (1, 3)]
    assert len({finished.summary["model_sha256"] for finished in runs}) == 1
    first, other = ((finished.folder / "strengths.csv").read_text() for finished in runs)
    assert first == other
