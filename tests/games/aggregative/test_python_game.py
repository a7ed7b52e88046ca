"""A game of one's own: found, made, and what a user reads where it is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from fedgame.games.aggregative.python_game import PythonGame
from fedgame.games.aggregative.quadratic import QuadraticGame

SOURCE = """
import numpy as np
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Box

class Halves:
    num_players = 3
    num_types = 2

def drawn(num_players, rng):
    return QuadraticGame.of(rng.normal(size=(num_players, 2, 1)), curvature=1.0)

def two(num_players, rng):
    return QuadraticGame.of(np.ones((2, 2, 1)))

def halves(num_players, rng):
    return Halves()

def nothing(num_players, rng):
    pass

class Costs:
    def __init__(self, rows, wrong):
        self.rows, self.wrong = rows, wrong

    def value(self, x, aggregate):
        return (x * aggregate).sum(axis=-1)

    def own_gradient(self, x, aggregate):
        return np.zeros(self.rows) if self.wrong == "shape" else x + np.inf

    def aggregate_gradient(self, x, aggregate):
        return x

class Whole:
    dimension, num_types, feasible = 1, 2, Box()

    def __init__(self, num_players, wrong):
        self.num_players, self.wrong = num_players, wrong

    def costs(self, players, types):
        return Costs(len(players), self.wrong)

def flat(num_players, rng):
    return Whole(num_players, "shape")

def infinite(num_players, rng):
    return Whole(num_players, "inf")

def broken(num_players, rng):
    return rng.no_such_method()
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "games_of_my_own.py").write_text(SOURCE)
    (tmp_path / "games_that_need_more.py").write_text("import a_module_that_is_not_there\n")
    (tmp_path / "games_with_a_slip.py").write_text("def game(:\n")
    monkeypatch.syspath_prepend(tmp_path)


def built(function: str, seed: int = 0) -> QuadraticGame:
    game = PythonGame(function=function).build(3, np.random.default_rng(seed))
    assert isinstance(game, QuadraticGame)
    return game


def test_it_is_made_from_the_number_of_players_and_the_public_generator() -> None:
    first, again, other = (built("games_of_my_own:drawn", seed) for seed in (1, 1, 2))
    assert (first.num_players, first.num_types, first.dimension) == (3, 2, 1)
    assert np.array_equal(first.table.linear, again.table.linear)
    assert not np.array_equal(first.table.linear, other.table.linear)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("", '^function = "": must name a function, such as "my_module:my_game"$'),
        (
            "no_such_module:game",
            "^function = 'no_such_module:game': cannot be imported .*No module",
        ),
        ("games_of_my_own:chess", "'games_of_my_own:chess': cannot be imported .*'chess'"),
        ("games_that_need_more:game", "cannot be imported .*a_module_that_is_not_there"),
        ("games_of_my_own:np", "^function = 'games_of_my_own:np': is no function$"),
        ("games_with_a_slip:game", r"cannot be imported \(SyntaxError"),
        ("games_of_my_own:broken", "'games_of_my_own:broken': raised AttributeError: .*no_such"),
        (
            "games_of_my_own:flat",
            r"costs do not work at .* \(own_gradient has shape \(6,\), must be \(6, 1\)\)$",
        ),
        ("games_of_my_own:infinite", r"costs do not work .*own_gradient is not finite\)$"),
        ("games_of_my_own:two", "made a game of 2 players, 3 are wanted$"),
        ("games_of_my_own:halves", "what it returns has no dimension, feasible, costs$"),
        ("games_of_my_own:nothing", "returns has no num_players, dimension, num_types, feasible"),
    ],
)
def test_what_is_no_game_is_refused_in_one_line(function: str, error: str) -> None:
    with pytest.raises(ValueError, match=error) as found:
        built(function)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    "function", ["game", "module:", ":game", "a b:c", "a:b:c", "a:b.c", "a;b:c"]
)
def test_what_names_no_function_is_refused(function: str) -> None:
    with pytest.raises(ValidationError, match=r"must be .package.module:name."):
        PythonGame(function=function)
