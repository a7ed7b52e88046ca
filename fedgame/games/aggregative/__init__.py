"""Aggregative games: equilibria by noisy messages, and what these say about types (PML paper)."""

from __future__ import annotations

from fedgame.games.aggregative.base import GameSection
from fedgame.registry import Registry

AGGREGATIVE: Registry[GameSection] = Registry(
    "aggregative",
    {
        "vaccination": "fedgame.games.aggregative.vaccination:Vaccination",
        "cournot": "fedgame.games.aggregative.cournot:Cournot",
        "energy": "fedgame.games.aggregative.energy:Energy",
    },
)
