"""The tables of a game's report page: what leaked beside its bounds, and player by player."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Final, NamedTuple

from fedgame.accountants.pml_bounds import Bound
from fedgame.accountants.pml_distances import REALISED
from fedgame.reports.game_run import GameRun
from fedgame.reports.game_summary import PlayerLine, largest, last, last_row, player_lines
from fedgame.reports.guarantees import format_bound
from fedgame.reports.sortable_table import (
    Column,
    bound_column,
    number_column,
    sortable_table,
)
from fedgame.reports.sortable_table import largest as largest_of

PAPER: Final = (
    "Privacy Guarantee for Nash Equilibrium Computation of Aggregative Games Based on Pointwise "
    "Maximal Leakage"
)

MEANING: Final[Mapping[str, str]] = {
    "Theorem 1": "from the distances between all types' messages, and the prior",
    "Corollary 1": "the same from each type's largest distances",
    "Corollary 2": "all players' largest distances, added up; whatever the prior",
    "composition": "Theorem 1 for one iteration, added up, with the prior updated in between",
    "Remark 5": "Theorem 1 for one iteration, added up",
    "group DP": "number of players times the largest DP of one; whatever the prior",
    "DP of one player": "distance between two of its types, added up over its own messages",
    "Lemma 5 (1)": "from group DP and the probability of its rarest type; for every prior",
    "ceiling": "log 1/p of a probability p",
    "individual ceiling": "log 1/p of a probability p",
}
"""What each bound is made of, by the part of its name before a comma."""


def bounds_section(run: GameRun) -> str:
    """Return the section with what leaked and every bound on it, about all players and about one.

    Of what is about one player the largest value of any is shown.
    """
    audit = run.audit
    text = (
        "The exact leakage is l(F → o) = max log P(o | types)/P(o) over the types that the prior "
        "allows, for the messages o that were sent. A bound along this transcript says what is "
        "known of it without that sum; one for every transcript would hold whatever had been sent. "
        f"Theorems, corollaries, remarks and lemmas are those of “{PAPER}”. All are in nats, after "
        "the last message, and rounded up. Distances between messages are in the L1 norm, over "
        "the scale of the noise."
    )
    single = [bound for bound in audit.bounds if bound.value.ndim > 1]
    whole = [bound for bound in audit.bounds if bound.value.ndim == 1]
    top = last_row(audit.individual_leakage)
    tables = (
        _table(
            "About all players' types together",
            [
                _exact(last(audit.leakage), "over all types that the prior allows"),
                *(_bound_row(bound, last(bound.value)) for bound in whole),
                _bound_row(audit.ceiling, float(audit.ceiling.value)),
            ],
        ),
        _table(
            "About one player's type, the largest of any player",
            [
                _exact(max(top), "what everybody's messages say about it"),
                *(_bound_row(bound, last(largest(bound))) for bound in single),
                _bound_row(audit.individual_ceiling, float(audit.individual_ceiling.value.max())),
            ],
        ),
    )
    return (
        f"<section><h2>What leaked, and what bounds say</h2><p>{escape(text)}</p>"
        f"{''.join(tables)}</section>"
    )


class _Row(NamedTuple):
    """What a row of these tables shows."""

    name: str
    meaning: str
    value: str
    worth: str
    covers: str


def _exact(value: float, meaning: str) -> _Row:
    return _Row("Exact leakage", meaning, format_bound(value), "exact", REALISED.covers)


def _bound_row(bound: Bound, value: float) -> _Row:
    base = bound.name.partition(",")[0]
    # where the distances come from is said where they do not come from the transcript
    own = bound.source.text.removeprefix(REALISED.text).removeprefix("; ")
    return _Row(
        bound.name,
        "; ".join(part for part in (MEANING.get(base, ""), own) if part),
        format_bound(value),
        bound.source.worth,
        bound.source.covers,
    )


def _table(title: str, rows: list[_Row]) -> str:
    head = '<th scope="col" class="text" style="width:100%">Bound</th><th scope="col">Nats</th>'
    head += '<th scope="col" class="text">Worth</th>'
    body = "".join(map(_html_row, rows))
    return (
        f'<h3 class="above">{escape(title)}</h3>'
        f'<div class="scroll" style="max-height:none" role="region" aria-label="{escape(title)}" '
        'tabindex="0">'
        f'<table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _html_row(row: _Row) -> str:
    name, meaning, value, worth, covers = map(escape, row)
    flag = " flag" if row.worth in {"estimate", "no bound"} else ""
    return (
        f'<tr><td class="text wrap">{name}<small>{meaning}</small></td><td>{value}</td>'
        f'<td class="text{flag}">{worth}<small>{covers}</small></td></tr>'
    )


def players_section(run: GameRun) -> str:
    """Return the section with one row a player; nothing where none was recorded."""
    lines = player_lines(run)
    if not lines:
        return ""
    text = (
        "The leakage about one player counts what the others' messages say about it too, where "
        "types are correlated. Its Bayes log gain compares the probability of its likeliest type "
        "after and before the messages; below 0 they made the adversary less sure. Its DP ε is "
        "from the ledger: it adds up, message by message, how far apart any two of its types are, "
        "and bounds its leakage only where types are independent. DP of one player, above, takes "
        "the one pair of types that is worst over all messages; with three types or more it can "
        "be smaller."
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
