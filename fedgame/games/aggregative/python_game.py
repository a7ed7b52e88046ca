"""A game of one's own: any Python object that can be imported where the players are."""

from __future__ import annotations

import re
from importlib import import_module
from typing import ClassVar

import numpy as np
from pydantic import ConfigDict, field_validator
from pydantic.dataclasses import dataclass

from fedgame.games.aggregative.base import AggregativeGame

MEMBERS = ("num_players", "dimension", "num_types", "feasible", "costs")


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class PythonGame:
    """The section [python-game]: a game that a function of one's own makes.

    Attributes:
        function: "package.module:name" of a function of the number of players and a public NumPy
            generator that returns an `AggregativeGame`, such as a `QuadraticGame`.
    """

    name: ClassVar[str] = "python-game"

    function: str = ""

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, value: str) -> str:
        if value and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
            raise ValueError('must be "package.module:name"')
        return value

    def build(self, num_players: int, rng: np.random.Generator) -> AggregativeGame:
        """Return the game.

        Args:
            num_players: N, at least 2.
            rng: Public generator.

        Raises:
            ValueError: The function cannot be imported, or what it returns is no such game.
        """
        if not self.function:
            raise ValueError('function = "": must name a function, such as "my_module:my_game"')
        called = f"function = {self.function!r}"
        module, _, name = self.function.partition(":")
        try:
            function = getattr(import_module(module), name)
        except Exception as error:
            kind = type(error).__name__
            raise ValueError(f"{called}: cannot be imported ({kind}: {error})") from error
        if not callable(function):
            raise ValueError(f"{called}: is no function")
        try:
            game: AggregativeGame = function(num_players, rng)
        except Exception as error:
            raise ValueError(f"{called}: raised {type(error).__name__}: {error}") from error
        lacking = [member for member in MEMBERS if not hasattr(game, member)]
        if lacking:
            raise ValueError(f"{called}: what it returns has no {', '.join(lacking)}")
        if game.num_players != num_players:
            raise ValueError(
                f"{called}: made a game of {game.num_players} players, {num_players} are wanted"
            )
        try:
            _try_out(game)
        except Exception as error:
            text = f"{called}: its costs do not work at the feasible point nearest 0 ({error})"
            raise ValueError(text) from error
        return game


def _try_out(game: AggregativeGame) -> None:
    """Evaluate each candidate once.

    Raises:
        ValueError: A cost or a gradient has another shape than it should, or is not finite.
    """
    players = np.repeat(np.arange(game.num_players), game.num_types)
    types = np.tile(np.arange(game.num_types), game.num_players)
    costs, shape = game.costs(players, types), (len(players), game.dimension)
    x = game.feasible.project(np.zeros(shape))
    found = {
        "value": (costs.value(x, x), shape[:1]),
        "own_gradient": (costs.own_gradient(x, x), shape),
        "aggregate_gradient": (costs.aggregate_gradient(x, x), shape),
    }
    for name, (array, wanted) in found.items():
        if np.shape(array) != wanted:
            raise ValueError(f"{name} has shape {np.shape(array)}, must be {wanted}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite")
