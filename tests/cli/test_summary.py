"""The tables at the end of a run."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fedgame.cli.summary import MAX_CLIENTS, print_summary, read_summary
from fedgame.errors import RunFailed
from fedgame.reports.game_summary import summarise_game
from tests.reports.game_runs import build_game, change, without_messages


def summary(clients: int) -> dict[str, Any]:
    client = {
        "beta": 0.5,
        "strength": 0.125,
        "noise_multiplier": 7.25,
        "guarantee": 1.75,
        "realised": 1.625,
        "claimed_delta": 0.0909,
    }
    return {
        "status": "finished",
        "cell": "mfpg",
        "task": "logistic",
        "delta": 1e-5,
        "accountant": "pld",
        "neighbours": "example",
        "rounds": 4,
        "planned_rounds": 4,
        "accuracy": 0.875,
        "loss": 0.375,
        "s_bar": 0.1875,
        "exploitability": 0.0625,
        "worst_epsilon": 1.96875,
        "notes": ["choices are not covered"],
        "clients": [{"id": k, **client} for k in range(clients)],
        "run_dir": "/runs/one",
    }


def shown(content: dict[str, Any]) -> str:
    stream = io.StringIO()
    print_summary(Console(file=stream, width=160), content)
    return stream.getvalue()


def test_a_summary_that_lists_few_of_many_clients_says_how_many_there_are() -> None:
    text = shown(summary(MAX_CLIENTS + 3) | {"population": 100_000})
    assert f"{100_000 - MAX_CLIENTS} more in clients.csv" in text


def test_everything_that_a_run_reached_is_shown() -> None:
    text = shown(summary(2))
    overview = ("0.875", "0.375", "0.1875", "1.969", "0.0625", "4 of 4", "1e-05")
    per_client = ("0.5", "0.125", "7.25", "1.75", "1.625", "0.0909")
    assert all(value in text for value in (*overview, *per_client))
    assert "note: choices are not covered" in text
    assert "run folder: /runs/one\n" in text
    assert "report: /runs/one/report.html\n" in text


def purchase(clients: int) -> dict[str, Any]:
    client = {
        "report": 0.3125,
        "virtual_cost": 0.625,
        "probability": 0.03125,
        "bought": 1.23456,
        "spent": 1.22222,
        "payment": 0.765625,
        "scheduled": 12345,
        "released": 12344,
    }
    content = summary(0)
    return {
        **content,
        "strategy": "jsam",
        "cell": None,
        "population": clients,
        "exploitability": None,
        "procurement": {
            "mechanism": "jsam",
            "total_payment": 5.1234567,
            "expected_cost": 4.7654321,
            "participants": 1,
            "draws": 12344,
        },
        "clients": [{"id": k, **client} for k in range(clients)],
    }


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of a table's body by the first of them."""
    cells = [
        [cell.strip() for cell in line.split("│")[1:-1]] if "│" in line else line.split()
        for line in text.splitlines()
    ]
    return {first: rest for first, *rest in (row for row in cells if row)}


def test_a_purchase_is_shown_in_its_own_terms() -> None:
    text = shown(purchase(2))
    assert "jsam on logistic" in text
    found = rows(text)
    assert found["participants"] == ["1 of 2"]
    assert found["total payment"] == ["5.123"]
    assert found["expected cost"] == ["4.765"]
    assert found["accuracy"] == ["0.875"]
    assert found["worst guarantee (epsilon at delta 1e-05)"] == ["1.969"]
    for absent in ("s-bar", "exploitability", "beta", "strength", "mfpg"):
        assert absent not in text


def test_a_seller_s_budget_is_rounded_down_and_what_it_spent_up() -> None:
    text = shown(purchase(2))
    expected = ["0.3125", "0.625", "0.03125", "1.234", "1.223", "0.7656", "12344"]
    assert rows(text)["1"] == expected
    assert "bought is rounded down, spent is rounded up" in text


def test_many_sellers_are_cut_and_fit_80_characters() -> None:
    stream = io.StringIO()
    print_summary(Console(file=stream, width=80), purchase(MAX_CLIENTS + 7))
    text = stream.getvalue()
    assert "7 more in purchases.csv" in " ".join(text.split())
    assert text.count("1.234") == MAX_CLIENTS
    assert "…" not in text


def test_small_numbers_of_many_clients_fit_80_characters() -> None:
    content = summary(MAX_CLIENTS + 1)
    for client in content["clients"]:
        client.update(
            strength=8.6812e-05, claimed_delta=1.234e-10, sound_delta_at_epsilon_1=9.9e-10
        )
    stream = io.StringIO()
    print_summary(Console(file=stream, width=80), content)
    assert "…" not in stream.getvalue()
    assert stream.getvalue().count("8.681e-05") == MAX_CLIENTS


