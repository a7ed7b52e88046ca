"""Games: who decides what, best responses, and certificates of equilibrium."""

from __future__ import annotations

from fedgame.games.base import Game
from fedgame.registry import Registry

GAMES: Registry[Game] = Registry(
    "game",
    {
        "none": "fedgame.games.privacy.none:NoGame",
        "mapg": "fedgame.games.privacy.mapg:Mapg",
        "mean-field": "fedgame.games.privacy.mean_field:MeanField",
    },
)
