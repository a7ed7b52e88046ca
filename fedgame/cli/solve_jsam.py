"""`fedgame solve jsam`: from reported sensitivities to selection, budgets and payments."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedgame.cli.flags import AsJson
from fedgame.errors import FedgameError

if TYPE_CHECKING:
    from fedgame.cli.jsam_problem import Problem


def jsam(
    problem: Annotated[
        Path | None,
        typer.Argument(metavar="PROBLEM.toml", help="Values of the options below, by name."),
    ] = None,
    *,
    reports: Annotated[
        str | None,
        typer.Option(metavar="FILE.csv", help="Reports, with columns client,sensitivity."),
    ] = None,
    # numbers come as text: a wrong one in a file and on the command line then reads the same
    eta: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Weight of the training loss against money, > 0."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="MONEY",
            help="Instead of --eta: what the payments are expected to sum to under the prior.",
        ),
    ] = None,
    q: Annotated[
        str | None,
        typer.Option(
            "--q", metavar="NUMBER", help="How much noise matters, > 0.", show_default="1"
        ),
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option(
            metavar="PRIOR",
            help="Prior of a sensitivity: uniform:LOW:HIGH, a continuous distribution of "
            "scipy.stats with its arguments (beta:2:5), or samples:FILE.",
        ),
    ] = None,
    c_max: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Where to truncate the prior.")
    ] = None,
    epsilon_max: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Cap on every budget.", show_default="no cap"),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="jsam, usbm, fsbm, jsam-ci or bbm.", show_default="jsam"),
    ] = None,
    clients: Annotated[
        str | None, typer.Option(metavar="M", help="For fsbm and bbm: how many to select.")
    ] = None,
    payments: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="ex-post, interim or none.", show_default="ex-post"),
    ] = None,
    no_payments: Annotated[
        bool, typer.Option("--no-payments", help="Short for --payments none.")
    ] = False,
    seed: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help="Of the draws for --budget and interim.", show_default="42"
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write allocation.csv and allocation.html there."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Buy privacy: select clients, set their budgets and their payments.

    PROBLEM.toml holds the same values by the options' names (`reports = [0.1, 0.2]` or
    `reports = "FILE.csv"`); options win over it.
    """
    from fedgame.cli.options import number_or_text

    if no_payments and payments not in (None, "none"):
        raise FedgameError(f"--no-payments excludes --payments {payments}; give one of them")
    texts = {
        "reports": reports,
        "distribution": distribution,
        "mechanism": mechanism,
        "payments": "none" if no_payments else payments,
        "output": output,
    }
    numbers = {
        "eta": eta,
        "budget": budget,
        "q": q,
        "c-max": c_max,
        "epsilon-max": epsilon_max,
        "clients": clients,
        "seed": seed,
    }
    parsed = {key: text and number_or_text(text) for key, text in numbers.items()}
    _solve({**texts, **parsed}, problem, as_json=as_json)


def _solve(values: Mapping[str, object], path: Path | None, *, as_json: bool) -> None:
    from rich.console import Console

    from fedgame.cli import jsam_output
    from fedgame.cli.jsam_problem import KEYS, read_problem, solve
    from fedgame.cli.options import Options

    options = Options(KEYS, values, path)
    problem = read_problem(options)
    folder = options.path("output")
    if folder is not None:
        with options.writing("output"):
            folder.mkdir(parents=True, exist_ok=True)
    with Console(stderr=True).status(_waiting(problem)):
        purchase = solve(problem, options)
    if folder is not None:
        with options.writing("output"):
            jsam_output.write_files(purchase, folder)
    if as_json:
        text = json.dumps(jsam_output.as_mapping(purchase), indent=2, allow_nan=False)
        sys.stdout.write(text + "\n")
    else:
        jsam_output.print_purchase(Console(), purchase, folder)


def _waiting(problem: Problem) -> str:
    if problem.payments == "none":
        return "solving"
    count = len(problem.reports.clients)
    return f"solving; the payments of {count:,} clients take the time (--no-payments skips them)"
