"""The report page of a game by messages: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from fedgame.accountants.pml_logs import FloatArray
from fedgame.reports import game_figures
from fedgame.reports.game_html_tables import bounds_section, players_section
from fedgame.reports.game_summary import GameRun, last, last_row, log_gain
from fedgame.reports.guarantees import format_bound, format_floor, format_number
from fedgame.reports.page import (
    FROM_SEED,
    Plot,
    header,
    key_numbers,
    limits,
    render_page,
    settings,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ADVERSARY = (
    "All of this covers everyone who sees the messages or a part of them, the server too, but not "
    "a player, who also knows its own cost function."
)

ROUNDING = 1e-9
"""An eigenvalue above minus this may be 0 but for rounding."""

SEED_KNOWN = "anyone who knows the seed"
"""What a note of the run says that owns up to the public seed; the page does not say it twice."""

FIGURES: tuple[tuple[str, Callable[[GameRun], Figure | None], str], ...] = (
    (
        "Leakage",
        game_figures.leakage,
        "What the messages so far say about all types together: exactly, by bounds that hold along "
        "this transcript, and as the log gain of two attacks. Dashed bounds hold for every "
        "transcript; dotted ones are not rigorous. A click on a name shows or hides its line. On a "
        "logarithmic axis nothing at or below 0 is shown.",
    ),
    (
        "Individual leakage",
        game_figures.individual_leakage,
        "What all messages together say about the type of each player (circles), what the best "
        "guess of it gained (diamonds), and the most that there is to know (bars).",
    ),
    (
        "Distance to equilibrium",
        game_figures.error,
        "Euclidean distance of all strategies to the only equilibrium; noise keeps it from 0.",
    ),
    (
        "Exploitability",
        game_figures.exploitability,
        "The most that any player could gain by changing its strategy alone, in units of cost; at "
        "0 the strategies are an equilibrium.",
    ),
    (
        "Noise",
        game_figures.noise,
        "Scale of the Laplace noise on the messages that were sent; above the planned scale, the "
        "filter raised it to stay within the budget.",
    ),
)


def render_game(run: GameRun, versions: Mapping[str, str]) -> str:
    """Return the report page.

    Args:
        run: The run.
        versions: Version of each piece of software, by name.
    """
    mode = run.config.get("mode")
    kicker = "fedgame run report" + (f", {mode} mode" if mode is not None else "")
    failed = run.result.status != "finished"
    parts = (
        header(kicker, title(run), headline(run), failed=failed),
        limits(_limits(run)),
        key_numbers(_key_numbers(run)),
        bounds_section(run),
        players_section(run),
    )
    drawn = ((name, draw(run), caption) for name, draw, caption in FIGURES)
    return render_page(
        title(run),
        "\n".join(parts),
        [Plot(name, figure, caption) for name, figure, caption in drawn if figure is not None],
        after=settings(run.config, versions),
        numbers="leakage.csv",
    )


def title(run: GameRun) -> str:
    """Return the page's title."""
    return f"{run.config.get('aggregative.name', 'a')} game, {run.num_players:,} players"


def headline(run: GameRun) -> str:
    """Return, as plain sentences, what ran, how far it came, and what leaked to whom."""
    sentences = [_course(run), *_leak(run), ADVERSARY]
    if _limits(run):
        sentences.append("The limits below apply.")
    return " ".join(sentences)


def _course(run: GameRun) -> str:
    result = run.result
    done = f"{len(result.transcript):,} of {run.planned:,} iterations"
    reason = f": {result.reason.rstrip('.')}" if result.reason else ""
    if result.status != "finished":
        return f"The run failed after {done}{reason}."
    stopped = f" It stopped early{reason}." if reason else ""
    return (
        f"{run.num_players:,} players looked for an equilibrium by noisy messages (rule "
        f"{result.dynamics.rule}) and sent {done}.{stopped}"
    )


