"""The sections of the configuration that describe games."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any, cast

import numpy as np
import pytest
from pydantic import ValidationError

from fedgame.games.aggregative import AGGREGATIVE
from fedgame.games.aggregative.sets import Box, Everywhere, Simplex
from tests.games.aggregative.cases import named_game


@pytest.fixture(params=sorted(AGGREGATIVE))
def section(request: pytest.FixtureRequest) -> type[Any]:
    return cast("type[Any]", AGGREGATIVE.get(request.param))


drawn = pytest.mark.parametrize("name", sorted(set(AGGREGATIVE) - {"python-game"}))


def test_a_section_bears_its_registered_name_and_is_frozen(section: type[Any]) -> None:
    registered: type[Any] = AGGREGATIVE.get(section.name)
    assert registered is section
    built = section()
    for field in fields(section):
        with pytest.raises(FrozenInstanceError):
            setattr(built, field.name, getattr(built, field.name))


def test_every_setting_is_described_and_no_other_is_taken(section: type[Any]) -> None:
    for field in fields(section):
        assert f"    {field.name}: " in str(section.__doc__)
    with pytest.raises(ValidationError, match="no_such_setting"):
        section(no_such_setting=1)


@drawn
def test_the_seed_decides_what_is_drawn(name: str) -> None:
    games = [named_game(name, 4, seed=seed) for seed in (1, 1, 2)]
    first, again, other = (game.table.linear for game in games)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@drawn
def test_types_are_alike_for_all_players_or_drawn_for_each(name: str) -> None:
    for per_player in (False, True):
        game = named_game(name, 4, per_player=per_player, dimension=2, types=3)
        linear = game.table.linear
        assert linear.shape == (4, 3, 2)
        assert len(np.unique(linear, axis=0)) == (4 if per_player else 1)
        assert len(np.unique(linear[0], axis=0)) == 3


def test_draws_are_in_their_range() -> None:
    settings: dict[str, Any] = {"a_low": 2, "a_high": 3, "b_low": 5, "b_high": 6}
    game = named_game("vaccination", 500, dimension=2, per_player=True, **settings)
    for values, low, high in ((game.table.linear, 2, 3), (-game.table.coupling, 5, 6)):
        assert low <= values.min() < low + 0.01
        assert high - 0.01 < values.max() <= high


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        ("1, 2", [[[1, 1], [2, 2]]] * 2),
        ("1, 2, 3, 4", [[[1, 2], [3, 4]]] * 2),
        (tuple(range(8)), [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]),
    ],
)
def test_lists_go_by_type_or_by_player(a: object, expected: list[object]) -> None:
    game = named_game("vaccination", 2, dimension=2, a=a)
    assert game.table.linear.tolist() == expected


@pytest.mark.parametrize(
    ("b", "expected"),
    [
        ("1, 2", [[1, 0], [0, 1]]),
        ("1, 2, 3, 4, 5, 6, 7, 8", [[1, 2], [3, 4]]),
        (tuple(range(16)), [[0, 1], [2, 3]]),
    ],
)
def test_matrices_are_listed_row_by_row(b: object, expected: list[list[float]]) -> None:
    game = named_game("vaccination", 2, dimension=2, b=b)
    assert (-game.table.coupling[0, 0].T).tolist() == expected


def test_feasible_sets() -> None:
    kinds = {"none": Everywhere, "box": Box, "simplex": Simplex}
    for name, kind in kinds.items():
        assert isinstance(named_game("vaccination", 2, dimension=2, feasible=name).feasible, kind)
    assert named_game("cournot", 2, capacity=4).feasible == Box(0.0, 4.0)
    assert named_game("energy", 2, least=1, most=2).feasible == Box(1.0, 2.0)
    assert named_game("cournot", 2, feasible="none").feasible == Everywhere()
    assert named_game("energy", 2, feasible="none").feasible == Everywhere()


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        ("vaccination", {"a": "1, 2, 3"}, "a has 3 numbers: must have 2 or 6 for 3 players"),
        ("vaccination", {"b": "1", "dimension": 2}, "b has 1 numbers: must have 2, 8 or 24"),
        ("vaccination", {"a_low": 2}, "a_low = 2: must not be above a_high = 1"),
        ("vaccination", {"feasible": "simplex"}, "dimension = 1: the simplex needs at least 2"),
        ("cournot", {"curvature": "1, -1"}, "curvature = -1: must be at least 0"),
        ("cournot", {"cost_high": -1}, "cost_low = 0: must not be above cost_high = -1"),
        ("energy", {"weight": "-1, 1"}, "weight = -1: must be at least 0"),
        ("energy", {"least": 11}, "least = 11: must not be above most = 10"),
    ],
)
def test_what_describes_no_game_is_refused(name: str, settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        named_game(name, 3, **settings)


def test_one_player_is_no_game() -> None:
    with pytest.raises(ValueError, match="at least 2 players"):
        named_game("energy", 1)


@pytest.mark.parametrize("a", ["1, x", "1,,2", "nan", "inf", True, "1; 2", [[1]], None])
def test_lists_that_hold_something_else_are_refused(a: object) -> None:
    with pytest.raises(ValidationError, match=r"must be numbers from -1e\+12 to 1e\+12 parted"):
        named_game("vaccination", 2, a=a)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("vaccination", {"types": 0}),
        ("vaccination", {"dimension": 0}),
        ("vaccination", {"a_low": float("nan")}),
        ("cournot", {"slope": 0}),
        ("cournot", {"capacity": 0}),
        ("energy", {"slope": -1}),
        ("energy", {"feasible": "simplex"}),
    ],
)
def test_values_out_of_range_are_refused(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        named_game(name, 2, **settings)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("cournot", {"cost_low": -1e308}),
        ("cournot", {"slope": 1e13}),
        ("energy", {"price": 1e13}),
        ("vaccination", {"b_high": 1e300}),
    ],
)
def test_numbers_beyond_what_can_be_summed_are_refused(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="equal to"):
        named_game(name, 2, **settings)


def test_what_does_not_fit_into_memory_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^dimension = 1000: 3 players of 1000 types .* 3e\+09 num"
    ):
        named_game("cournot", 3, dimension=1000, types=1000)
