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


def print_game(console: Console, content: Mapping[str, Any]) -> None:
    """Print what leaked, its bounds and the players.

    Args:
        console: Where to print.
        content: A run's summary.json, or the fields of it that an audit recomputes.
    """
    console.print(_overview(content))
    console.print(_bounds(content))
    console.print(_players(content))


def _overview(content: Mapping[str, Any]) -> Table:
    table = Table(title=f"{content['game']} game, {content['population']} players, in nats")
    table.add_column("after the last message", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    exact, attack, action = content["exact_leakage"], content["attack"], content["filter_action"]
    matching, error = attack["gradient_matching"], content["error"]
    gain = content["exploitability"]
    done = 0 if content["rounds"] is None else content["rounds"] + 1
    rows = {
        "iterations": f"{done} of {content['planned_rounds'] + 1}",
        "messages": str(content["sent"]),
        "leakage (exact)": bound(exact["whole"]),
        f"budget R ({action})": "none" if action == "measure" else at_most(content["budget"]),
        "ceiling": bound(content["ceiling"]),
        "largest individual leakage": bound(max(exact["players"])),
        "Bayes adversary, log gain": number(attack["bayes"]["log_gain"]["final"]),
        "gradient matching, log gain": matching and number(matching["log_gain"]["final"]),
        "largest DP epsilon": bound(content["worst_epsilon"]) if "worst_epsilon" in content else "",
        "distance to equilibrium": error and number(error["final"]),
        "exploitability": gain and number(gain["final"]),
        "smallest eigenvalue": number(content["smallest_eigenvalue"]),
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    return table


def _bounds(content: Mapping[str, Any]) -> Table:
    table = Table(title="bounds on the leakage, rounded up")
    table.add_column("bound")
    table.add_column("nats", justify="right", no_wrap=True)
    table.add_column("worth", no_wrap=True)
    table.add_column("holds for")
    for row in content["bounds"]:
        value, name = row["value"], row["name"]
        if isinstance(value, list):
            value, name = _largest(value), f"{name}, largest"
        worth = "rigorous" if row["rigorous"] else "not rigorous"
        table.add_row(name, bound(value), worth, row["covers"])
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
    table = Table(title=Text(f"{content['game']} game, {content['num_players']} players"))
    table.add_column("at the equilibrium", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_row("mean strategy", _vector(content["mean"]))
    table.add_row("gain of a player, at most", number(content["gain"], 2))
    table.add_row("smallest eigenvalue", number(content["smallest_eigenvalue"]))
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
