"""The summary of a game by messages, number by number."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fedgame.reports.game_notes import run_notes
from fedgame.reports.game_run import GameRun
from fedgame.reports.game_summary import audit_mapping, summarise_game
from tests.reports.game_runs import Built, build_game, change


def test_it_says_what_was_played_and_how_far(built: Built) -> None:
    summary = summarise_game(built.run)
    expected = {
        "status": "finished",
        "reason": "the next message could leak more than the budget",
        "strategy": "aggregative",
        "game": "cournot",
        "game_name": "cournot",
        "rule": "ye",
        "graph": "complete",
        "gradient": "full",
        "prior": "product-prior",
        "seed": 42,
        "population": 4,
        "rounds": 3,
        "planned_rounds": 5,
        "sent": 16,
        "budget": 2.0,
        "filter_action": "stop",
        "worst_epsilon": 4.25,
    }
    assert {key: summary[key] for key in expected} == expected


def test_its_notes_are_those_of_the_page(built: Built) -> None:
    run = change(built.run, outcome={"exploitability_is_exact": False})
    notes = summarise_game(run)["notes"]
    assert notes == run_notes(run)
    assert "One reply was lost." in notes
    assert notes[-1].startswith("The exploitability is the largest gain that a search found")


def test_a_game_of_ones_own_is_called_by_its_function(built: Built) -> None:
    own = {"aggregative.name": "python-game", "python-game.function": "my.module:traffic"}
    summary = summarise_game(
        GameRun(built.run.result, built.run.audit, {**built.run.config, **own})
    )
    assert (summary["game"], summary["game_name"]) == ("python-game", "traffic")


def test_it_says_what_leaked(built: Built) -> None:
    summary, audit = summarise_game(built.run), built.run.audit
    assert summary["exact_leakage"] == {
        "whole": audit.leakage[-1],
        "players": audit.individual_leakage[-1].tolist(),
        "by_iteration": audit.leakage.tolist(),
    }
    assert summary["ceiling"] == pytest.approx(4 * math.log(2))
    assert summary["individual_ceiling"] == [math.log(2)] * 4
    bounds = {row["name"]: row for row in summary["bounds"]}
    assert list(bounds) == [bound.name for bound in audit.bounds]
    theorem = audit.bounds[0].value
    assert bounds["Theorem 1"] == {
        "name": "Theorem 1",
        "about": "all players",
        "value": theorem[-1],
        "by_iteration": theorem.tolist(),
        "rigorous": True,
        "worth": "rigorous",
        "covers": "this transcript",
        "source": "what each type would have sent along this transcript",
    }
    sampled = bounds["Theorem 1, every transcript"]
    assert (sampled["rigorous"], sampled["covers"]) == (False, "every transcript")
    assert (sampled["worth"], bounds["Remark 5"]["worth"]) == ("estimate", "no bound")
    # a bound on single players: one value each, and the largest of them by iteration
    single = {bound.name: bound.value for bound in audit.bounds}["DP of one player"]
    assert bounds["DP of one player"]["about"] == "one player"
    assert bounds["DP of one player"]["value"] == single[-1].tolist()
    assert bounds["DP of one player"]["by_iteration"] == single.max(axis=1).tolist()


def test_it_says_what_attacks_found(built: Built) -> None:
    attack, audit = summarise_game(built.run)["attack"], built.run.audit
    matching = attack["gradient_matching"]
    assert matching["gain"]["by_iteration"] == [1.0, 1.25, 1.5, 1.75]
    assert (matching["gain"]["final"], matching["blind_gain"]) == (1.75, 1.5)
    assert matching["log_gain"]["final"] == pytest.approx(math.log(1.75 / 1.5))
    assert matching["log_gain"]["by_iteration"][0] == pytest.approx(math.log(1 / 1.5))
    # players' gains are 1.75 over 1 to 1.5, and a blind guess gains 1.25 of each
    assert matching["individual_log_gain"] == pytest.approx(
        [math.log(1.75 / d / 1.25) for d in np.linspace(1, 1.5, 4)]
    )
    assert attack["bayes"] == {
        "log_gain": {
            "final": audit.bayes_log_gain[-1],
            "by_iteration": audit.bayes_log_gain.tolist(),
        },
        "individual_log_gain": audit.individual_bayes_log_gain[-1].tolist(),
        "guesses": audit.guesses.tolist(),
        "share_right": np.mean(audit.guesses == built.run.result.types),
    }


def test_it_says_how_near_the_strategies_came(built: Built) -> None:
    summary, outcome = summarise_game(built.run), built.run.audit.outcome
    assert outcome is not None
    assert outcome.error is not None
    assert summary["error"] == {
        "final": outcome.error[-1],
        "by_iteration": outcome.error.tolist(),
    }
    assert summary["exploitability"] == {
        "final": outcome.exploitability[-1],
        "by_iteration": outcome.exploitability.tolist(),
        "infinite": False,
        "exact": True,
    }
    assert summary["smallest_eigenvalue"] > 0


def test_a_player_has_its_line(built: Built) -> None:
    summary = summarise_game(built.run)
    audit = built.run.audit
    assert summary["players"][1] == {
        "id": 1,
        "sent": 4,
        "released": 5,
        "epsilon": 2.25,
        "own_type": False,
        "own_noise": False,
        "individual_leakage": audit.individual_leakage[-1, 1],
        "individual_ceiling": math.log(2),
        "bayes_log_gain": audit.individual_bayes_log_gain[-1, 1],
        "guess": audit.guesses[1],
    }


def test_what_needs_the_types_is_none_without_them(built: Built) -> None:
    summary = summarise_game(change(built.run, audit={"outcome": None}, types=None))
    assert (summary["error"], summary["exploitability"]) == (None, None)
    assert summary["attack"]["gradient_matching"] is None
    assert summary["attack"]["bayes"]["share_right"] is None
    several = summarise_game(change(built.run, outcome={"error": None, "attack": None}))
    assert several["error"] is None
    assert several["attack"]["gradient_matching"] is None
    assert several["exploitability"] is not None


def test_an_attack_that_gains_nothing_has_no_logarithm(built: Built) -> None:
    outcome = built.run.audit.outcome
    assert outcome is not None
    assert outcome.attack is not None
    none = replace(outcome.attack, gain=np.array([0.0, 1.5, 1.5, 0.0]))
    found = summarise_game(change(built.run, outcome={"attack": none}))
    assert found["attack"]["gradient_matching"]["log_gain"] == {
        "final": None,
        "by_iteration": [None, 0, 0, None],
    }


def test_an_unknown_epsilon_is_not_a_small_one(built: Built) -> None:
    first, *others = built.run.result.players
    lost = replace(first, epsilon=math.nan)
    assert summarise_game(change(built.run, players=(lost, *others)))["worst_epsilon"] is None
    # before players are recorded, the last iteration knows
    assert summarise_game(change(built.run, players=()))["worst_epsilon"] == 0.75


def test_only_an_enforced_budget_is_one(built: Built) -> None:
    assert built.run.budget == 2.0
    measured = build_game(rounds=1, pml_filter__action="measure").run
    assert measured.budget is None
    summary = summarise_game(measured)
    assert (summary["filter_action"], summary["budget"]) == ("measure", None)
    assert GameRun(built.run.result, built.run.audit, {}).budget is None


def test_the_mapping_of_an_audit_survives_json(built: Built) -> None:
    mapping = audit_mapping(built.run.audit)
    assert json.loads(json.dumps(mapping, allow_nan=False)) == mapping
    summary = summarise_game(built.run)
    assert {key: summary[key] for key in mapping} == mapping
