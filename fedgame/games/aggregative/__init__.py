"""Aggregative games: equilibria by noisy messages, and what these say about types (PML paper)."""

from __future__ import annotations

from fedgame.games.aggregative.base import GameSection
from fedgame.games.aggregative.priors import PriorSection
from fedgame.registry import Registry

AGGREGATIVE: Registry[GameSection] = Registry(
    "aggregative",
    {
        "cournot": "fedgame.games.aggregative.cournot:Cournot",
        "vaccination": "fedgame.games.aggregative.vaccination:Vaccination",
        "energy": "fedgame.games.aggregative.energy:Energy",
        "python-game": "fedgame.games.aggregative.python_game:PythonGame",
    },
)

PRIORS: Registry[PriorSection] = Registry(
    "prior",
    {
        "product-prior": "fedgame.games.aggregative.priors:ProductPrior",
        "correlated-prior": "fedgame.games.aggregative.priors:CorrelatedPrior",
        "mixture-prior": "fedgame.games.aggregative.priors:MixturePrior",
        "table-prior": "fedgame.games.aggregative.priors:TablePrior",
    },
)
