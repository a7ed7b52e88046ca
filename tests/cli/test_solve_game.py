"""`fedgame solve game` as a user meets it: known equilibria, warnings, and every wrong input."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame import config
from fedgame.cli.app import main
from fedgame.strategies.aggregative_public import public_game, simulated_types

Call = Callable[..., tuple[int, str, str]]

COURNOT = """
num-clients = 3
seed = 7
aggregative.name = "cournot"
[cournot]
price = 10.0
slope = 3.0
cost = [1.0, 4.0]
curvature = [0.0, 0.0]
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.toml"
    path.write_text(COURNOT)
    return path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedgame", "solve", "game", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def solve(call: Call) -> Callable[..., dict[str, Any]]:
    def run(*arguments: object) -> dict[str, Any]:
        code, out, err = call(*arguments, "--json")
        assert (code, err) == (0, "")
        content: dict[str, Any] = json.loads(out)
        return content

    return run


@pytest.fixture
def refused(call: Call) -> Callable[..., str]:
    def run(*arguments: object) -> str:
        code, out, err = call(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err.removeprefix("error: ").strip()

    return run


def test_the_textbook_s_cournot_game(problem: Path, solve: Any) -> None:
    found = solve(problem, "--types", "0,0,0")
    # three firms, price 10 - (x1 + x2 + x3), cost 1: each supplies 9/4
    assert np.array(found["strategies"]) == pytest.approx(2.25)
    assert found["mean"] == pytest.approx([2.25])
    assert 0 <= found["gain"] < 1e-12
    assert found["unique"] is True
    # all eigenvalues but the mean's: the slope over N
    assert found["smallest_eigenvalue"] == pytest.approx(1.0)
    assert found["types_from_seed"] is False


def test_firms_of_two_costs(problem: Path, solve: Any) -> None:
    found = solve(problem, "--types", "0,1,1")
    # x_i = (10 + sum c)/4 - c_i
    assert np.ravel(found["strategies"]) == pytest.approx([19 / 4 - 1, 19 / 4 - 4, 19 / 4 - 4])
    assert found["types"] == [0, 1, 1]


def test_types_come_from_the_seed_by_default(problem: Path, solve: Any) -> None:
    found = solve(problem)
    flat = {"strategy": "aggregative", **config.read_toml(problem)}
    experiment = config.load(flat)
    assert found["types"] == simulated_types(experiment, public_game(experiment).prior).tolist()
    assert (found["types_from_seed"], found["seed"]) == (True, 7)
    assert (found["num_players"], found["dimension"], found["game"]) == (3, 1, "cournot")


def test_keys_are_overridden_as_in_a_run(problem: Path, solve: Any) -> None:
    found = solve(problem, "--types", "0,0,0,0", "-c", "num-clients=4", "-c", "cournot.slope=4.0")
    # price 10 - sum: each of four supplies 9/5
    assert np.array(found["strategies"]) == pytest.approx(9 / 5)


def test_a_person_gets_tables(problem: Path, call: Call) -> None:
    code, out, err = call(problem, "--types", "0,0,0")
    assert (code, err) == (0, "")
    assert "cournot game, 3 players" in out
    assert "2.25" in out
    assert "types as given" in out
    assert "types drawn from the seed 7" in call(problem)[1]


def test_many_players_are_cut(problem: Path, call: Call) -> None:
    out = call(problem, "-c", "num-clients=25")[1]
    assert "5 more; --json shows them" in " ".join(out.split())


VACCINATION = ["-c", "aggregative.name=vaccination", "-c", "vaccination.a=0.1,0.2"]


def test_a_game_that_is_not_monotone_warns_with_its_eigenvalue(problem: Path, call: Call) -> None:
    code, out, err = call(problem, *VACCINATION, "-c", "vaccination.b=1,1", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["unique"] is False
    assert found["smallest_eigenvalue"] == pytest.approx(-4 / 3)
    assert err == (
        "warning: the game is not monotone (smallest eigenvalue -1.33333): there may be other "
        "equilibria\n"
    )


def test_a_game_that_is_just_monotone_warns_of_other_equilibria(problem: Path, call: Call) -> None:
    # B = 0: costs do not curve at all
    code, _, err = call(problem, *VACCINATION, "-c", "vaccination.b=0,0", "--json")
    assert code == 0
    assert err.startswith("warning: the game is monotone, but not strongly (smallest eigenvalue ")


def test_the_papers_gradient_is_said_to_lead_elsewhere(problem: Path, call: Call) -> None:
    code, out, err = call(problem, "-c", "aggregative.gradient=paper", "--json")
    assert (code, json.loads(out)["unique"]) == (0, True)
    assert err == (
        'warning: aggregative.gradient = "paper": messages lead elsewhere than to the equilibrium '
        "that is printed\n"
    )


def test_a_game_without_equilibrium_is_one_line(problem: Path, refused: Any) -> None:
    text = refused(
        problem, *VACCINATION, "-c", "vaccination.b=1,1", "-c", "vaccination.feasible=none"
    )
    assert text.startswith(f"{problem}: no equilibrium: the cost of player 0 falls without end")
    assert "second derivative -0.66" in text


@pytest.mark.parametrize("types", ["0,0", "0,0,0,0", "0,0,2", "0,-1,0", "0,a,0", "", "0,0.5,0"])
def test_wrong_types_are_refused(problem: Path, refused: Any, types: str) -> None:
    allowed = "must be 3 whole numbers from 0 to 1, parted by commas"
    assert refused(problem, f"--types={types}") == f"--types = {types!r}: {allowed}"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("aggregative.name=chess", "aggregative.name = 'chess': allowed: cournot"),
        ("cournot.cost=1,2,3", "cournot.cost = '1.0, 2.0, 3.0': cost has 3 numbers"),
        ("cournot.slope=0", "cournot.slope = 0: "),
        ("cournot.prices=1", "cournot.prices = 1: unknown key; did you mean cournot.price?"),
        ("num-clients=1", "num-clients = 1: must be at least 2 in a game"),
        ("strategy=mfpg", "strategy = 'mfpg': must be 'aggregative' to solve a game"),
        ("num-clients", "--run-config = 'num-clients': must be of the form key=value"),
    ],
)
def test_wrong_keys_are_named(problem: Path, refused: Any, override: str, said: str) -> None:
    assert refused(problem, "-c", override).startswith(said)


def test_a_file_that_is_not_there(tmp_path: Path, refused: Any) -> None:
    assert "cannot be read" in refused(tmp_path / "none.toml")


def test_a_game_without_formulas_is_not_solved(
    problem: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(problem.parent)
    (problem.parent / "crowded_road.py").write_text(
        "from fedgame.games.aggregative.base import AggregativeGame\n"
        "from fedgame.games.aggregative.sets import Box\n"
        "class Road:\n"
        "    num_players, dimension, num_types, feasible = 3, 1, 2, Box()\n"
        "    def costs(self, players, types):\n"
        "        return self\n"
        "    def value(self, x, aggregate):\n"
        "        return (x * aggregate**3).sum(axis=-1)\n"
        "    def own_gradient(self, x, aggregate):\n"
        "        return aggregate**3\n"
        "    def aggregate_gradient(self, x, aggregate):\n"
        "        return 3 * x * aggregate**2\n"
        "def make(num_players, rng):\n"
        "    return Road()\n"
    )
    keys = ["-c", "aggregative.name=python-game", "-c", "python-game.function=crowded_road:make"]
    assert "Road: only quadratic games are solved exactly" in refused(problem, *keys)
