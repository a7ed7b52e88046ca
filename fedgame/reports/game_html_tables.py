"""The tables of a game's report page: what leaked beside its bounds, and player by player."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from fedgame.accountants.pml_bounds import Bound
from fedgame.reports.game_summary import GameRun, PlayerLine, largest, last, player_lines
from fedgame.reports.guarantees import format_bound
from fedgame.reports.sortable_table import (
    Column,
    bound_column,
    number_column,
    sortable_table,
)
from fedgame.reports.sortable_table import largest as largest_of


def bounds_section(run: GameRun) -> str:
    """Return the section with what leaked and every bound on it, a row each."""
    audit = run.audit
    text = (
        "The exact leakage is l(F → o) = max log P(o | types)/P(o) over the types that the prior "
        "allows, for the messages o that were sent. A bound along this transcript says what is "
        "known of it without that sum; one for every transcript would hold whatever had been sent. "
        "All are in nats and rounded up."
    )
    exact = (
        "Exact leakage",
        format_bound(last(audit.leakage)),
        "exact",
        "this transcript",
        "all types that the prior allows, summed in closed form",
    )
    rows = [exact, *(_bound_row(bound) for bound in (*audit.bounds, audit.ceiling))]
    head = "".join(
        f'<th scope="col"{style}>{name}</th>'
        for name, style in (
            ("Bound", ' class="text"'),
            ("Nats", ""),
            ("Worth", ' class="text"'),
            ("Holds for", ' class="text"'),
            ("Why", ' class="text"'),
        )
    )
    body = "".join(_html_row(row) for row in rows)
    return (
        f"<section><h2>What leaked, and what bounds say</h2><p>{escape(text)}</p>"
        '<div class="scroll" role="region" aria-label="Bounds" tabindex="0">'
        f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div></section>"
    )


def _bound_row(bound: Bound) -> tuple[str, str, str, str, str]:
    single = bound.value.ndim > 1
    values = largest(bound) if bound.value.ndim else bound.value.reshape(1)
    return (
        f"{bound.name}, largest of any player" if single else bound.name,
        format_bound(last(values)),
        "rigorous" if bound.source.rigorous else "not rigorous",
        bound.source.covers,
        bound.source.text,
    )


def _html_row(row: tuple[str, str, str, str, str]) -> str:
    name, value, worth, covers, why = map(escape, row)
    flag = " flag" if worth == "not rigorous" else ""
    return (
        f'<tr><td class="text wrap">{name}</td><td>{value}</td><td class="text{flag}">{worth}</td>'
        f'<td class="text">{covers}</td><td class="text wrap">{why}</td></tr>'
    )


def players_section(run: GameRun) -> str:
    """Return the section with one row a player; nothing where none was recorded."""
    lines = player_lines(run)
    if not lines:
        return ""
    text = (
        "The leakage about one player counts what the others' messages say about it too, where "
        "types are correlated. Its DP ε adds up its own messages alone, and bounds its leakage "
        "only where types are independent."
    )
    shown, which = largest_of(
        lines, lambda line: line.individual_leakage, "leakage", "players.csv", "player"
    )
    basis = (
        "Leakage, ceiling and log gain in nats; leakage and ε are rounded up. Released counts what "
        f"its ledger holds, also where a message was lost. A click on a header sorts.{which}"
    )
    table = sortable_table(
        shown, _columns(shown), basis=basis, label="Leakage of each player", noun="player"
    )
    return f"<section><h2>Player by player</h2><p>{escape(text)}</p>{table}</section>"


def _columns(lines: list[PlayerLine]) -> list[Column[PlayerLine]]:
    columns: list[Column[PlayerLine]] = [
        Column("Player", lambda line: line.id, lambda line: str(line.id)),
        bound_column("Leakage", lambda line: line.individual_leakage, "strong"),
        bound_column("Ceiling", lambda line: line.individual_ceiling),
        number_column("Bayes log gain", lambda line: line.bayes_log_gain, 3),
        number_column("Likeliest type", lambda line: line.guess, 9),
        bound_column("DP ε", lambda line: line.epsilon),
        number_column("Sent", lambda line: line.sent, 9),
        number_column("Released", lambda line: line.released, 9),
    ]
    own: tuple[tuple[str, Callable[[PlayerLine], bool]], ...] = (
        ("Type from", lambda line: line.own_type),
        ("Noise from", lambda line: line.own_noise),
    )
    for name, is_own in own:
        if any(map(is_own, lines)):
            columns.append(_origin(name, is_own))
    return columns


def _origin(name: str, is_own: Callable[[PlayerLine], bool]) -> Column[PlayerLine]:
    def text(line: PlayerLine) -> str:
        return "its node" if is_own(line) else "public seed"

    return Column(name, text, text, "text")
