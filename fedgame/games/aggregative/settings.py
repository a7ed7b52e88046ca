"""The section [aggregative]: which game is played, and how its equilibrium is looked for."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass

from fedgame.games.aggregative.base import AggregativeGame, check_feasible
from fedgame.games.aggregative.candidates import Numbers
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.graphs import parse_graph
from fedgame.games.aggregative.schedules import Schedules, parse_schedule
from fedgame.games.best_response import FloatArray


def _schedule_text(value: object) -> str:
    """Return a schedule as text, which a single number may stand for."""
    text = str(value)
    parse_schedule(text)
    return text


ScheduleText = Annotated[str, BeforeValidator(_schedule_text)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Aggregative:
    """The section [aggregative] (PML paper, sections 2 and 5).

    A schedule is "power:P1:P2:P3" for P1 + P2 k^P3, "inverse:Q1:Q2:Q3" for Q1/(Q2 + Q3 k),
    "geometric:C:Q" for C Q^k, one number for all iterations, or one number an iteration.

    Attributes:
        name: The game.
        rule: How players update their estimates of the mean: "ye" or "wang".
        gradient: "full" leads to the Nash equilibrium; "paper" leaves out that a player's own
            strategy moves the mean.
        graph: Who hears whom: "complete", "ring", or a matrix (rows parted by ";").
        noise: Schedule of the scales M_k of the Laplace noise, in the units of a strategy.
        step: Schedule of the step sizes lr_k.
        gamma: Schedule of the weights of the others' messages, for the rule "wang".
        initial: x_0, public: one number, n numbers or N n; empty = the feasible point nearest 0.
        missing: What happens when a player's message does not come: the others go on with its
            "last" message, or the run will "stop".
    """

    name: str = "cournot"
    rule: Literal["ye", "wang"] = "ye"
    gradient: Literal["full", "paper"] = "full"
    graph: str = "complete"
    noise: ScheduleText = "geometric:0.6:0.97"
    step: ScheduleText = "0.05"
    gamma: ScheduleText = "1"
    initial: Numbers = ()
    missing: Literal["last", "stop"] = "last"

    def dynamics(self, game: AggregativeGame, rounds: int) -> Dynamics:
        """Return the public part of a run of rounds + 1 iterations.

        Args:
            game: The game.
            rounds: T; message 0 is sent in addition.

        Raises:
            ValueError: Something does not fit the game.
        """
        return Dynamics(
            game=game,
            graph=parse_graph(self.graph, game.num_players),
            schedules=Schedules.of(rounds + 1, noise=self.noise, step=self.step, gamma=self.gamma),
            initial=self._initial(game),
            rule=self.rule,
            gradient=self.gradient,
        )

    def _initial(self, game: AggregativeGame) -> FloatArray:
        players, n = game.num_players, game.dimension
        if len(self.initial) not in {0, 1, n, players * n}:
            *first, last = sorted({1, n, players * n})
            raise ValueError(
                f"initial has {len(self.initial)} numbers: must have "
                f"{', '.join(map(str, first))} or {last} for {players} players in dimension {n}"
            )
        listed = self.initial or (0.0,)
        rows = np.reshape(listed, (-1, n)) if len(listed) > 1 else np.array(listed)
        start = np.array(np.broadcast_to(rows, (players, n)))
        if not self.initial:
            return game.feasible.project(start)
        try:
            return check_feasible(game, start)
        except ValueError as error:
            raise ValueError(f"initial: {error}") from None
