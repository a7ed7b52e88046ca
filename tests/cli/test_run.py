"""`fedgame run --no-flower` as a user sees it, and what the ServerApp says to programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedgame import server_app
from fedgame.cli.progress import read_mark
from fedgame.strategies.base import RoundRecord

FEDGAME = str(Path(sys.executable).parent / "fedgame")
JSAM = (
    "strategy=jsam",
    "num-clients=4",
    "rounds=3",
    "evaluate-every=2",
    "task.name=logistic",
    "procurement.eta=5",
)


@pytest.mark.slow
def test_a_purchase_from_the_command_line(tmp_path: Path) -> None:
    settings = [*JSAM, f"output-dir={tmp_path}", "run-name=one"]
    overrides = [word for setting in settings for word in ("-c", setting)]
    done = subprocess.run(
        [FEDGAME, "run", "--no-flower", *overrides], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    rounds = [line for line in done.stderr.splitlines() if line.startswith("round ")]
    assert [line.split()[1] for line in rounds] == ["2/3", "3/3"]
    assert all("clients" in line and "s-bar" not in line for line in rounds)
    assert "jsam on logistic" in done.stdout
    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    assert summary["rounds"] == 3
    assert summary["procurement"]["draws"] == sum(c["released"] for c in summary["clients"])
    assert all(client["spent"] <= client["bought"] for client in summary["clients"])
    assert (tmp_path / "one" / "purchases.csv").is_file()
    assert "What was bought" in (tmp_path / "one" / "report.html").read_text()


def test_the_server_app_says_which_system_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = RoundRecord(2, 0.5, 0.75, 0.1, 1.5, None, 4, 0.25)

    def run(_: object, __: object, listener: Any) -> SimpleNamespace:
        listener(record)
        return SimpleNamespace(summary={"status": "finished"}, folder=tmp_path)

    monkeypatch.setattr("fedgame.runner.run", run)
    flat = dict(setting.split("=") for setting in JSAM)
    numbers = {key: int(value) for key, value in flat.items() if value.isdigit()}
    context: Any = SimpleNamespace(run_config={**flat, **numbers})
    grid: Any = None
    server_app.main(grid, context)
    marks = [read_mark(line) for line in capsys.readouterr().out.splitlines()]
    first, last = [mark for mark in marks if mark is not None]
    assert (first.kind, last.kind) == ("progress", "summary")
    assert first.content["strategy"] == "jsam"
    assert first.content["total_rounds"] == 3
    assert first.content["accuracy"] == 0.75
    assert last.content["run_dir"] == str(tmp_path)
