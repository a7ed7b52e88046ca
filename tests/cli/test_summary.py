"""The tables at the end of a run."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedgame.cli.summary import MAX_CLIENTS, print_summary, read_summary
from fedgame.errors import RunFailed


def summary(clients: int) -> dict[str, Any]:
    client = {
        "beta": 0.5,
        "strength": 0.125,
        "noise_multiplier": 7.25,
        "guarantee": 1.75,
        "realised": 1.625,
        "claimed_delta": 0.0909,
    }
    return {
        "status": "finished",
        "cell": "mfpg",
        "task": "logistic",
        "delta": 1e-5,
        "accountant": "pld",
        "neighbours": "example",
        "rounds": 4,
        "planned_rounds": 4,
        "accuracy": 0.875,
        "loss": 0.375,
        "s_bar": 0.1875,
        "exploitability": 0.0625,
        "worst_epsilon": 1.96875,
        "notes": ["choices are not covered"],
        "clients": [{"id": k, **client} for k in range(clients)],
        "run_dir": "/runs/one",
    }


def shown(content: dict[str, Any]) -> str:
    stream = io.StringIO()
    print_summary(Console(file=stream, width=160), content)
    return stream.getvalue()


def test_everything_that_a_run_reached_is_shown() -> None:
    text = shown(summary(2))
    overview = ("0.875", "0.375", "0.1875", "1.969", "0.0625", "4 of 4", "1e-05")
    per_client = ("0.5", "0.125", "7.25", "1.75", "1.625", "0.0909")
    assert all(value in text for value in (*overview, *per_client))
    assert "note: choices are not covered" in text
    assert "run folder: /runs/one\n" in text
    assert "report: /runs/one/report.html\n" in text


def test_many_clients_are_cut_and_counted() -> None:
    text = shown(summary(MAX_CLIENTS + 7))
    assert "7 more in clients.csv" in text
    assert text.count("1.625") == MAX_CLIENTS


def test_a_failed_run_without_clients_is_shown() -> None:
    content = {**summary(0), "accuracy": None, "loss": None, "worst_epsilon": None, "rounds": 0}
    assert "0 of 4" in shown(content)


def test_a_summary_is_read_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"status": "finished"}))
    assert read_summary(tmp_path) == {"status": "finished", "run_dir": str(tmp_path)}


@pytest.mark.parametrize("content", [None, "{"])
def test_no_summary_is_a_failed_run(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "summary.json").write_text(content)
    with pytest.raises(RunFailed, match="no summary can be read"):
        read_summary(tmp_path)
