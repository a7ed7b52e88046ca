"""The report page of a run: one self-contained HTML file that makes no network request."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING

from fedgame.reports import figures, procurement_section
from fedgame.reports.client_table import client_table
from fedgame.reports.guarantees import (
    format_bound,
    format_number,
    guarantee_rows,
    verdict_summary,
)
from fedgame.reports.page import (
    FROM_SEED,
    Plot,
    header,
    key_numbers,
    limits,
    render_page,
    settings,
)
from fedgame.reports.summary import (
    Config,
    last_exploitability,
    model_sha256,
    population,
    rounds_run,
    worst_epsilon,
)
from fedgame.strategies.base import RunResult

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

RELATIONS = {
    "example": "one example of one client is added or removed",
    "client": "one client's whole contribution becomes zero",
    "client-replace": "one client's whole contribution is replaced by another",
}
ADVERSARY = "An honest-but-curious server and outsiders see every message."

FIGURES: tuple[tuple[str, Callable[[RunResult], Figure | None], str], ...] = (
    (
        "Accuracy and loss",
        figures.accuracy_and_loss,
        "The broadcast model on the public test set after each round; a curve that still climbs "
        "could gain from more rounds, at a larger privacy cost unless rounds are free.",
    ),
    (
        "Mean strength",
        figures.mean_strength,
        "The mean of the strengths that clients used in each round; a flat tail means that the "
        "population has settled.",
    ),
    (
        "Chosen strengths",
        figures.strength_distribution,
        "Each column is one round: the stronger a cell's colour, the larger the share of clients "
        "that used this strength, and the higher the cell, the more noise they added.",
    ),
    (
        "Privacy by preference",
        figures.epsilon_by_preference,
        "One circle and one diamond for each client; where clients that value privacy more (to the "
        "right) chose more noise, the diamonds fall to the right.",
    ),
    (
        "Exploitability",
        figures.exploitability,
        "The most that any client could gain by changing its own strength alone, measured on "
        "public data; at zero the strengths are an equilibrium.",
    ),
)


def render_report(result: RunResult, config: Config, versions: Mapping[str, str]) -> str:
    """Return the report page.

    Args:
        result: What the strategy handed back.
        config: The resolved configuration.
        versions: Version of each piece of software, by name.
    """
    body = "\n".join(
        (
            _header(result, config),
            limits(_limits(result, config)),
            _key_numbers(result, config),
            procurement_section.purchase_section(result.procurement) if result.procurement else "",
            _guarantees(result, config),
        )
    )
    own = FIGURES if result.procurement is None else procurement_section.FIGURES
    drawn = ((title, draw(result), caption) for title, draw, caption in own)
    return render_page(
        _title(result, config),
        body,
        [Plot(title, figure, caption) for title, figure, caption in drawn if figure is not None],
        after=_settings(result, config, versions),
        numbers="metrics.csv" if result.procurement is None else "the run folder",
    )


def _title(result: RunResult, config: Config) -> str:
    cell, task = config.get("cell", "federated run"), config.get("task.name")
    if result.procurement is not None:
        cell = result.procurement.mechanism
    clients = f"{population(result, config):,} clients"
    return f"{cell} on {task}, {clients}" if task is not None else f"{cell}, {clients}"


def headline(result: RunResult, config: Config) -> str:
    """Return, as plain sentences, what ran, how well, and what is guaranteed to whom."""
    sentences = [_outcome(result, config), _promise(result, config), ADVERSARY]
    if _limits(result, config):
        sentences.append("The limits below apply.")
    return " ".join(sentences)


def _outcome(result: RunResult, config: Config) -> str:
    done = rounds_run(result)
    planned = config.get("rounds", done)
    rounds = f"{done} of {planned} rounds"
    reason = f": {result.reason.rstrip('.')}" if result.reason else ""
    if result.status != "finished":
        return f"The run failed after {rounds}{reason}."
    stopped = f" It stopped early{reason}." if done != planned or reason else ""
    if not result.rounds:
        return f"No round ran.{stopped}"
    last = result.rounds[-1]
    score = f"a test loss of {format_number(last.loss)}"
    if last.accuracy is not None:
        score = f"{last.accuracy:.1%} test accuracy"
    clients = f"{population(result, config):,} clients"
    return f"After {rounds}, the model of {clients} reaches {score}.{stopped}"


def _promise(result: RunResult, config: Config) -> str:
    worst, delta = worst_epsilon(result), config.get("accountant.delta")
    neighbours = str(config.get("training.neighbours", ""))
    relation = f"when {RELATIONS[neighbours]}" if neighbours in RELATIONS else "(relation unknown)"
    if worst is None or not math.isfinite(worst):
        return f"No finite ε is guaranteed to every client {relation}."
    at_delta = f" at δ = {format_number(float(delta))}" if delta is not None else ""
    promise = f"ε ≤ {format_bound(worst)}{at_delta} {relation}"
    if result.unaccounted:
        names = ", ".join(result.unaccounted)
        uncovered = f"No guarantee covers all that was sent ({names})"
        return f"{uncovered}; the rest costs each client {promise}."
    return f"Every client is guaranteed {promise}."


def _header(result: RunResult, config: Config) -> str:
    mode = config.get("mode")
    kicker = "fedgame run report" + (f", {mode} mode" if mode is not None else "")
    failed = result.status != "finished"
    return header(kicker, _title(result, config), headline(result, config), failed=failed)


def _limits(result: RunResult, config: Config) -> list[str]:
    notes = list(result.notes)
    from_seed = any(
        key.rpartition(".")[2] == "noise-secret" and value == "from-seed"
        for key, value in config.items()
    )
    if from_seed and not any(FROM_SEED in note for note in notes):
        notes.insert(0, f"The noise comes from the public seed, so this run is {FROM_SEED}.")
    return notes


def _key_numbers(result: RunResult, config: Config) -> str:
    last = result.rounds[-1] if result.rounds else None
    neighbours = f"{config.get('training.neighbours', 'unknown')} neighbours"
    bought = result.procurement
    own = procurement_section.key_numbers(bought) if bought else _game_numbers(result, config)
    numbers = [
        ("Test accuracy", f"{last.accuracy:.1%}" if last and last.accuracy is not None else "", ""),
        ("Test loss", format_number(last.loss) if last else "", ""),
        ("Largest guaranteed ε", format_bound(worst_epsilon(result)), neighbours),
        *own,
        ("Rounds", f"{rounds_run(result):,}", f"of {config.get('rounds', 'unknown')} planned"),
        ("Wall time", f"{sum(record.seconds for record in result.rounds):,.0f} s", "all rounds"),
    ]
    return key_numbers(numbers)


def _game_numbers(result: RunResult, config: Config) -> list[tuple[str, str, str]]:
    last = result.rounds[-1] if result.rounds else None
    realised = [client.realised for client in result.clients]
    exploitability = last_exploitability(result)
    return [
        (
            "Largest realised ε",
            format_bound(max(realised)) if realised else "",
            f"{config.get('accountant.name', '')}, ex post".lstrip(", "),
        ),
        ("Mean strength s̄", format_number(last.mean_strength, 3) if last else "", "last round"),
        (
            "Exploitability",
            format_number(exploitability, 3) if exploitability is not None else "",
            "",
        ),
    ]


def _guarantees(result: RunResult, config: Config) -> str:
    if result.procurement is not None:
        return procurement_section.deals_section(result, config)
    rows = guarantee_rows(result, config)
    if not rows:
        return ""
    realised = "the realised ε is computed from what happened"
    if any(client.beta is not None for client in result.clients):
        realised += " and, where strengths were chosen along the way, is no guarantee"
    sentences = (f"The guaranteed ε was declared before the run; {realised}.",)
    text = " ".join(sentences + verdict_summary(rows, config))
    return (
        f"<section><h2>Guarantees, client by client</h2><p>{escape(text)}</p>"
        f"{client_table(rows, config)}</section>"
    )


def _settings(result: RunResult, config: Config, versions: Mapping[str, str]) -> str:
    size, sha256 = f"{result.parameters.size:,}", model_sha256(result.parameters)
    footer = f"<footer>Model of {size} parameters, SHA-256 {sha256}</footer>"
    return settings(config, versions) + footer
