"""`fedgame deploy`: Flower as real processes, one client a node."""

from __future__ import annotations

import typer

from fedgame.cli import deploy_keys, deploy_local

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Run on real nodes instead of simulated ones, one client a node."""


app.command("local")(deploy_local.local)
app.command("keys")(deploy_keys.keys)
