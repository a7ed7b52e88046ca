"""The command `fedgame`: its verbs, and how an error looks."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
import typer.core

from fedgame.cli import audit, deploy, keys, run, solve
from fedgame.errors import DiskError, FedgameError, RunFailed

# with rich at hand typer writes `\[default: ...]`, even where rich's markup is turned off
typer.core.HAS_RICH = False

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"fedgame {version('fedgame')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Say the version.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Federated learning as a privacy game, on Flower."""
    del version


app.command()(run.run)
app.command()(keys.keys)
app.add_typer(audit.app, name="audit")
app.add_typer(solve.app, name="solve")
app.add_typer(deploy.app, name="deploy")


def main() -> None:
    """Run the command line; an error made on purpose is one line and exit code 1 or 2.

    1: the run failed. 2: the command, the configuration or the data are not what they must be.
    """
    try:
        app()
    except FedgameError as error:
        text = " ".join(str(error).split())
        sys.stderr.write(f"error: {text}\n")
        sys.exit(1 if isinstance(error, RunFailed | DiskError) else 2)
