"""Solve the privacy game by itself, by the paper's rule and by ours, over preferences (figure 4).

Setting: the paper's logistic experiment (`experiments/paper/logistic-mfpg.toml`). For each beta the
equilibrium of a population of equal clients, and once that of the spread population, go to
results/equilibrium.csv. Nothing is trained, and no data are read.

The paper's rule is eq. 6.1 with its claimed delta, at a loss of ln 2: that of a model which knows
nothing. It stands there with the clipping norm for the gradient norm G, and with the G that makes
eq. 4.3 give the delta that its Table 2 prints. Ours: the quadratic loss and the price of the sound
epsilon.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from fedgame import config
from fedgame.accountants.pld import PldAccountant
from fedgame.cli.mfne_problem import KEYS, Problem, read_problem
from fedgame.cli.mfne_solution import mean_field_game
from fedgame.cli.options import Options
from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.equilibrium import MeanFieldGame, mean_field_equilibrium
from fedgame.games.privacy.release import StrengthDisutility
from fedgame.games.privacy.utilities import surrogate_loss
from fedgame.ledger.events import SampledGaussian
from fedgame.reports.mfne_result import NEGLIGIBLE
from fedgame.strategies.bridge import Bridge
from scripts.paper_grid import SEED, Job, printed
from scripts.paper_implied import claim_of, gradient_norm
from scripts.pml_results import as_text
from scripts.results import ROOT, write_table

EQUILIBRIUM: Final = ROOT / "results" / "equilibrium.csv"
TASK: Final = "logistic"
BETAS: Final = tuple(float(f"{beta:.4g}") for beta in np.geomspace(0.05, 20, 53))
LOSS: Final = math.log(2)
CHANGES: Final[Mapping[str, Any]] = {
    "mean-field.loss": "quadratic",
    # trace of the Hessian at a model that knows nothing: E|x|^2 / 4
    "mean-field.curvature-cap": 0.25,
    "mean-field.privacy": "epsilon",
    "mean-field.selection": "public",
    "mean-field.coupling": "residual",
    # at this price the preferences of the paper's range fall on the strengths of its figure 4
    "mean-field.cost": 0.003,
}
"""What our rule changes in the paper's preset."""


@dataclass(frozen=True)
class Rule:
    """A way to weigh strengths, and what is claimed for them.

    Attributes:
        name: In the file.
        weigh: From preferences to the disutility of the population that has them.
        claimed: The paper's delta of each strength, shape (m,).
    """

    name: str
    weigh: Callable[[FloatArray], Callable[[float], FloatArray]]
    claimed: FloatArray


def _experiment(changes: Mapping[str, Any]) -> Any:
    return config.load({**config.read_toml(Job("paper", TASK, "mfpg", SEED).preset), **changes})


def _claims(grid: FloatArray, gradient_bound: float) -> FloatArray:
    claim, rounds = claim_of(TASK)
    claim = replace(claim, gradient_bound=gradient_bound)
    return np.array([claim.delta([_release(s, rounds)], 1.0) for s in grid.tolist()])


def _release(strength: float, steps: int) -> SampledGaussian:
    experiment = _experiment({})
    event = Bridge(experiment, np.ones(1, dtype=np.int64)).update_event(0, strength)
    return replace(event, steps=steps)


def paper_rule(problem: Problem, gradient_bound: float, name: str) -> Rule:
    """Return eq. 6.1, L/(s + c) + beta delta(s), with a G for its claimed delta."""
    claimed, offset = _claims(problem.grid, gradient_bound), problem.game.offset

    def weigh(betas: FloatArray) -> Callable[[float], FloatArray]:
        return StrengthDisutility(
            grid=problem.grid,
            betas=betas,
            loss=lambda effective: surrogate_loss(LOSS, effective, offset),
            privacy=lambda _: claimed,
            num_clients=problem.experiment.run.num_clients,
            coupling="own",
        )

    return Rule(name, weigh, claimed)


def sound_rule(problem: Problem) -> Rule:
    """Return the quadratic loss and the price of the sound epsilon."""

    def weigh(betas: FloatArray) -> Callable[[float], FloatArray]:
        return mean_field_game(replace(problem, betas=betas, shares=np.ones(len(betas)))).disutility

    return Rule("sound", weigh, _claims(problem.grid, 1.0))


def rules() -> list[Rule]:
    """Return the rules of the figure."""
    problem = read_problem(_experiment(CHANGES), Options(KEYS, {}, None))
    largest = float(problem.grid[-1])
    measured = gradient_norm(float(printed()[TASK, "mfpg"]["delta"]), largest, TASK)
    return [
        paper_rule(problem, 1.0, "paper"),
        paper_rule(problem, measured, "paper-small-g"),
        sound_rule(problem),
    ]


def equilibrium_rows() -> list[dict[str, object]]:
    """Return what is played: by each beta alone, and by each client of the spread population."""
    experiment = _experiment({})
    spread = experiment.population.betas(experiment.run.num_clients)
    grid = np.array(experiment.game.strength_grid)
    sound = [_sound(strength, experiment) for strength in grid.tolist()]
    rows: list[dict[str, object]] = []
    for rule in rules():
        for beta in BETAS:
            rows += _rows(rule, "equal", np.array([beta]), grid, sound)
        rows += _rows(rule, "spread", spread, grid, sound)
    return rows


def _sound(strength: float, experiment: Any) -> tuple[float, float]:
    release, accountant = _release(strength, experiment.run.rounds), PldAccountant()
    delta = experiment.accounting.delta
    return accountant.epsilon([release], delta), accountant.delta([release], 1.0)


def _rows(
    rule: Rule,
    population: str,
    betas: FloatArray,
    grid: FloatArray,
    sound: Sequence[tuple[float, float]],
) -> Iterator[dict[str, object]]:
    game = MeanFieldGame(grid, np.ones(len(betas)), rule.weigh(betas))
    found = mean_field_equilibrium(game)
    if not found.converged:
        raise RuntimeError(f"{rule.name}, beta {betas}: residual {found.residual}")
    for row, column in np.argwhere(found.strategies > NEGLIGIBLE).tolist():
        yield {
            "rule": rule.name,
            "population": population,
            "beta": float(betas[row]),
            "strength": float(grid[column]),
            "probability": float(found.strategies[row, column]),
            "claimed_delta": float(rule.claimed[column]),
            "sound_epsilon": sound[column][0],
            "sound_delta": sound[column][1],
            "mean_strength": found.mean_strength,
            "residual": found.residual,
            "exploitability": found.exploitability.largest,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=EQUILIBRIUM, help="the file to write")
    options = parser.parse_args(arguments)
    rows = [{key: as_text(value) for key, value in row.items()} for row in equilibrium_rows()]
    write_table(options.output, rows)
    sys.stdout.write(f"{options.output}: {len(rows)} rows\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
