"""A run on Flower from start to end: stage, start, follow, clean up, explain a failure."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import typer
from rich.console import Console

from fedgame.cli.app_folder import stage_app
from fedgame.cli.flower_process import Connection, users_superlink
from fedgame.cli.flower_run import FlowerRun
from fedgame.cli.interrupts import Interrupts
from fedgame.cli.own_superlink import OwnSuperLink
from fedgame.cli.progress import WAITING, ProgressView, read_mark
from fedgame.cli.summary import read_summary
from fedgame.config import config_keys_toml, to_toml
from fedgame.errors import RunFailed
from fedgame.reports.interrupted import can_go_on
from fedgame.strategies.settings import Experiment

_TAIL_LINES = 15
# our folder adds 17 characters, Ray's socket paths 68 more, and macOS allows 103 in all
_LONGEST_PARENT = 18


Start: TypeAlias = Callable[
    [Path, Interrupts, Callable[[str], None]], contextlib.AbstractContextManager[Connection]
]
"""Starts a SuperLink of our own: its folder for files, signals, and what tells the user a line."""


def simulation(
    folder: Path, interrupts: Interrupts, say: Callable[[str], None]
) -> contextlib.AbstractContextManager[Connection]:
    """Start a SuperLink that simulates all nodes."""
    del say
    return OwnSuperLink(folder, interrupts)


def run_on_flower(
    experiment: Experiment,
    superlink: str | None,
    console: Console,
    *,
    verbose: bool,
    start: Start = simulation,
    waiting: str = WAITING,
) -> dict[str, Any]:
    """Run an experiment and return its summary with `run_dir` added.

    Nothing is left behind, however the run ends: no process, no port, no temporary folder.

    Args:
        experiment: What to run.
        superlink: Name of the user's SuperLink, None for one of our own.
        console: Where progress goes.
        verbose: Whether Flower's own log goes there too.
        start: How to start one of our own.
        waiting: What the user reads until the first round is over.

    Raises:
        RunFailed: The run ended without a summary.
        typer.Exit: A signal came; the code is the shell's for that signal.
    """
    with Interrupts() as interrupts, _scratch() as folder:
        app = stage_app(folder / "app", config_keys_toml())
        settings = folder / "run.toml"
        settings.write_text(to_toml(experiment.flat), encoding="utf-8")
        # a deployment's nodes are there already
        federation = _federation(experiment) if start is simulation and not superlink else ""
        with contextlib.ExitStack() as stack:
            view = stack.enter_context(ProgressView(console, waiting))
            if superlink:
                connection = users_superlink(superlink)
            else:
                connection = stack.enter_context(start(folder, interrupts, view.say))
            flower = FlowerRun(connection, interrupts)
            summary = None
            if not interrupts.stop:
                with flower.lines(app, settings, federation) as lines:
                    summary = _follow(lines, view, verbose=verbose)
            if interrupts.stop and summary is None:
                view.say(f"stopping{kept(experiment) if superlink is None else ''}")
                if superlink and not flower.stop():
                    view.say(f"not stopped; try: flwr stop {flower.run_id} {superlink}")
    if summary is not None:
        return dict(summary) if superlink else read_summary(Path(str(summary["run_dir"])))
    if interrupts.stop:
        raise typer.Exit(interrupts.exit_code)
    raise _failure(flower, console, how_to_go_on(experiment, superlink))


def kept(experiment: Experiment) -> str:
    """Return where a run that is interrupted leaves what it recorded."""
    return f"; what was recorded stays in {_folder(experiment)}"


def _folder(experiment: Experiment) -> Path:
    return Path(experiment.run.output_dir) / experiment.run.run_name


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    parent = tempfile.gettempdir()
    parent = parent if len(parent) <= _LONGEST_PARENT else "/tmp"
    with tempfile.TemporaryDirectory(
        prefix="fedgame-", dir=parent, ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


def _federation(experiment: Experiment) -> str:
    # Flower's default of 2 CPUs a node leaves a machine with one core without any
    return f"num-supernodes={experiment.run.nodes} client-resources-num-cpus=1"


def _follow(lines: Iterable[str], view: ProgressView, *, verbose: bool) -> Mapping[str, Any] | None:
    for line in lines:
        mark = read_mark(line)
        if mark is None:
            if verbose:
                view.say(line)
        elif mark.kind == "stage":
            view.say(str(mark.content.get("message")))
        elif mark.kind == "progress":
            view.show(mark.content)
        elif mark.kind == "summary":
            return mark.content
    return None


def how_to_go_on(experiment: Experiment, superlink: str | None) -> str:
    """Return how a run that stopped in the middle goes on; empty if it did not, or is elsewhere."""
    if superlink is not None:
        return ""
    folder = _folder(experiment)
    return f"; it goes on with --resume {folder}" if can_go_on(folder) else ""


def _failure(flower: FlowerRun, console: Console, hint: str) -> RunFailed:
    """Show the end of the log unless the ServerApp said why it failed, and return the error."""
    for line in flower.log:
        mark = read_mark(line)
        if mark is not None and mark.kind == "error":
            return RunFailed(f"{mark.content.get('message')}{hint}")
    lines = [line for line in flower.log if line.strip() and read_mark(line) is None]
    for line in lines[-_TAIL_LINES:]:
        console.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)
    return RunFailed(f"the run ended without a summary: {_reason(lines)}{hint}")


def _reason(lines: Sequence[str]) -> str:
    """Return the message of the last traceback, else the text of Flower's error box."""
    reason, inside = "", False
    for line in lines:
        if line.startswith("Traceback"):
            inside = True
        elif inside and not line.startswith(" "):
            reason, inside = line, False
        elif line.startswith("│"):
            reason = line.strip("│ ")
    return reason or ("its process ended, see above" if lines else "Flower said nothing")
