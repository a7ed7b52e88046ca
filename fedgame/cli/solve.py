"""`fedgame solve`: solve a game on its own, without Flower; one file a game."""

from __future__ import annotations

import typer

from fedgame.cli import solve_game, solve_hjb_fpk, solve_jsam, solve_limit, solve_mfne

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Solve a game on its own, without training a model."""


app.command("jsam")(solve_jsam.jsam)
app.command("game")(solve_game.game)
app.command("hjb-fpk")(solve_hjb_fpk.hjb_fpk)
app.command("mfne")(solve_mfne.mfne)
app.command("limit")(solve_limit.limit)
