"""A run of a game by messages, as reports and summaries see it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedgame.audits.transcript import TranscriptAudit
from fedgame.reports.summary import Config
from fedgame.strategies.game_result import GameResult


@dataclass(frozen=True, eq=False)
class GameRun:
    """Everything that the files of a run are made of.

    Attributes:
        result: What the strategy handed back.
        audit: What its transcript says.
        config: The resolved configuration.
    """

    result: GameResult
    audit: TranscriptAudit
    config: Config

    @property
    def name(self) -> str:
        """What the game is called: by its function, if it is one's own."""
        return game_name(self.config)

    @property
    def num_players(self) -> int:
        """N."""
        return self.result.dynamics.game.num_players

    @property
    def planned(self) -> int:
        """How many iterations were planned."""
        return len(self.result.dynamics.schedules)

    @property
    def sent(self) -> int:
        """How many messages were sent, of all players together."""
        return int(self.result.transcript.sent.sum())

    @property
    def budget(self) -> float | None:
        """R in nats, None where no budget was enforced."""
        return enforced_budget(self.config)

    @property
    def worst_epsilon(self) -> float:
        """The largest sum of pure-DP epsilons of any player's releases; NaN if one is unknown."""
        epsilons = [player.epsilon for player in self.result.players]
        if not epsilons:
            records = self.result.iterations
            return records[-1].worst_epsilon if records else 0.0
        return math.nan if any(map(math.isnan, epsilons)) else max(epsilons)


def game_name(config: Config) -> str:
    """Return what a game is called: by its function, if it is one's own."""
    name = str(config.get("aggregative.name", "unknown"))
    if name != "python-game":
        return name
    return str(config.get("python-game.function", name)).rpartition(":")[2]


def enforced_budget(config: Config) -> float | None:
    """Return R in nats, None where no budget is enforced."""
    value = config.get("pml-filter.budget")
    if value is None or config.get("pml-filter.action") == "measure":
        return None
    return float(value)
