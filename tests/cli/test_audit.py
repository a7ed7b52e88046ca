"""`fedgame audit RUN`: the ledger of a finished run, asked again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from fedgame.accountants import ACCOUNTANTS
from fedgame.cli.app import app
from fedgame.errors import AccountingError, ConfigError, LedgerError
from fedgame.ledger.purchases import Purchase
from fedgame.ledger.replay import LEDGER_FILE
from fedgame.ledger.store import Ledger
from tests.support import Run

GENERAL = sorted(set(ACCOUNTANTS) - {"contraction", "flow"})
"""The accountants that can be asked about any run."""


def audit(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["audit", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(result.stdout)
    return content


@pytest.fixture
def folder(run: Run) -> Path:
    return run().folder


@pytest.mark.parametrize("name", ["pld", "rdp", "order2"])
def test_an_audit_repeats_what_the_run_reported(run: Run, name: str) -> None:
    finished = run()
    clients = audit(str(finished.folder), "--accountant", name)["clients"]
    reported = {client["id"]: client["epsilon"][name] for client in finished.summary["clients"]}
    assert {client["id"]: client["epsilon"] for client in clients} == reported
    assert all(client["releases"] > 0 for client in clients)


def test_every_accountant_can_be_asked(folder: Path) -> None:
    for name in GENERAL:
        result = audit(str(folder), "--accountant", name)
        assert result["accountant"] == name
        assert all(0 <= client["delta_at_epsilon_1"] <= 1 for client in result["clients"])


def test_the_claim_is_marked_and_has_no_epsilon(folder: Path) -> None:
    result = audit(str(folder), "--accountant", "lsi")
    assert result["sound"] is False
    assert {client["epsilon"] for client in result["clients"]} == {None}


def test_a_smaller_delta_costs_more(folder: Path) -> None:
    loose, tight = (audit(str(folder), "--delta", delta) for delta in ("1e-3", "1e-9"))
    assert loose["delta"] == 1e-3
    assert loose["clients"][0]["epsilon"] < tight["clients"][0]["epsilon"]


def test_a_person_gets_a_table(folder: Path) -> None:
    result = CliRunner().invoke(app, ["audit", str(folder)], env={"COLUMNS": "120"})
    assert "pld (sound accountant)" in result.stdout
    assert "delta at epsilon 1" in result.stdout


@pytest.mark.parametrize(
    "arguments", [["{run}"], ["ledger", "{run}"], ["--delta", "1e-5", "{run}"]]
)
def test_the_verb_ledger_may_go_unnamed(folder: Path, arguments: list[str]) -> None:
    filled = [argument.format(run=folder) for argument in arguments]
    assert audit(*filled)["accountant"] == "pld"


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no run folder"):
        audit(str(tmp_path))


def test_an_unknown_accountant_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"moments.*contraction, flow, lsi, order2, pld, rdp"):
        audit(str(folder), "--accountant", "moments")


def test_an_impossible_delta_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="--delta"):
        audit(str(folder), "--delta", "1")


def test_a_run_that_buys_nothing_shows_no_deals(folder: Path) -> None:
    assert all("bought" not in client for client in audit(str(folder))["clients"])
    result = CliRunner().invoke(app, ["audit", str(folder)], env={"COLUMNS": "120"})
    assert "bought" not in result.stdout


@pytest.fixture
def bought(folder: Path) -> Path:
    """A run that bought from its client 0, and from a client 9 that was never drawn."""
    with Ledger(folder / LEDGER_FILE) as ledger:
        ledger.append_purchases(
            [
                Purchase(0, 7.123456, 1e-5, 2.25, 4, 1.5, 0.3),
                Purchase(9, 0.5, 1e-5, 0.125, 0, 0.0, 0.25),
            ]
        )
    return folder


@pytest.mark.parametrize("name", GENERAL)
def test_what_was_bought_stands_beside_what_was_spent(bought: Path, name: str) -> None:
    result = audit(str(bought), "--accountant", name)
    clients = {client["id"]: client for client in result["clients"]}
    assert (clients[0]["bought"], clients[0]["payment"]) == (7.123456, 2.25)
    assert clients[0]["releases"] > 0
    # this client kept its payment and spent nothing
    assert (clients[9]["bought"], clients[9]["payment"]) == (0.5, 0.125)
    assert clients[9]["releases"] == 0
    assert clients[9]["epsilon"] == (0 if result["sound"] else None)
    assert clients[9]["delta_at_epsilon_1"] == 0
    # and this one sold nothing
    assert (clients[1]["bought"], clients[1]["payment"]) == (None, None)
    assert "bought: epsilon at delta 1e-05" in result["note"]


def test_a_person_sees_the_budgets_bought_rounded_as_what_was_spent(bought: Path) -> None:
    result = CliRunner().invoke(app, ["audit", "ledger", str(bought)], env={"COLUMNS": "120"})
    lines = result.stdout.splitlines()
    assert any("bought" in line and "epsilon at delta" in line for line in lines)
    assert any("7.124" in line for line in lines)


def test_a_game_is_audited_under_the_relation_of_its_releases(run: Run) -> None:
    flat = {"strategy": "aggregative", "pml-filter.action": "measure", "aggregative.noise": "3"}
    finished = run(flat)
    result = audit(str(finished.folder))
    assert result["neighbours"] == "client-replace"
    assert result["note"].startswith("each player's own messages, if its cost function is replaced")
    assert [client["releases"] for client in result["clients"]] == [5] * 5
    for client, player in zip(result["clients"], finished.summary["players"], strict=True):
        # at a positive delta less than the sum of the epsilons of pure DP, but for PLD's grid
        assert 0 < client["epsilon"] <= 1.005 * player["epsilon"]


def test_the_papers_claim_is_refused_for_a_game(run: Run) -> None:
    folder = run({"strategy": "aggregative", "pml-filter.action": "measure"}).folder
    result = CliRunner().invoke(app, ["audit", str(folder), "--accountant", "lsi"])
    assert isinstance(result.exception, AccountingError)
    assert "entropic" in str(result.exception)


LOCAL: dict[str, Any] = {
    "cell": "mfep",
    "rounds": 3,
    "training.neighbours": "client",
    "training.local-steps": 8,
    "jko.tau": 0.1,
    "jko.strength": 3.0,
    "jko.sinkhorn": False,
}


def test_local_runs_of_which_the_last_state_is_sent_cost_less_by_contraction(run: Run) -> None:
    """mu of R runs of K steps with c = 1 - tau s, written out."""
    folder = str(run(LOCAL).folder)
    found = audit(folder, "--accountant", "contraction", "--delta", "1e-5")
    all_steps = audit(folder, "--accountant", "pld", "--delta", "1e-5")
    z, c = np.sqrt(2 * 3.0 / 0.1), 1 - 0.1 * 3.0
    mu = np.sqrt(3 * (1 - c**8) / (1 + c**8) * (1 + c) / (1 - c)) / z
    for client, other in zip(found["clients"], all_steps["clients"], strict=True):
        expected = norm.cdf(mu / 2 - 1 / mu) - np.e * norm.cdf(-mu / 2 - 1 / mu)
        assert client["delta_at_epsilon_1"] == pytest.approx(expected, rel=1e-6)
        assert client["epsilon"] < other["epsilon"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"jko.sinkhorn": True}, "contraction: .*Sinkhorn"),
        ({"training.neighbours": "client-replace"}, "client-replace"),
        ({"training.neighbours": "example"}, "contraction: "),
        ({"cell": "dp-sgd"}, r"exists for the entropic mechanism \(jko\) only"),
    ],
)
def test_contraction_refuses_with_the_reason(run: Run, change: dict[str, Any], reason: str) -> None:
    folder = str(run({**LOCAL, **change}).folder)
    result = CliRunner().invoke(app, ["audit", folder, "--accountant", "contraction"])
    assert isinstance(result.exception, AccountingError)
    assert re.search(reason, str(result.exception))
