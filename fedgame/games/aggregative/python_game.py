"""A game of one's own: any Python object that can be imported where the players are."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar

import numpy as np
from pydantic import ConfigDict, Field
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

    function: str = Field(default="", pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$")

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
        return game
