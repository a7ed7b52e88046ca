"""`fedgame solve limit`: how equilibria of N players approach the mean-field one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedgame.cli.flags import AsJson, RunConfig
from fedgame.errors import FedgameError, RunFailed

if TYPE_CHECKING:
    from fedgame.cli.options import Options
    from fedgame.games.privacy.mean_field_limit import Method
    from fedgame.reports.limit_result import SolvedLimit
    from fedgame.strategies.settings import Experiment

SIZES = "2,5,10,100,1000,10000,100000"
LARGEST = 10**6
MOST_REPEATS = 10**4
METHODS = ("best-response", "fictitious-play")


def limit(
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
    examples: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Examples of each client.",
            show_default="the task's, spread evenly",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="N,N,..", help="Numbers of players.", show_default=SIZES),
    ] = None,
    repeats: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help="Draws of the preferences for each N.", show_default="10"
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How players look for an equilibrium: best-response or fictitious-play.",
            show_default="best-response",
        ),
    ] = None,
    rounds: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Most rounds of play.", show_default="1000"),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write limit.csv and limit.html there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare equilibria of N players with the mean-field equilibrium; reads no data.

    Preferences are spread over the players in proportion, and drawn independently with the file's
    seed. The game is that of `fedgame solve mfne`. Exit code 1 if a search did not converge; what
    was computed is shown and written all the same.
    """
    from fedgame.cli.options import number_or_text

    numbers = {"examples": examples, "repeats": repeats, "rounds": rounds}
    parsed = {key: None if text is None else number_or_text(text) for key, text in numbers.items()}
    texts = {"release": release, "sizes": sizes, "method": method, "output": output}
    _run(problem, run_config or (), {**texts, **parsed}, as_json=as_json)


def _run(
    path: Path | None, overrides: Sequence[str], values: Mapping[str, object], *, as_json: bool
) -> None:
    from rich.console import Console

    from fedgame.cli import limit_output, mfne_problem
    from fedgame.cli.options import Options
    from fedgame.cli.solve_mfne import mean_field_experiment

    keys = (*mfne_problem.KEYS, "sizes", "repeats", "method", "rounds")
    options = Options(keys, values, None)
    experiment = mean_field_experiment(path, overrides, options)
    folder = options.path("output")
    solved = solve(experiment, options)
    if folder is not None:
        with options.writing("output"):
            folder.mkdir(parents=True, exist_ok=True)
            limit_output.write_files(solved, folder)
    if as_json:
        text = json.dumps(limit_output.as_mapping(solved), indent=2, allow_nan=False)
        sys.stdout.write(text + "\n")
    else:
        limit_output.print_limit(Console(), solved, folder)
    if not solved.converged:
        raise RunFailed("not every search of an equilibrium of N players converged; see the notes")


def solve(experiment: Experiment, options: Options) -> SolvedLimit:
    """Measure how far equilibria of N players are from the mean-field one.

    Args:
        experiment: The game.
        options: The command's options.

    Raises:
        ConfigError: The experiment is no such game, or an option is not allowed.
        RunFailed: The mean-field equilibrium was not found.
    """
    from fedgame.cli.mfne_problem import read_problem
    from fedgame.cli.mfne_solution import check_converged, mean_field_game, rules_of
    from fedgame.games.privacy.equilibrium import mean_field_equilibria
    from fedgame.games.privacy.mean_field_limit import MAX_ROUNDS, mean_field_rate
    from fedgame.randomness import public_generator
    from fedgame.reports.limit_result import SolvedLimit

    problem = read_problem(experiment, options)
    sizes = _sizes(options)
    repeats = options.integer("repeats", least=1) or 10
    if repeats > MOST_REPEATS:
        raise options.refuse("repeats", f"must be at most {MOST_REPEATS}")
    rounds = options.integer("rounds", least=1) or MAX_ROUNDS
    method: Method = _method(options)
    rng = public_generator(experiment.run.seed, "mean-field limit")
    try:
        game = mean_field_game(problem)
        equilibria = mean_field_equilibria(game)
        check_converged(equilibria, game)
        found = equilibria[0]
        proportion, sampled = (
            mean_field_rate(game, found, sizes, draws, count, method, rounds)
            for draws, count in ((None, 1), (rng, repeats))
        )
    except ValueError as error:
        raise FedgameError(str(error)) from error
    return SolvedLimit(rules_of(problem), found.mean_strength, method, proportion, sampled, repeats)


def _method(options: Options) -> Literal["best-response", "fictitious-play"]:
    name = options.choice("method", METHODS, METHODS[0])
    return "fictitious-play" if name == "fictitious-play" else "best-response"


def _sizes(options: Options) -> list[int]:
    text = options.text("sizes") or SIZES
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        sizes = [0]
    if not 2 <= sizes[0] <= sizes[-1] <= LARGEST:
        raise options.refuse("sizes", f"must be whole numbers from 2 to {LARGEST}, as 2,10,100")
    return sizes
