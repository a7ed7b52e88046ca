"""Games by messages as tables for the terminal: a run, an audit of one, an equilibrium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedgame.cli.progress import at_most, bound, number

MAX_PLAYERS = 20
MAX_COORDINATES = 6

UNIQUE = "an eigenvalue above 0 means that there is exactly one equilibrium"

BOUNDS = {
    "all players": "bounds about all players, rounded up",
    "one player": "bounds about one player, largest of any",
}


def print_game(console: Console, content: Mapping[str, Any]) -> None:
    """Print what leaked, its bounds and the players.

    Args:
        console: Where to print.
        content: A run's summary.json, or the fields of it that an audit recomputes.
    """
    console.print(_overview(content))
    for about, title in BOUNDS.items():
        rows = [row for row in content["bounds"] if row["about"] == about]
        if rows:
            console.print(_bounds(title, rows))
    console.print(_players(content))


def _overview(content: Mapping[str, Any]) -> Table:
    title = Text(f"{content['game_name']} game, {content['population']} players, in nats")
    eigenvalue = content["smallest_eigenvalue"]
    table = Table(title=title, caption=None if eigenvalue is None else UNIQUE)
    table.add_column("after the last message", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    exact, attack, action = content["exact_leakage"], content["attack"], content["filter_action"]
    bayes, matching, error = attack["bayes"], attack["gradient_matching"], content["error"]
    done = 0 if content["rounds"] is None else content["rounds"] + 1
    rows = {
        "iterations": f"{done} of {content['planned_rounds'] + 1}",
        "messages": str(content["sent"]),
        "leakage (exact)": bound(exact["whole"]),
        f"budget R ({action})": "none" if content["budget"] is None else at_most(content["budget"]),
        "ceiling": bound(content["ceiling"]),
        "largest individual leakage": bound(max(exact["players"])),
        "Bayes adversary, log gain": number(bayes["log_gain"]["final"]),
        "types it guesses right": _right(bayes["share_right"], content["population"]),
        "gradient matching, log gain": matching and number(matching["log_gain"]["final"]),
        "largest DP epsilon (ledger)": _epsilon(content),
        "distance to equilibrium": error and number(error["final"]),
        "exploitability": _gain(content["exploitability"]),
        "pseudo-gradient's smallest eigenvalue": "" if eigenvalue is None else number(eigenvalue),
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    return table


def _epsilon(content: Mapping[str, Any]) -> str:
    # an audit of the transcript does not read the ledger
    return bound(content["worst_epsilon"]) if "worst_epsilon" in content else ""


def _right(share: float | None, players: int) -> str:
    return "" if share is None else f"{round(share * players)} of {players}"


def _gain(exploitability: Mapping[str, Any] | None) -> str:
    if exploitability is None:
        return ""
    return "infinite" if exploitability["infinite"] else number(exploitability["final"])


def _bounds(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=title)
    table.add_column("bound")
    table.add_column("nats", justify="right", no_wrap=True)
    table.add_column("worth", no_wrap=True)
    table.add_column("holds for")
    for row in rows:
        value = row["value"]
        value = _largest(value) if isinstance(value, list) else value
        table.add_row(row["name"], bound(value), row["worth"], row["covers"])
    return table


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _players(content: Mapping[str, Any]) -> Table:
    bayes = content["attack"]["bayes"]
    columns: dict[str, Sequence[str]] = {
        "leakage": [*map(bound, content["exact_leakage"]["players"])],
        "ceiling": [*map(bound, content["individual_ceiling"])],
        "Bayes log gain": [*map(number, bayes["individual_log_gain"])],
        "likeliest type": [*map(str, bayes["guesses"])],
    }
    if content.get("players"):
        columns["DP epsilon"] = [bound(player["epsilon"]) for player in content["players"]]
        columns["sent"] = [str(player["sent"]) for player in content["players"]]
    return _by_player("about each player alone, in nats", columns)


def _by_player(title: str, columns: Mapping[str, Sequence[str]]) -> Table:
    table = Table(title=title)
    for name in ("player", *columns):
        table.add_column(name, justify="right")
    rows = list(zip(*columns.values(), strict=True))
    for player, row in enumerate(rows[:MAX_PLAYERS]):
        table.add_row(str(player), *row)
    if len(rows) > MAX_PLAYERS:
        table.caption = f"{len(rows) - MAX_PLAYERS} more; --json shows them"
    return table


def print_equilibrium(console: Console, content: Mapping[str, Any]) -> None:
    """Print an equilibrium with its certificate.

    Args:
        console: Where to print.
        content: What `fedgame solve game --json` prints.
    """
    table = Table(title=Text(f"{content['game_name']} game, {content['num_players']} players"))
    table.add_column("at the equilibrium", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_row("mean strategy", _vector(content["mean"]))
    table.add_row("gain of a player, at most", number(content["gain"], 2))
    table.add_row("pseudo-gradient's smallest eigenvalue", number(content["smallest_eigenvalue"]))
    table.add_row("the only equilibrium", "yes" if content["unique"] else "not known")
    console.print(table)
    seed = content["seed"] if content["types_from_seed"] else None
    title = "types as given" if seed is None else f"types drawn from the seed {seed}"
    columns = {
        "type": [*map(str, content["types"])],
        "strategy": [*map(_vector, content["strategies"])],
    }
    console.print(_by_player(title, columns))


def _vector(values: Sequence[float]) -> str:
    shown = ", ".join(number(value, 6) for value in values[:MAX_COORDINATES])
    return shown + (", .." if len(values) > MAX_COORDINATES else "")
