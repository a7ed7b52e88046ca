"""The report page of a game by messages: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from fedgame.accountants.pml_logs import FloatArray
from fedgame.audits.transcript import Outcome
from fedgame.reports import game_figures
from fedgame.reports.game_html_tables import bounds_section, players_section
from fedgame.reports.game_notes import run_notes
from fedgame.reports.game_run import GameRun
from fedgame.reports.game_summary import last, last_row, log_gain
from fedgame.reports.guarantees import format_bound, format_floor, format_number
from fedgame.reports.page import (
    Plot,
    header,
    key_numbers,
    limits,
    render_page,
    settings,
)
from fedgame.reports.summary import Config

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ADVERSARY = (
    "All of this covers everyone who sees the messages or a part of them, the server too, but not "
    "a player, who also knows its own cost function."
)

OTHER_SYSTEMS = frozenset({"cell", "deterministic", "evaluate-every", "mode"})
"""Keys of a run that mean nothing in a game by messages."""

FIGURES: tuple[tuple[str, Callable[[GameRun], Figure | None], str], ...] = (
    (
        "Leakage",
        game_figures.leakage,
        "What the messages so far say about all types together: exactly, by bounds that hold along "
        "this transcript, and as the log gain of two attacks. The thin line is the most that the "
        "messages of an iteration could have made of it, known before they were sent. Log gains "
        "are over the best guess without messages: of how many types the Bayes adversary expects "
        "to guess right, and of how alike the true parameters of the costs and those are that "
        "gradient matching guesses. Below 0 the first has become less sure, and the second does "
        "worse than that guess. Dashed bounds hold for every transcript; dotted ones are estimates "
        "or no bounds. A click on a name shows or hides its line. On a logarithmic axis nothing at "
        "or below 0 is shown.",
    ),
    (
        "Individual leakage",
        game_figures.individual_leakage,
        "What all messages together say about the type of each player (circles), the log gain of "
        "the best guess of it (diamonds; below 0 it is less sure than before the messages), and "
        "the most that there is to know (bars).",
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
        "0 the strategies are an equilibrium. Where it is infinite the line has a gap.",
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
    failed = run.result.status != "finished"
    parts = (
        header("fedgame run report", title(run), headline(run), failed=failed),
        limits(run_notes(run)),
        key_numbers(_key_numbers(run)),
        bounds_section(run),
        players_section(run),
    )
    drawn = ((name, draw(run), caption) for name, draw, caption in FIGURES)
    return render_page(
        title(run),
        "\n".join(parts),
        [Plot(name, figure, caption) for name, figure, caption in drawn if figure is not None],
        after=settings(_own_settings(run.config), versions),
        numbers="leakage.csv",
    )


def title(run: GameRun) -> str:
    """Return the page's title."""
    return f"{run.name} game, {run.num_players:,} players"


def headline(run: GameRun) -> str:
    """Return, as plain sentences, what ran, how far it came, and what leaked to whom."""
    sentences = [_course(run), *_leak(run), ADVERSARY]
    if run_notes(run):
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


def _own_settings(config: Config) -> Config:
    """Return the keys that matter in a game: those of the run and of the sections it uses."""
    sections = {"aggregative", "prior", "pml-filter"}
    sections |= {str(config.get(f"{name}.name")) for name in ("aggregative", "prior")}
    return {
        key: value
        for key, value in config.items()
        if (key.partition(".")[0] in sections if "." in key else key not in OTHER_SYSTEMS)
    }


def _key_numbers(run: GameRun) -> list[tuple[str, str, str]]:
    audit, outcome = run.audit, run.audit.outcome
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
        ("Largest individual leakage", format_bound(max(players)), "nats, about any one player"),
        ("Bayes adversary", _last(audit.bayes_log_gain), "log gain in types guessed right"),
        *(_scores(outcome) if outcome else ()),
        ("Largest DP ε", format_bound(run.worst_epsilon), "of a player's messages, by the ledger"),
        ("Messages", f"{run.sent:,}", f"of {run.planned * run.num_players:,} planned"),
        ("Wall time", f"{sum(r.seconds for r in run.result.iterations):,.0f} s", "all iterations"),
    ]


def _scores(outcome: Outcome) -> Iterable[tuple[str, str, str]]:
    """Yield the key numbers that need the types."""
    count = len(outcome.true_type_probability)
    yield (
        "Types guessed right",
        f"{round(count * outcome.share_right):,} of {count:,}",
        "by the Bayes adversary",
    )
    if outcome.attack is not None:
        gain = _last(log_gain(outcome.attack))
        yield "Gradient matching", gain, "log gain over a guess without messages"
    if outcome.error is not None:
        yield "Distance to equilibrium", _last(outcome.error), "last strategies"
    yield "Exploitability", _last(outcome.exploitability), "last strategies"


def _last(values: FloatArray) -> str:
    return format_number(float(values[-1]), 3) if len(values) else ""
