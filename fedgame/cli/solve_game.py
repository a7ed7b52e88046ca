"""`fedgame solve game`: the exact equilibrium of the game that an experiment file describes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedgame.cli.flags import AsJson, RunConfig

if TYPE_CHECKING:
    from fedgame.games.aggregative.base import AggregativeGame
    from fedgame.games.aggregative.equilibrium import Equilibrium
    from fedgame.games.best_response import IntArray
    from fedgame.strategies.settings import Experiment


def game(
    problem: Annotated[
        Path,
        typer.Argument(
            metavar="PROBLEM.toml",
            help="Experiment file: num-clients, seed, aggregative.name, the game's own section.",
        ),
    ],
    *,
    types: Annotated[
        str | None,
        typer.Option(
            metavar="'0,1,..'",
            help="Every player's type.",
            show_default="those that a run draws from the seed",
        ),
    ] = None,
    run_config: RunConfig = None,
    as_json: AsJson = False,
) -> None:
    """Find the Nash equilibrium of an aggregative game, exactly, without any message.

    Only quadratic games are solved; the gain is its certificate: the most that any player could
    still win by changing its strategy alone. The module of a python-game must be on PYTHONPATH.
    """
    from rich.console import Console

    from fedgame.cli import game_output
    from fedgame.errors import FedgameError
    from fedgame.games.aggregative.equilibrium import solve_equilibrium
    from fedgame.reports.summary import finite
    from fedgame.strategies.aggregative_public import public_game, simulated_types

    experiment = _experiment(problem, run_config or ())
    public = public_game(experiment)
    played = public.dynamics.game
    if types is None:
        profile = simulated_types(experiment, public.prior)
    else:
        profile = _parse_types(types, played)
    try:
        found = solve_equilibrium(played, profile)
    except ValueError as error:
        raise FedgameError(f"{problem}: {error}") from error
    _warn(played, profile, found)
    if experiment.aggregative.gradient == "paper":
        sys.stderr.write(
            'warning: aggregative.gradient = "paper": messages lead elsewhere than to the '
            "equilibrium that is printed\n"
        )
    content = finite(_mapping(experiment, profile, found, drawn=types is None))
    if as_json:
        sys.stdout.write(json.dumps(content, indent=2, allow_nan=False) + "\n")
    else:
        game_output.print_equilibrium(Console(), content)


def _experiment(problem: Path, overrides: Sequence[str]) -> Experiment:
    from fedgame.config import load, parse_override, read_toml
    from fedgame.errors import ConfigError

    flat = {"strategy": "aggregative", **read_toml(problem)}
    flat.update(parse_override(text) for text in overrides)
    if flat["strategy"] != "aggregative":
        raise ConfigError("strategy", flat["strategy"], "must be 'aggregative' to solve a game")
    return load(flat)


def _parse_types(text: str, played: AggregativeGame) -> IntArray:
    import numpy as np

    from fedgame.errors import ConfigError

    try:
        listed = [int(part) for part in text.split(",")]
    except ValueError:
        listed = []
    if len(listed) != played.num_players or not set(listed) <= set(range(played.num_types)):
        allowed = f"{played.num_players} whole numbers from 0 to {played.num_types - 1}"
        raise ConfigError("--types", text, f"must be {allowed}, parted by commas")
    return np.array(listed)


def _warn(played: AggregativeGame, profile: IntArray, found: Equilibrium) -> None:
    """Say on stderr where this need not be the only equilibrium."""
    from fedgame.games.aggregative.affine import AffineMap
    from fedgame.games.aggregative.best_responses import SLACK
    from fedgame.games.aggregative.quadratic import QuadraticGame

    if found.unique or not isinstance(played, QuadraticGame):
        return
    slack = SLACK * AffineMap.of(played, profile).bound
    kind = "monotone, but not strongly" if found.smallest_eigenvalue >= -slack else "not monotone"
    sys.stderr.write(
        f"warning: the game is {kind} (smallest eigenvalue {found.smallest_eigenvalue:.6g}): there "
        "may be other equilibria\n"
    )


def _mapping(
    experiment: Experiment, profile: IntArray, found: Equilibrium, *, drawn: bool
) -> dict[str, Any]:
    from fedgame.reports.game_run import game_name

    players, dimension = found.strategies.shape
    return {
        "game": experiment.aggregative.name,
        "game_name": game_name(experiment.flat),
        "num_players": players,
        "dimension": dimension,
        "seed": experiment.run.seed,
        "types": profile.tolist(),
        "types_from_seed": drawn,
        "strategies": found.strategies.tolist(),
        "mean": found.strategies.mean(axis=0).tolist(),
        "gain": found.gain,
        "smallest_eigenvalue": found.smallest_eigenvalue,
        "unique": found.unique,
    }