def _leak(run: GameRun) -> Iterable[str]:
    leaked, budget = last(run.audit.leakage), run.budget
    yield f"What they sent leaks {format_bound(leaked)} nats about their types."
    ceiling = f"{format_bound(float(run.audit.ceiling.value))} nats, the ceiling"
    if budget is None:
        yield f"No budget was enforced; nothing that is sent could leak more than {ceiling}."
        yield "These numbers hold if the prior is right."
        return
    kept = "is within" if leaked <= budget else "is above"
    yield (
        f"That {kept} the budget R = {format_floor(budget)} nats; nothing that is sent could leak "
        f"more than {ceiling}."
    )
    yield "R holds if the prior is right."


def _limits(run: GameRun) -> list[str]:
    """Return what the numbers do not cover, the public seed first."""
    notes = [*_seed_notes(run), *run.result.notes]
    smallest, outcome = run.audit.smallest_eigenvalue, run.audit.outcome
    # a game that is not monotone is in the run's own notes
    monotone = smallest is None or smallest >= -ROUNDING
    if monotone and outcome is not None and outcome.error is None:
        notes.append(
            "No distance to equilibrium is shown: there may be several, or none can be computed."
        )
    if run.result.dynamics.gradient == "paper":
        notes.append(
            "The gradient leaves out that a player's own strategy moves the mean, so what the "
            "messages lead to is not the Nash equilibrium."
        )
    if outcome is not None and not outcome.exploitability_is_exact:
        notes.append(
            "The exploitability is the largest gain that a search found, not the largest there is."
        )
    return notes


def _seed_notes(run: GameRun) -> Iterable[str]:
    players = run.result.players
    own = sum(player.own_type for player in players)
    if own:
        yield (
            f"The types of {_some(own, len(players))} are their own secrets: distance to "
            "equilibrium, exploitability and gradient matching, which need all types, are not "
            "known here."
        )
    if any(SEED_KNOWN in note for note in run.result.notes):
        return
    if own < len(players):
        who = _some(len(players) - own, len(players))
        yield f"The types of {who} come from the public seed: whoever knows it knows them."
    seeded = sum(not player.own_noise for player in players)
    if seeded:
        who = _some(seeded, len(players))
        yield f"The noise of {who} comes from the public seed, so this run is {FROM_SEED}."


def _some(count: int, all_of: int) -> str:
    return "all players" if count == all_of else f"{count:,} of {all_of:,} players"


def _key_numbers(run: GameRun) -> list[tuple[str, str, str]]:
    audit, outcome = run.audit, run.audit.outcome
    attack = outcome.attack if outcome else None
    players = last_row(audit.individual_leakage)
    action = run.config.get("pml-filter.action", "unknown")
    return [
        ("Leakage", format_bound(last(audit.leakage)), "nats, exact, about all types"),
        (
            "Budget R",
            "none" if run.budget is None else format_floor(run.budget),
            f"nats, filter: {action}",
        ),
        ("Ceiling", format_bound(float(audit.ceiling.value)), "nats, whatever is sent"),
        ("Largest individual leakage", format_bound(max(players)), "nats, about one player"),
        ("Bayes adversary", _last(audit.bayes_log_gain), "log gain"),
        ("Gradient matching", _last(log_gain(attack)) if attack else "", "log gain"),
        (
            "Distance to equilibrium",
            _last(outcome.error) if outcome and outcome.error is not None else "",
            "last strategies",
        ),
        ("Exploitability", _last(outcome.exploitability) if outcome else "", "last strategies"),
        ("Largest DP ε", format_bound(run.worst_epsilon), "of a player's messages"),
        ("Messages", f"{run.sent:,}", f"of {run.planned * run.num_players:,} planned"),
        ("Wall time", f"{sum(r.seconds for r in run.result.iterations):,.0f} s", "all iterations"),
    ]


def _last(values: FloatArray) -> str:
    return format_number(float(values[-1]), 3) if len(values) else ""
