"""The report page of a game by messages: what it says, and to whom it holds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedgame.audits.transcript import audit_transcript
from fedgame.reports import sortable_table
from fedgame.reports.game_html_tables import MEANING, PAPER
from fedgame.reports.game_run import GameRun
from fedgame.reports.game_section import ADVERSARY, headline, render_game
from fedgame.reports.guarantees import format_bound
from fedgame.reports.page import FROM_SEED
from tests.html_page import Page
from tests.reports.game_runs import Built, build_game, change, without_messages

VERSIONS = {"fedgame": "0.1.0"}


def page(run: GameRun) -> Page:
    return Page(render_game(run, VERSIONS))


def within(built: Built, leaked: float = 1.23456) -> GameRun:
    """Return the run with another leakage, and with players that keep their secrets."""
    players = tuple(
        replace(player, own_type=True, own_noise=True) for player in built.run.result.players
    )
    leakage = np.linspace(0, leaked, 4)
    return change(
        built.run, audit={"leakage": leakage, "outcome": None}, players=players, types=None
    )


def test_the_headline_holds_the_leakage_against_budget_and_ceiling(built: Built) -> None:
    assert headline(change(within(built), notes=())) == (
        "4 players looked for an equilibrium by noisy messages (rule ye) and sent 4 of 6 "
        "iterations. It stopped early: the next message could leak more than the budget. What they "
        "sent leaks 1.235 nats about their types. That is within the budget R = 2 nats; nothing "
        "that is sent could leak more than 2.773 nats, the ceiling. R holds if the prior is right. "
        f"{ADVERSARY} The limits below apply."
    )


def test_the_adversary_is_said_not_to_be_a_player(built: Built) -> None:
    assert "everyone who sees the messages" in ADVERSARY
    assert "not a player, who also knows its own cost function" in ADVERSARY
    assert ADVERSARY in page(built.run).words


def test_a_leakage_above_the_budget_is_not_called_within(built: Built) -> None:
    assert "That is above the budget R = 2 nats" in headline(within(built, 2.000001))
    assert "That is within the budget R = 2 nats" in headline(within(built, 2.0))


def test_a_run_that_only_measures_claims_no_budget() -> None:
    text = headline(build_game(rounds=2, pml_filter__action="measure").run)
    assert "No budget was enforced" in text
    assert "R =" not in text
    assert "hold if the prior is right" in text


def test_a_finished_run_and_a_failed_one(built: Built) -> None:
    done = headline(build_game(rounds=2).run)
    assert done.startswith(
        "4 players looked for an equilibrium by noisy messages (rule ye) and sent 3 of 3 "
        "iterations. What they sent"
    )
    failed = without_messages(built.run)
    assert headline(failed).startswith("The run failed after 0 of 6 iterations: no nodes came.")
    words = page(failed).words
    assert "(failed)" in words
    assert "Player by player" not in words


def limits(run: GameRun) -> list[str]:
    return page(run).all("li")


def test_the_public_seed_is_confessed(built: Built) -> None:
    assert limits(built.run) == [
        "The types of all players come from the public seed: whoever knows it knows them.",
        f"The noise of all players comes from the public seed, so this run is {FROM_SEED}.",
        "One reply was lost.",
    ]


def test_the_public_seed_is_confessed_once(built: Built) -> None:
    note = "Noise is drawn from the seed: not private against anyone who knows the seed."
    assert limits(change(built.run, notes=(note,))) == [note]


def test_secrets_of_some_are_told_from_the_seed_of_others(built: Built) -> None:
    first, *others = built.run.result.players
    own = replace(first, own_type=True, own_noise=True)
    found = limits(
        change(built.run, audit={"outcome": None}, types=None, players=(own, *others), notes=())
    )
    assert [line[:62] for line in found] == [
        "The types of 1 of 4 players are their own secrets: distance to",
        "The types of 3 of 4 players come from the public seed: whoever",
        "The noise of 3 of 4 players comes from the public seed, so thi",
    ]


def test_secrets_of_all_leave_no_word_of_a_seed(built: Built) -> None:
    text = " ".join(limits(change(within(built), notes=())))
    assert text.startswith("The types of all players are their own secrets")
    assert "seed" not in text


def test_games_without_one_equilibrium_are_told(built: Built) -> None:
    apart = {"smallest_eigenvalue": -0.25}
    anti = change(built.run, audit=apart, outcome={"error": None}, notes=("It is not monotone.",))
    assert limits(anti)[-1] == "It is not monotone."
    assert not any("monotone" in line for line in limits(built.run))
    flat = change(built.run, audit={"smallest_eigenvalue": -1e-16}, outcome={"error": None})
    assert limits(flat)[-1].startswith("No distance to equilibrium is shown: there may be several")
    searched = limits(change(built.run, outcome={"exploitability_is_exact": False}))
    assert any("the largest gain that a search found" in line for line in searched)
    paper = build_game(rounds=1, aggregative__gradient="paper").run
    assert any("is not the Nash equilibrium" in line for line in limits(paper))


def key_numbers(found: Page) -> dict[str, str]:
    names, values = found.all("dt"), found.all("dd")
    return dict(zip(names[: len(values) // 2], values[::2], strict=False))


def test_the_key_numbers(built: Built) -> None:
    found = key_numbers(page(built.run))
    audit = built.run.audit
    assert found["Leakage"] == format_bound(float(audit.leakage[-1]))
    assert found["Budget R"] == "2"
    assert found["Ceiling"] == "2.773"
    assert found["Gradient matching"] == "0.154"
    assert audit.outcome is not None
    assert found["Types guessed right"] == f"{4 * audit.outcome.share_right:g} of 4"
    assert found["Largest DP ε"] == "4.25"
    assert found["Messages"] == "16"
    assert found["Wall time"] == "1 s"


def bounds(run: GameRun) -> list[tuple[str, ...]]:
    """Return name, value, worth, meaning and what it covers of each bound on the page."""
    found = page(run)
    cells, small = found.all("td"), found.all("small")
    count = len(small) // 2
    return [(*cells[3 * k : 3 * k + 3], *small[2 * k : 2 * k + 2]) for k in range(count)]


def test_every_bound_has_its_row_by_what_it_is_about(built: Built) -> None:
    rows, audit = bounds(built.run), built.run.audit
    together, alone = rows[:7], rows[7:]
    assert [row[0] for row in together] == [
        "Exact leakage",
        "Theorem 1",
        "composition",
        "Remark 5",
        "group DP",
        "Theorem 1, every transcript",
        "ceiling",
    ]
    assert [row[0] for row in alone] == ["Exact leakage", "DP of one player", "individual ceiling"]
    whole, every = format_bound(float(audit.leakage[-1])), "every transcript"
    assert together[0][1:3] == (whole, "exact")
    assert [row[2] for row in together[1:]] == [
        "rigorous",
        "rigorous",
        "no bound",
        "rigorous",
        "estimate",
        "rigorous",
    ]
    assert [row[4] for row in together] == ["this transcript"] * 5 + [every, every]
    single = {bound.name: bound.value for bound in audit.bounds}["DP of one player"]
    largest = [audit.individual_leakage[-1].max(), single[-1].max(), math.log(2)]
    assert [row[1] for row in alone] == [format_bound(float(value)) for value in largest]


def test_a_bound_says_what_it_is_and_where_from_only_where_that_differs(built: Built) -> None:
    meaning = {row[0]: row[3] for row in bounds(built.run)}
    assert set(meaning) == {"Exact leakage", *MEANING} - {
        "Corollary 1",
        "Corollary 2",
        "Lemma 5 (1)",
    } | {"Theorem 1, every transcript"}
    assert meaning["Theorem 1"] == MEANING["Theorem 1"]
    assert meaning["Theorem 1, every transcript"] == (
        f"{MEANING['Theorem 1']}; the largest found on 64 sampled transcripts"
    )
    assert "no bound" in meaning["Remark 5"]
    assert PAPER in page(built.run).words
    # every bound that an audit can hand over has a meaning
    true = audit_transcript(
        built.run.result.transcript, built.run.result.dynamics, built.run.result.prior, None
    )
    assert {bound.name.partition(",")[0] for bound in true.bounds} <= set(MEANING)


def players(run: GameRun) -> list[list[str]]:
    # after two tables of bounds with a header, the exact leakage and a ceiling each
    return page(run).rows[6 + len(run.audit.bounds) :]


def test_every_player_has_its_row(built: Built) -> None:
    head, *rows = players(built.run)
    assert head == [
        "Player",
        "Leakage",
        "Ceiling",
        "Bayes log gain",
        "Likeliest type",
        "DP ε",
        "Sent",
        "Released",
    ]
    leaked = built.run.audit.individual_leakage[-1]
    assert [row[0] for row in rows] == ["0", "1", "2", "3"]
    assert [row[1] for row in rows] == [format_bound(float(x)) for x in leaked]
    assert rows[1][5:] == ["2.25", "4", "5"]


def test_where_types_and_noise_come_from_is_a_column_only_if_they_differ(built: Built) -> None:
    first, *others = built.run.result.players
    own = replace(first, own_type=True)
    head, *rows = players(change(built.run, players=(own, *others)))
    assert head[-1] == "Type from"
    assert [row[-1] for row in rows] == ["its node", *["public seed"] * 3]


def test_of_many_players_the_table_shows_the_worst(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sortable_table, "MAX_ROWS", 2)
    _, *rows = players(built.run)
    leaked = built.run.audit.individual_leakage[-1]
    assert {int(row[0]) for row in rows} == set(np.argsort(-leaked)[:2].tolist())
    words = " ".join(page(built.run).words.split())
    assert "Shown are the 2 of 4 players with the largest leakage; players.csv has all." in words


def test_the_page_loads_nothing_and_escapes_what_it_shows(built: Built) -> None:
    evil = "</script><img src=http://evil.example/x>&"
    config: dict[str, Any] = {**built.run.config, "run-name": evil, "aggregative.name": evil}
    run = GameRun(replace(built.run.result, reason=evil, notes=(evil,)), built.run.audit, config)
    found = page(run)
    assert found.loads == []
    assert found.words.count(evil) >= 4
    assert [tag for tag, _ in found.attributes].count("h1") == 1


def test_only_settings_of_the_game_are_listed(built: Built) -> None:
    keys = set(page(built.run).all("dt"))
    assert {"seed", "aggregative.rule", "cournot.cost", "prior.name", "pml-filter.budget"} <= keys
    assert "product-prior.probabilities" in keys
    config = built.run.config
    assert {"mode", "cell", "jko.tau", "energy.price", "table-prior.probabilities"} <= set(config)
    sections = {"aggregative", "cournot", "prior", "product-prior", "pml-filter"}
    assert {key.partition(".")[0] for key in keys if "." in key} == sections
    assert not {"mode", "cell"} & keys
    assert "mode" not in " ".join(page(built.run).all("p"))


def test_a_game_of_ones_own_is_called_by_its_function(built: Built) -> None:
    own = {"aggregative.name": "python-game", "python-game.function": "my.module:traffic"}
    run = GameRun(built.run.result, built.run.audit, {**built.run.config, **own})
    assert page(run).all("h1") == ["traffic game, 4 players"]


def test_an_exploitability_without_end_is_infinite_and_explained(built: Built) -> None:
    run = change(built.run, outcome={"exploitability": np.array([1, 2, 1, math.inf])})
    assert key_numbers(page(run))["Exploitability"] == "∞"
    assert "falls without end in its own strategy" in limits(run)[-1]


def test_the_page_has_its_figures(built: Built) -> None:
    found = page(built.run)
    assert found.all("h3") == [
        "About all players' types together",
        "About one player's type, the largest of any player",
        "Leakage",
        "Individual leakage",
        "Distance to equilibrium",
        "Exploitability",
        "Noise",
    ]
    assert len(found.figures) == 5


def test_an_unknown_number_is_a_dash(built: Built) -> None:
    first, *others = built.run.result.players
    lost = replace(first, epsilon=math.nan)
    assert (
        key_numbers(page(change(built.run, players=(lost, *others))))["Largest DP ε"]
        == "\N{EN DASH}"
    )