def test_many_clients_are_cut_and_counted() -> None:
    text = shown(summary(MAX_CLIENTS + 7))
    assert "7 more in clients.csv" in text
    assert text.count("1.625") == MAX_CLIENTS


def test_a_failed_run_without_clients_is_shown() -> None:
    content = {**summary(0), "accuracy": None, "loss": None, "worst_epsilon": None, "rounds": 0}
    assert "0 of 4" in shown(content)


def test_a_summary_is_read_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"status": "finished"}))
    assert read_summary(tmp_path) == {"status": "finished", "run_dir": str(tmp_path)}


@pytest.mark.parametrize("content", [None, "{"])
def test_no_summary_is_a_failed_run(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "summary.json").write_text(content)
    with pytest.raises(RunFailed, match="no summary can be read"):
        read_summary(tmp_path)


def game(**keys: Any) -> dict[str, Any]:
    run = build_game(sent=4, **keys).run
    return {**summarise_game(run), "run_dir": "/runs/one"}


def test_a_game_is_shown_in_its_own_terms() -> None:
    content = game()
    text = shown(content)
    assert "cournot game, 4 players" in text
    found = rows(text)
    assert found["iterations"] == ["4 of 6"]
    assert found["messages"] == ["16"]
    assert found["budget R (stop)"] == ["2"]
    assert found["ceiling"] == ["2.773"]
    assert found["largest DP epsilon (ledger)"] == ["4.25"]
    assert found["gradient matching, log gain"] == ["0.1542"]
    assert found["Theorem 1"][1:] == ["rigorous", "this transcript"]
    assert found["Remark 5"][1:] == ["no bound", "this transcript"]
    assert found["Theorem 1, every transcript"][1:] == ["estimate", "every transcript"]
    # what is about one player stands apart from what is about all
    one_player = text.index("bounds about one player, largest of any")
    assert text.index("bounds about all players") < text.index("group DP") < one_player
    assert one_player < text.index("DP of one player")
    assert found["pseudo-gradient's smallest eigenvalue"]
    assert "exactly one equilibrium" in " ".join(text.split())
    assert found["1"][-2:] == ["2.25", "4"]
    assert "stopped early: the next message could leak more than the budget" in text
    assert "note: One reply was lost." in text
    assert "report: /runs/one/report.html\n" in text
    for absent in ("accuracy", "s-bar", "None"):
        assert absent not in text


def test_how_many_types_were_guessed_is_shown() -> None:
    content = game()
    content["attack"]["bayes"]["share_right"] = 0.75
    assert rows(shown(content))["types it guesses right"] == ["3 of 4"]


def test_an_exploitability_without_end_is_infinite() -> None:
    run = change(build_game().run, outcome={"exploitability": np.full(6, np.inf)})
    text = shown({**summarise_game(run), "run_dir": "/runs/one"})
    assert rows(text)["exploitability"] == ["infinite"]
    assert "note: The exploitability is infinite: some player's cost falls without end" in text


def test_a_game_s_leakage_is_rounded_up() -> None:
    content = game()
    content["exact_leakage"]["whole"] = 1.00001
    assert rows(shown(content))["leakage (exact)"] == ["1.001"]


def test_a_game_that_only_measures_has_no_budget() -> None:
    assert rows(shown(game(pml_filter__action="measure")))["budget R (measure)"] == ["none"]


def test_a_game_of_secret_types_shows_no_scores() -> None:
    run = change(build_game().run, audit={"outcome": None}, types=None)
    text = shown({**summarise_game(run), "run_dir": "/runs/one"})
    found = rows(text)
    for absent in ("exploitability", "distance to equilibrium", "types it guesses right"):
        assert absent not in found
    assert "gradient matching, log gain" not in found
    assert "None" not in text


def test_a_game_without_messages_is_shown() -> None:
    run = without_messages(build_game().run)
    found = rows(shown({**summarise_game(run), "run_dir": "/runs/one"}))
    assert found["iterations"] == ["0 of 6"]
    assert found["leakage (exact)"] == ["0"]


def test_many_players_fit_80_characters() -> None:
    stream = io.StringIO()
    run = build_game(players=MAX_CLIENTS + 7, rounds=1).run
    content = {**summarise_game(run), "run_dir": "/runs/one"}
    print_summary(Console(file=stream, width=80), content)
    text = stream.getvalue()
    assert "7 more; --json shows them" in " ".join(text.split())
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
