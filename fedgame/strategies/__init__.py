"""Strategies: the server half and the client half of each system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgame.registry import Registry

if TYPE_CHECKING:
    from fedgame.strategies.client_half import ClientHalf
    from fedgame.strategies.server_half import ServerHalf

SERVERS: Registry[ServerHalf] = Registry(
    "strategy",
    {
        "mfpg": "fedgame.strategies.mfpg:MfpgServer",
        "jsam": "fedgame.strategies.jsam:JsamServer",
        "aggregative": "fedgame.strategies.aggregative:AggregativeServer",
    },
)

CLIENTS: Registry[ClientHalf] = Registry(
    "strategy",
    {
        "mfpg": "fedgame.strategies.mfpg_client:MfpgClient",
        "jsam": "fedgame.strategies.jsam_client:JsamClient",
        "aggregative": "fedgame.strategies.aggregative_client:AggregativeClient",
    },
)
