"""Compute the numbers of docs/mfpg.md and write them to results/mfne/*.csv.

The equilibria are those of `fedgame solve mfne`, the coupled equations those of `fedgame solve
hjb-fpk`; seeds are fixed, and nothing is trained.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise, product
from pathlib import Path
from typing import Final

import numpy as np

from fedgame.cli.mfne_problem import KEYS, read_problem
from fedgame.cli.mfne_solution import solve
from fedgame.cli.options import Options
from fedgame.cli.solve_limit import solve as solve_limit
from fedgame.config import load, read_toml
from fedgame.games.privacy.hjb_fpk import HjbFpkSolution, solve_hjb_fpk
from fedgame.games.privacy.hjb_fpk_particles import measure_chaos
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk
from fedgame.reports.limit_result import limit_rows
from fedgame.reports.mfne_result import SolvedMeanField, played_strengths
from scripts.pml_results import write_tables

ROOT: Final = Path(__file__).resolve().parents[1]
PROBLEM: Final = ROOT / "experiments" / "games" / "mfne-mfpg.toml"

COUPLINGS: Final = ("own", "residual", "aggregate")
RELEASES: Final = ("local", "aggregate")
SIZES: Final = (10, 100, 1000)

PAPER: Final = HjbFpk(horizon=1.5, theta=0.75, s0=0.01, num_clients=8, points=1600, time_steps=400)
"""15 steps of 0.1 and 8 clients, as in the paper's logistic task, in one dimension, G = 0."""
GRIDS: Final = (75, 225, 675)
"""Cells; each third centre of a finer grid is a centre of the coarser one."""
POPULATIONS: Final = (100, 1000, 10_000, 100_000)
TYPES: Final = 256
"""Preferences of the mean field: a number that no number of players is a multiple of."""
LIMIT_KEYS: Final = ("sizes", "repeats", "method", "rounds")
SEED: Final = 42
MASS_ERROR: Final = 1e-12


def solved_game(coupling: str, release: str, clients: int) -> SolvedMeanField:
    """Return the equilibrium of the example game with another coupling, release and size."""
    flat = dict(read_toml(PROBLEM)) | {"mean-field.coupling": coupling, "num-clients": clients}
    options = Options(KEYS, {"release": release}, None)
    return solve(read_problem(load(flat), options))


def coupling_rows() -> Iterator[dict[str, object]]:
    """Yield one row for each coupling, release and number of clients."""
    for coupling, release, clients in product(COUPLINGS, RELEASES, SIZES):
        solved = solved_game(coupling, release, clients)
        found, price = solved.equilibrium, solved.price
        epsilons = [played.epsilon for played in played_strengths(solved)]
        yield {
            "coupling": coupling,
            "release": release,
            "clients": clients,
            "mean_strength": found.mean_strength,
            "optimal_mean_strength": price.optimum.mean_strength,
            "smallest_epsilon": min(epsilons),
            "largest_epsilon": max(epsilons),
            "price_of_anarchy": price.anarchy,
            "residual": found.residual,
            "exploitability": found.exploitability.largest,
            "unique": found.unique,
        }


def player_rows() -> Iterator[dict[str, object]]:
    """Yield one row for each number of players: how far they are from the mean field."""
    flat = dict(read_toml(PROBLEM)) | {"num-clients": TYPES}
    solved = solve_limit(load(flat), Options((*KEYS, *LIMIT_KEYS), {}, None))
    rates = {name: rate.exponent for name, rate in solved.rates.items()}
    for row in limit_rows(solved):
        yield {**asdict(row), "exponent": rates[row.population]}


def _shifted(points: int, time_steps: int) -> HjbFpkSolution:
    """Return a game whose population moves, so that its mean matters."""
    return solve_hjb_fpk(
        HjbFpk(loss="logistic", initial_mean=1.0, points=points, time_steps=time_steps)
    )


def _order(name: str) -> float:
    """Return the order in dx of a result at half time, from three grids; 2 by design."""
    grids = [_shifted(points, 50) for points in GRIDS]
    changes = [_change(name, coarse, fine) for coarse, fine in pairwise(grids)]
    return float(np.log(changes[0] / changes[1]) / np.log(GRIDS[1] / GRIDS[0]))


def _change(name: str, coarse: HjbFpkSolution, fine: HjbFpkSolution) -> float:
    off = getattr(coarse, name)[0, 25] - getattr(fine, name)[0, 25, 1::3]
    weight = coarse.mu[0, 25] if name != "mu" else 1.0
    return float((np.abs(off) * weight).sum() * (coarse.x[1] - coarse.x[0]))


def equation_rows() -> Iterator[dict[str, object]]:
    """Yield what the solver of the coupled equations shows about itself, one number a row."""
    solution = solve_hjb_fpk(PAPER)
    first = solution.s_star[0, 0]
    # what rounding leaves differs between machines; the bound does not
    kept = "yes" if solution.mass_error <= MASS_ERROR else "no"
    yield {"quantity": f"mass kept to {MASS_ERROR:g}", "value": kept}
    yield {"quantity": "smallest strength at t = 0, beta = 1", "value": first.min()}
    yield {"quantity": "largest strength at t = 0, beta = 1", "value": first.max()}
    for name, label in (("mu", "densities"), ("value", "values"), ("s_star", "strengths")):
        yield {"quantity": f"order in dx of the {label}", "value": _order(name)}
    rng = np.random.default_rng(SEED)
    shifted = _shifted(GRIDS[-1], 400)
    chaos = measure_chaos(shifted, POPULATIONS, rng, repeats=4)
    for size, distance in zip(chaos.sizes, chaos.distances, strict=True):
        yield {"quantity": f"Wasserstein distance of {size:,} clients", "value": distance}
    yield {"quantity": "exponent of the distance in N", "value": chaos.slope}


TABLES: Final[Mapping[str, Callable[[], Iterator[dict[str, object]]]]] = {
    "coupling": coupling_rows,
    "equations": equation_rows,
    "limit": player_rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables."""
    return write_tables(TABLES, ROOT / "results" / "mfne", arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
