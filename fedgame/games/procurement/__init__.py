"""Buying privacy: mechanisms that select clients, set their budgets and pay them (JSAM paper)."""

from __future__ import annotations

from fedgame.games.procurement.base import Mechanism
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.registry import Registry

PROCUREMENT: Registry[Mechanism | Bbm] = Registry(
    "procurement",
    {
        "jsam": "fedgame.games.procurement.jsam:Jsam",
        "usbm": "fedgame.games.procurement.uniform:Usbm",
        "fsbm": "fedgame.games.procurement.fixed_subset:Fsbm",
        "jsam-ci": "fedgame.games.procurement.complete_information:JsamCi",
        "bbm": "fedgame.games.procurement.biggest_loss:Bbm",
    },
)
