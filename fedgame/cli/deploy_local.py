"""`fedgame deploy local`: SuperLink and SuperNodes as processes on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedgame.cli.flags import Resume, RunConfig, SummaryAsJson, Verbose

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedgame.cli.deployment import LocalDeployment
    from fedgame.cli.interrupts import Interrupts
    from fedgame.strategies.settings import Experiment

_WAITING = (
    "starting a SuperLink and {nodes} SuperNodes; each message starts a process and loads torch"
)


def local(
    experiment: Annotated[
        Path | None,
        typer.Argument(metavar="EXPERIMENT.toml", help="Experiment file; without it, the demo."),
    ] = None,
    *,
    run_config: RunConfig = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Number of nodes, and of clients.", show_default="num-clients"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where nodes keep secrets, ledgers, logs.", show_default="RUN-nodes"
        ),
    ] = None,
    resume: Resume = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Encrypt, and authenticate nodes, with keys made now.")
    ] = False,
    as_json: SummaryAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run an experiment on real nodes: processes on free ports of the loopback interface.

    A node is one client with a data folder of its own. --nodes therefore sets num-clients too,
    whatever the experiment file says. All processes end with the run; what the nodes keep stays in
    DIR, by default beside the run's folder. A run that was killed goes on with --resume RUN and the
    same DIR.
    """
    # before NumPy and torch load: more threads change sums, and with them a run's bits
    os.environ["OMP_NUM_THREADS"] = "1"
    from rich.console import Console

    from fedgame.cli.experiment import prepare
    from fedgame.cli.on_flower import run_on_flower
    from fedgame.cli.resumed import prepare_resumed
    from fedgame.cli.run import show
    from fedgame.errors import ConfigError
    from fedgame.runner import preflight

    overrides = run_config or []
    if resume is None:
        ready = prepare(experiment, overrides, nodes=nodes, superlink=None, deployed=True)
    elif nodes is not None:
        raise typer.BadParameter("--resume and --nodes exclude each other")
    else:
        ready = prepare_resumed(resume, experiment, overrides, superlink=None, deployed=True)
    preflight(ready)
    data = (data_dir or _beside(ready)).expanduser().absolute()
    if resume is not None and not data.is_dir():
        raise ConfigError("--data-dir", str(data), "is not there: the folder that the run had")

    def start(folder: Path, interrupts: Interrupts, say: Callable[[str], None]) -> LocalDeployment:
        from fedgame.cli.deployment import LocalDeployment

        return LocalDeployment(folder, interrupts, data, ready.run.nodes, tls=tls, say=say)

    console = Console(stderr=True)
    console.print(
        f"nodes keep their secrets and ledgers in {data}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    waiting = _WAITING.format(nodes=ready.run.nodes)
    summary = run_on_flower(ready, None, console, verbose=verbose, start=start, waiting=waiting)
    show(summary, as_json=as_json)


def _beside(experiment: Experiment) -> Path:
    return Path(experiment.run.output_dir) / f"{experiment.run.run_name}-nodes"
