"""Why a run failed, read from logs as Flower 1.42 writes them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from fedgame import config
from fedgame.cli.flower_process import Connection
from fedgame.cli.flower_run import FlowerRun
from fedgame.cli.interrupts import Interrupts
from fedgame.cli.on_flower import _failure, _follow, how_to_go_on
from fedgame.cli.progress import ProgressView
from fedgame.strategies.checkpoint import HOSTS

RAISED = """\
Using SuperLink: fedgame (127.0.0.1:59723)
Successfully started run 7609422229717033734
ERROR :     Simulation raised an exception
Traceback (most recent call last):
  File "flwr/simulation/run_simulation.py", line 369, in _main_loop
    raise thread_ex.with_traceback(thread_ex.__traceback__)
ValueError: boom in the server app
ERROR :     Exit Code: 700

An unhandled exception occurred when running the simulation.
For more information, visit: <https://flower.ai/docs/framework/1.42/en/ref-exit-codes/700.html>
"""

REFUSED = """\
Using SuperLink: fedgame (127.0.0.1:34273)
╭─ Error ──────────────────────────────╮
│ [code: 15] Invalid run configuration.│
╰──────────────────────────────────────╯
"""


def failure(log: str, hint: str = "") -> tuple[str, str]:
    run = FlowerRun(Connection("fedgame", {}), Interrupts())
    run.log.extend(log.splitlines())
    stream = io.StringIO()
    return str(_failure(run, Console(file=stream, width=80), hint)), stream.getvalue()


def test_the_exception_of_the_last_traceback_is_the_reason() -> None:
    message, shown = failure(RAISED)
    assert message == "the run ended without a summary: ValueError: boom in the server app"
    assert "line 369, in _main_loop" in shown


def test_the_text_in_flowers_box_is_the_reason() -> None:
    message, _ = failure(REFUSED)
    assert message == "the run ended without a summary: [code: 15] Invalid run configuration."


def test_a_reason_that_the_server_app_gave_needs_no_log() -> None:
    message, shown = failure(RAISED + 'fedgame-error {"message": "1 of 2 nodes came in 120 s"}\n')
    assert message == "1 of 2 nodes came in 120 s"
    assert shown == ""


def test_a_process_that_was_killed_left_no_reason() -> None:
    message, shown = failure("INFO :      Start `flwr-serverapp` process\n", "; it goes on with X")
    assert message == (
        "the run ended without a summary: its process ended, see above; it goes on with X"
    )
    assert "flwr-serverapp" in shown


def test_only_a_run_that_began_here_and_did_not_end_goes_on(tmp_path: Path) -> None:
    experiment = config.load({"output-dir": str(tmp_path), "run-name": "it"})
    assert how_to_go_on(experiment, None) == ""
    folder = tmp_path / "it"
    folder.mkdir()
    (folder / HOSTS).touch()
    assert how_to_go_on(experiment, None) == f"; it goes on with --resume {folder}"
    assert how_to_go_on(experiment, "elsewhere") == ""
    (folder / "summary.json").touch()
    assert how_to_go_on(experiment, None) == ""


def test_silence_is_told_as_such() -> None:
    assert failure("")[0] == "the run ended without a summary: Flower said nothing"


def follow(lines: Iterable[str], *, verbose: bool) -> tuple[object, str]:
    stream = io.StringIO()
    with ProgressView(Console(file=stream, width=200), "waiting") as view:
        summary = _follow(lines, view, verbose=verbose)
    return summary, stream.getvalue()


def test_following_ends_at_the_summary_and_keeps_flowers_noise_out() -> None:
    lines = iter(
        [
            "INFO : Starting Flower Simulation",
            'fedgame-progress {"round": 1, "total_rounds": 1, "loss": 0.5}',
            'fedgame-summary {"status": "finished", "run_dir": "/runs/one"}',
            "never read",
        ]
    )
    summary, shown = follow(lines, verbose=False)
    assert summary == {"status": "finished", "run_dir": "/runs/one"}
    assert shown == "waiting\nround 1/1  loss 0.5\n"
    assert next(lines) == "never read"


def test_verbose_shows_flowers_log() -> None:
    assert "Starting Flower" in follow(["INFO : Starting Flower"], verbose=True)[1]
