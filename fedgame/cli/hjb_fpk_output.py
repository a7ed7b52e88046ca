"""A solution of the coupled equations as JSON, as tables for the terminal, and as files."""

from __future__ import annotations

import io
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

from fedgame.cli.progress import number
from fedgame.cli.summary import MAX_CLIENTS
from fedgame.games.privacy.hjb_fpk import HjbFpkSolution
from fedgame.reports.files import write_whole
from fedgame.reports.hjb_fpk_figures import snapshot_times
from fedgame.reports.hjb_fpk_page import render_solution
from fedgame.reports.hjb_fpk_summary import notes, settings_table, type_summaries
from fedgame.reports.summary import finite

NPZ_NAME: Final = "hjb-fpk.npz"
HTML_NAME: Final = "hjb-fpk.html"


def as_mapping(solution: HjbFpkSolution) -> dict[str, Any]:
    """Return everything as JSON's types, s* and mu at a few times; what is not finite is None."""
    times = snapshot_times(solution)
    content: dict[str, Any] = finite(
        {
            "status": solution.status,
            "converged": solution.converged,
            "message": solution.message,
            "iterations": len(solution.residuals),
            "residual": solution.residuals[-1],
            "residuals": solution.residuals,
            "policy_residual": solution.policy_residual,
            "mass_error": solution.mass_error,
            "edge_mass": solution.edge_mass,
            "mean_strength": {
                "start": solution.mean_strength[0],
                "end": solution.mean_strength[-1],
            },
            "types": [asdict(kind) for kind in type_summaries(solution)],
            "settings": settings_table(solution),
            "x": solution.x.tolist(),
            "t": solution.t[times].tolist(),
            "s_star": solution.s_star[:, times].tolist(),
            "mu": solution.mu[:, times].tolist(),
        }
    )
    return content


def write_files(solution: HjbFpkSolution, folder: Path) -> None:
    """Write hjb-fpk.npz, with every array by its name, and hjb-fpk.html.

    Args:
        solution: What they show.
        folder: An existing folder.

    Raises:
        RunFailed: A file cannot be written.
    """
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        x=solution.x,
        t=solution.t,
        betas=np.array(solution.settings.betas),
        shares=solution.settings.shares(),
        mu=solution.mu,
        s_star=solution.s_star,
        value=solution.value,
        mean_state=solution.mean_state,
        mean_strength=solution.mean_strength,
        residuals=np.array(solution.residuals),
    )
    write_whole(folder / NPZ_NAME, stream.getvalue())
    page = render_solution(solution, NPZ_NAME, version("fedgame"))
    write_whole(folder / HTML_NAME, page.encode())


def print_solution(console: Console, solution: HjbFpkSolution, folder: Path | None) -> None:
    """Print the overview, the types, notes, and where the files are.

    Args:
        console: Where to print.
        solution: What to print.
        folder: Where the files are, None without any.
    """
    console.print(_overview(solution))
    console.print(_types(solution))
    for note in notes(solution):
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    if folder is not None:
        for name in (NPZ_NAME, HTML_NAME):
            console.print(str(folder / name), highlight=False, markup=False, soft_wrap=True)


def _overview(solution: HjbFpkSolution) -> Table:
    table = Table(title="mean-field equilibrium in time")
    table.add_column("of the solution" if solution.converged else "of the last iterate")
    table.add_column("value", justify="right", no_wrap=True)
    rows = {
        "status": solution.status,
        "iterations": str(len(solution.residuals)),
        "residual": number(solution.residuals[-1], 3),
        "policy residual": number(solution.policy_residual, 3),
        "mass error": number(solution.mass_error, 3),
        "mean strength at t = 0": number(solution.mean_strength[0]),
        "mean strength at t = T": number(solution.mean_strength[-1]),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _types(solution: HjbFpkSolution) -> Table:
    table = Table(title="types: strengths s* and states x at t = 0 and t = T")
    names = ("beta", "share", "s* at 0", "90 % of s* at 0", "s* at T", "x at T", "std of x at T")
    for name in names:
        table.add_column(name, justify="right")
    kinds = type_summaries(solution)
    for kind in kinds[:MAX_CLIENTS]:
        table.add_row(
            number(kind.beta),
            number(kind.share),
            number(kind.strength_start),
            f"{number(kind.strength_low)} to {number(kind.strength_high)}",
            number(kind.strength_end),
            number(kind.state_mean),
            number(kind.state_std),
        )
    if len(kinds) > MAX_CLIENTS:
        table.caption = f"{len(kinds) - MAX_CLIENTS} more: --json shows them"
    return table
