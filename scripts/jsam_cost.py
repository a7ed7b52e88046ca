"""What each JSAM mechanism costs and whom it selects, as eta grows: solved, nothing trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np

from fedgame import config
from fedgame.games.procurement.allocation import allocate
from fedgame.games.procurement.base import Allocation, Mechanism
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.settings import draw_sensitivities
from fedgame.randomness import public_generator
from fedgame.strategies.settings import Experiment
from scripts.jsam_grid import MECHANISMS

ETAS: Final = tuple(float(f"{eta:.6g}") for eta in np.geomspace(0.05, 2000, 40))


@dataclass(frozen=True)
class CostRow:
    """One mechanism on one set of terms.

    Attributes:
        mechanism: Name of the mechanism.
        eta: Weight of the bound on the training loss.
        expected_cost: B, the sum of v_k epsilon_k; of c_k epsilon_k under complete information.
        participants: Number of clients that are selected with positive probability.
        probability_max: The largest selection probability.
        bought_min: The smallest budget of a client that is selected.
        bought_max: The largest budget.
    """

    mechanism: str
    eta: float
    expected_cost: float
    participants: int
    probability_max: float
    bought_min: float
    bought_max: float


def cost_rows(experiment: Experiment, seed: int) -> list[dict[str, object]]:
    """Return the rows of cost.csv.

    BBM is not there: whom it selects depends on losses, so on data and a model.

    Args:
        experiment: Its number of clients, prior, Q and cap are used.
        seed: Of the clients' sensitivities.
    """
    prior = experiment.procurement.prior()
    rng = public_generator(seed, "sensitivities")
    reports = draw_sensitivities(prior, experiment.run.num_clients, rng)
    rows = []
    for name, buyer in _buyers(experiment).items():
        for eta in ETAS:
            terms = replace(experiment.procurement.terms, eta=eta)
            found = allocate(buyer, reports, prior, terms, payments=False)
            rows.append(asdict(_row(name, eta, found)))
    return rows


def _buyers(experiment: Experiment) -> dict[str, Mechanism]:
    built = {
        name: config.load({**experiment.flat, **changed}).buyer
        for name, changed in MECHANISMS.items()
    }
    return {name: buyer for name, buyer in built.items() if not isinstance(buyer, Bbm)}


def _row(name: str, eta: float, found: Allocation) -> CostRow:
    bought = found.budgets[found.probabilities > 0]
    return CostRow(
        mechanism=name,
        eta=eta,
        expected_cost=found.expected_cost,
        participants=found.threshold,
        probability_max=float(found.probabilities.max()),
        bought_min=float(bought.min()),
        bought_max=float(bought.max()),
    )
