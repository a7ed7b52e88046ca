"""`fedgame keys`: every key of an experiment, and the table of them that Flower wants."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

_TABLE = re.compile(r"(?ms)^\[tool\.flwr\.app\.config\]\n.*?(?=^\[|\Z)")


def keys(
    *,
    pyproject: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Write them to [tool.flwr.app.config] of this file."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="With --pyproject: only say whether it is up to date.")
    ] = False,
) -> None:
    """List every key of an experiment with its default."""
    from fedgame.config import config_keys_toml

    table = config_keys_toml()
    if pyproject is None:
        typer.echo(table, nl=False)
        return
    before = pyproject.read_text(encoding="utf-8")
    after = with_config_keys(before, table)
    if check and after != before:
        typer.echo(f"error: {pyproject} is not up to date: make config-keys", err=True)
        raise typer.Exit(1)
    if after != before:
        pyproject.write_text(after, encoding="utf-8")


def with_config_keys(pyproject: str, table: str) -> str:
    """Return the text of a pyproject.toml with its [tool.flwr.app.config] table replaced.

    The table is added at the end where there is none.
    """
    section = f"[tool.flwr.app.config]\n{table}"
    if not _TABLE.search(pyproject):
        return f"{pyproject.rstrip()}\n\n{section}"
    text = _TABLE.sub(lambda _: f"{section}\n", pyproject, count=1)
    return text.rstrip() + "\n"
