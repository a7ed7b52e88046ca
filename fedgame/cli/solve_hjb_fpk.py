"""`fedgame solve hjb-fpk`: the privacy game over time, as coupled differential equations."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedgame.cli.flags import AsJson, RunConfig
from fedgame.errors import ConfigError, FedgameError, RunFailed

if TYPE_CHECKING:
    from fedgame.games.privacy.hjb_fpk import HjbFpkSolution
    from fedgame.games.privacy.hjb_fpk_settings import HjbFpk


def hjb_fpk(
    problem: Annotated[
        Path | None,
        typer.Argument(
            metavar="PROBLEM.toml",
            help="Settings such as horizon, betas, s-min, s-max, loss, points.",
            show_default="the MFPG paper's logistic task, in one dimension",
        ),
    ] = None,
    *,
    run_config: RunConfig = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write hjb-fpk.npz and hjb-fpk.html there."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Solve the mean-field privacy game over time: strengths s*(t, x) and densities of the state.

    Each client steers a state by its strength. Values go backward in time, densities forward, and
    both repeat until the mean state answers to itself. Exit code 1 if a check of the solution
    fails; what was computed is shown and written all the same.
    """
    from rich.console import Console

    from fedgame.cli import hjb_fpk_output
    from fedgame.cli.hjb_fpk_problem import read_settings

    settings = read_settings(problem, run_config or ())
    if output is not None:
        _make_folder(output)
    with Console(stderr=True).status("solving"):
        solution = _solve(settings)
    if output is not None:
        hjb_fpk_output.write_files(solution, output)
    if as_json:
        text = json.dumps(hjb_fpk_output.as_mapping(solution), indent=2, allow_nan=False)
        sys.stdout.write(text + "\n")
    else:
        hjb_fpk_output.print_solution(Console(), solution, output)
    if not solution.converged:
        raise RunFailed(_failure(solution))


def _solve(settings: HjbFpk) -> HjbFpkSolution:
    import numpy as np

    from fedgame.games.privacy.hjb_fpk import solve_hjb_fpk

    # a number that overflows fails the solution's checks, which say more than a warning
    with np.errstate(all="ignore"):
        try:
            return solve_hjb_fpk(settings)
        except ValueError as error:
            raise FedgameError(str(error)) from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"must be a folder that can be written ({error.strerror})"
        raise ConfigError("--output", str(folder), reason) from error


def _failure(solution: HjbFpkSolution) -> str:
    if "residual" in solution.message:
        return solution.message
    residual, count = solution.residuals[-1], len(solution.residuals)
    return f"{solution.message} (Picard residual {residual:.3g} after {count} iterations)"
