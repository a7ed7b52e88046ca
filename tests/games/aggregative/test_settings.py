"""The section [aggregative]: the dynamics that it describes, and what a user reads of a bad one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.graphs import CompleteGraph, WeightedGraph
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Box, KnownSet, Simplex
from fedgame.games.aggregative.settings import Aggregative


def game(dimension: int = 2, feasible: KnownSet | None = None) -> QuadraticGame:
    return QuadraticGame.of(np.ones((3, 2, dimension)), curvature=1.0, feasible=feasible)


def dynamics(rounds: int = 2, /, **settings: Any) -> Dynamics:
    return Aggregative(**settings).dynamics(game(), rounds)


def test_every_setting_is_described() -> None:
    for field in fields(Aggregative):
        assert f"        {field.name}: " in str(Aggregative.__doc__)


def test_the_defaults_let_noise_fade() -> None:
    found = dynamics(3)
    assert isinstance(found.graph, CompleteGraph)
    assert (found.rule, found.gradient) == ("ye", "full")
    assert found.schedules.noise == pytest.approx([0.6, 0.582, 0.56454, 0.5476038])
    assert found.schedules.step.tolist() == [0.05, 0.05, 0.05]
    assert found.initial.tolist() == np.zeros((3, 2)).tolist()  # type: ignore[union-attr]


def test_t_rounds_are_t_plus_1_messages() -> None:
    assert len(dynamics(0).schedules) == 1
    assert len(dynamics(7).schedules) == 8


def test_what_is_set_is_used() -> None:
    found = dynamics(
        rule="wang", gradient="paper", graph="ring", noise=2, step=".5, .25", gamma="geometric:1:.5"
    )
    assert isinstance(found.graph, WeightedGraph)
    assert (found.rule, found.gradient) == ("wang", "paper")
    assert found.schedules.noise.tolist() == [2, 2, 2]
    assert found.schedules.step.tolist() == [0.5, 0.25]
    assert found.schedules.gamma.tolist() == [1, 0.5]


@pytest.mark.parametrize(
    ("listed", "rows"),
    [
        ("3", [[3, 3]] * 3),
        (3, [[3, 3]] * 3),
        ("1, 2", [[1, 2]] * 3),
        ("1, 2, 3, 4, 5, 6", [[1, 2], [3, 4], [5, 6]]),
    ],
)
def test_the_start_is_one_number_or_a_vector_or_one_for_each_player(
    listed: object, rows: list[list[float]]
) -> None:
    assert np.asarray(dynamics(initial=listed).initial).tolist() == rows


@pytest.mark.parametrize(
    ("feasible", "start"),
    [(Box(2.0, 3.0), [2, 2]), (Box(-1.0, 3.0), [0, 0]), (Simplex(), [0.5] * 2)],
)
def test_the_start_is_the_feasible_point_nearest_0_unless_said_otherwise(
    feasible: KnownSet, start: list[float]
) -> None:
    found = Aggregative().dynamics(game(feasible=feasible), 1)
    assert np.asarray(found.initial).tolist() == [start] * 3


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"graph": "star"}, '^graph = \'star\': must be "complete", "ring", or the rows of'),
        ({"graph": "0, 1; 1, 0"}, "must have 3 rows of 3 weights"),
        ({"graph": "0,1,0; .5,0,.4; 0,1,0"}, "^graph weights of player 1 sum to 0.9: must sum to"),
        ({"graph": "0,1,0; 1,0,0; 0,0,1"}, "^graph: player 2 hears nobody or is heard by nobody$"),
        ({"graph": "0,-1,2; 1,0,0; 0,1,0"}, r"^graph weight \(0, 1\) = -1\.0: must be finite"),
        ({"noise": 0}, "^noise = '0': is 0 at iteration 0: must be > 0, from 1e-30 to 1e\\+30$"),
        ({"noise": "power:1:-1:1"}, "^noise = 'power:1:-1:1': is 0 at iteration 1"),
        ({"step": "-.1"}, "^step = '-.1': is -0.1 at iteration 0"),
        ({"noise": "1, 2"}, "^noise = '1, 2': 2 numbers listed: 3 iterations need as many$"),
        ({"initial": "1, 2, 3"},
         "^initial has 3 numbers: must have 1, 2 or 6 for 3 players in dimension 2$"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_game_is_refused_in_one_line(
    settings: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error) as found:
        dynamics(**settings)
    assert "\n" not in str(found.value)


def test_a_start_outside_the_feasible_set_is_refused() -> None:
    with pytest.raises(ValueError, match=r"strategy of player 0 = \[9\.0, 9\.0\]: is 8 outside"):
        Aggregative(initial=(9.0,)).dynamics(game(feasible=Box()), 2)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"noise": "loud"}, 'must be "power:P1:P2:P3"'),
        ({"step": "inverse:1"}, 'must be "power:P1:P2:P3"'),
        ({"gamma": "nan"}, 'must be "power:P1:P2:P3"'),
        ({"noise": True}, 'must be "power:P1:P2:P3"'),
        ({"rule": "yes"}, "'ye' or 'wang'"),
        ({"gradient": "half"}, "'full' or 'paper'"),
        ({"missing": "wait"}, "'last' or 'stop'"),
        ({"initial": "zero"}, "must be numbers from -1e\\+12 to 1e\\+12 parted by commas"),
        ({"rounds": 3}, "rounds"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValidationError, match=error):
        Aggregative(**settings)
