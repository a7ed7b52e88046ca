"""`fedgame solve mfne`: the mean-field equilibrium of the game in an experiment file."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedgame.cli.flags import AsJson, RunConfig

if TYPE_CHECKING:
    from fedgame.cli.options import Options
    from fedgame.strategies.settings import Experiment


def mfne(
    problem: Annotated[
        Path | None,
        typer.Argument(
            metavar="PROBLEM.toml",
            help="Experiment file of a mean-field game.",
            show_default="the demo",
        ),
    ] = None,
    *,
    run_config: RunConfig = None,
    release: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What is seen: every message (local) or only their sum (aggregate).",
            show_default="local",
        ),
    ] = None,
    # numbers come as text: a wrong one is then refused in one line
    clients: Annotated[
        str | None, typer.Option(metavar="N", help="Instead of num-clients.")
    ] = None,
    examples: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Examples of each client.",
            show_default="the task's, spread evenly",
        ),
    ] = None,
    curvature: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Trace of the Hessian in the quadratic loss, > 0.",
            show_default="mean-field.curvature-cap",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv",
            help="Instead of --curvature: the loss by effective strength, columns strength,loss.",
        ),
    ] = None,
    iterations: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Most steps of the bisection.", show_default="200"),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write mfne.csv and mfne.html there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the mean-field equilibrium of a privacy game, with its certificate; reads no data.

    The disutility is that of a run: the loss term plus beta times the price of the sound epsilon
    after the planned rounds. mean-field.loss is "quadratic" unless the file says otherwise.
    """
    from fedgame.cli.options import number_or_text

    numbers = {
        "clients": clients,
        "examples": examples,
        "curvature": curvature,
        "iterations": iterations,
    }
    parsed = {key: None if text is None else number_or_text(text) for key, text in numbers.items()}
    values = {"release": release, "loss": loss, "output": output, **parsed}
    _solve(problem, run_config or (), values, as_json=as_json)


def _solve(
    path: Path | None, overrides: Sequence[str], values: Mapping[str, object], *, as_json: bool
) -> None:
    from rich.console import Console

    from fedgame.cli import mfne_output
    from fedgame.cli.mfne_problem import KEYS, read_problem
    from fedgame.cli.mfne_solution import solve
    from fedgame.cli.options import Options

    options = Options(KEYS, values, None)
    experiment = mean_field_experiment(path, overrides, options)
    problem = read_problem(experiment, options)
    folder = options.path("output")
    if folder is not None:
        with options.writing("output"):
            folder.mkdir(parents=True, exist_ok=True)
    solved = solve(problem)
    if folder is not None:
        with options.writing("output"):
            mfne_output.write_files(solved, folder)
    if as_json:
        text = json.dumps(mfne_output.as_mapping(solved), indent=2, allow_nan=False)
        sys.stdout.write(text + "\n")
    else:
        mfne_output.print_solution(Console(), solved, folder)


def mean_field_experiment(
    path: Path | None, overrides: Sequence[str], options: Options
) -> Experiment:
    """Return the experiment that a file, overrides and options give.

    Raises:
        ConfigError: A key or value is wrong, or the experiment is of another system.
    """
    from fedgame.config import load, parse_override, read_toml
    from fedgame.errors import ConfigError

    flat = {"mean-field.loss": "quadratic", **({} if path is None else read_toml(path))}
    flat.update(parse_override(text) for text in overrides)
    clients = options.integer("clients", least=2)
    if clients is not None:
        flat["num-clients"] = clients
    experiment = load(flat)
    if experiment.run.strategy != "mfpg":
        allowed = "must be 'mfpg' to solve for a mean-field equilibrium"
        raise ConfigError("strategy", experiment.run.strategy, allowed)
    return experiment
