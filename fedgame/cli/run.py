"""`fedgame run`: one experiment on Flower, or in this process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedgame.cli.flags import Resume, RunConfig, SummaryAsJson, Verbose

_INTERRUPTED = 130
"""The shell's exit code for Ctrl-C."""

if TYPE_CHECKING:
    from rich.console import Console

    from fedgame.strategies.base import Progress
    from fedgame.strategies.settings import Experiment


def run(
    experiment: Annotated[
        Path | None,
        typer.Argument(metavar="EXPERIMENT.toml", help="Experiment file; without it, the demo."),
    ] = None,
    *,
    run_config: RunConfig = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Number of simulated nodes.", show_default="2")
    ] = None,
    superlink: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Use this SuperLink of Flower's config.toml."),
    ] = None,
    resume: Resume = None,
    no_flower: Annotated[
        bool, typer.Option("--no-flower", help="Run in this process: same bits, no start-up.")
    ] = False,
    as_json: SummaryAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run an experiment and say what it reached and what leaked.

    EXPERIMENT.toml holds the keys that differ from their defaults (`fedgame keys` lists all);
    without it, the demo runs.

    A run that was killed goes on with --resume RUN, from the last round that came to its end: it
    releases nothing twice, and ends as if nothing had happened.

    A run writes its folder to the key `output-dir`, else to the folder FEDGAME_HOME, else to the
    user's data folder.
    """
    if no_flower and superlink:
        raise typer.BadParameter("--no-flower and --superlink exclude each other")
    # before NumPy and torch load: more threads change sums, and with them a run's bits
    os.environ["OMP_NUM_THREADS"] = "1"
    from rich.console import Console

    from fedgame.cli.experiment import prepare
    from fedgame.cli.on_flower import run_on_flower
    from fedgame.cli.resumed import prepare_resumed
    from fedgame.runner import preflight
    from fedgame.strategies.data import forget_data

    if resume is None:
        ready = prepare(experiment, run_config or [], nodes=nodes, superlink=superlink)
    elif nodes is not None:
        raise typer.BadParameter("--resume and --nodes exclude each other")
    else:
        ready = prepare_resumed(resume, experiment, run_config or [], superlink=superlink)
    console = Console(stderr=True)
    if superlink is None:
        preflight(ready)
    if no_flower:
        summary = _in_process(ready, console)
    else:
        forget_data()  # Flower's own processes load what they need
        summary = run_on_flower(ready, superlink, console, verbose=verbose)
    show(summary, as_json=as_json)


def show(summary: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a summary on stdout.

    Raises:
        RunFailed: It is the summary of a run that failed.
    """
    from rich.console import Console

    from fedgame.cli.summary import print_summary
    from fedgame.errors import RunFailed

    if as_json:
        sys.stdout.write(json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    else:
        print_summary(Console(), summary)
    if summary.get("status") != "finished":
        raise RunFailed(f"the run failed: {summary.get('reason') or 'no reason given'}")


def _in_process(experiment: Experiment, console: Console) -> dict[str, Any]:
    import contextlib
    from dataclasses import asdict

    from fedgame.cli.on_flower import how_to_go_on, kept
    from fedgame.cli.progress import ProgressView
    from fedgame.errors import DiskError, RunFailed
    from fedgame.runner import run_in_process
    from fedgame.strategies.base import Stage

    where = {"total_rounds": experiment.run.rounds, "strategy": experiment.run.strategy}
    with ProgressView(console, "running in this process") as view:

        def listener(record: Progress) -> None:
            if isinstance(record, Stage):
                view.say(record.message)
            else:
                view.show(asdict(record) | where)

        # stdout is for the summary alone
        try:
            with contextlib.redirect_stdout(sys.stderr):
                finished = run_in_process(experiment, experiment.run.nodes, listener)
        except KeyboardInterrupt:
            view.say(f"stopping{kept(experiment)}")
            raise typer.Exit(_INTERRUPTED) from None
        except (RunFailed, DiskError) as error:
            raise RunFailed(f"{error}{how_to_go_on(experiment, None)}") from error
    return {**finished.summary, "run_dir": str(finished.folder)}
