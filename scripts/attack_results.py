"""Attack the JKO step and the particles of the flow: write results/attack/*.csv.

Everything is plain NumPy through the library, with fixed seeds; no Flower.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from fedgame.accountants.contraction import ContractionAccountant
from fedgame.accountants.flow import flow_constant, flow_mu
from fedgame.accountants.gdp import gdp_delta
from fedgame.accountants.lsi import lsi_delta
from fedgame.accountants.pld import PldAccountant
from fedgame.audits.attack_bounds import RateBounds, choose_threshold, rate_bounds
from fedgame.audits.flow_attack import FlowGame, attack_flow
from fedgame.audits.two_point import Seen, TwoPointGame
from fedgame.mechanisms.jko import Jko
from fedgame.randomness import public_generator
from scripts.pml_results import as_text
from scripts.results import write_table
from scripts.tables import ROOT

RESULTS: Final = ROOT / "results" / "attack"
SEED: Final = 42
RUNS: Final = 20_000
"""Runs of each world that are counted."""

STRENGTHS: Final = (0.1, 0.3, 0.5, 1.0, 2.0)
TAU, PENALTY, STEPS, DIMENSION, CLIENTS = 0.1, 0.01, 10, 5, 5
"""The MFPG paper's quadratic experiment."""
EPSILON, DELTA = 1.0, 1e-5

SETTINGS: Final[Mapping[str, tuple[Seen, int]]] = {
    "every state": ("every state", 1),
    "last state": ("last state", 1),
    "last mean of 5": ("last state", CLIENTS),
}
"""Name of what is seen: whether every state or the last one, and the mean of how many clients."""

ROUNDS: Final = 10
FLOWS: Final = ((1, 0.0), (10, 0.0), (10, 0.3), (30, 0.3))
"""Steps of the burn-in and G_x."""


def two_point_rows() -> list[dict[str, object]]:
    """Return one row a strength, a setting, and with or without projections."""
    return [
        _two_point_row(strength, setting, sinkhorn=sinkhorn)
        for sinkhorn, setting, strength in product((False, True), SETTINGS, STRENGTHS)
    ]


def _two_point_row(strength: float, setting: str, *, sinkhorn: bool) -> dict[str, object]:
    seen, clients = SETTINGS[setting]
    mechanism = Jko(tau=TAU, lambda_=PENALTY, sinkhorn=sinkhorn)
    game = TwoPointGame(
        mechanism, strength, STEPS, dimension=DIMENSION, seen=seen, num_clients=clients
    )
    rng = public_generator(SEED, f"two-point {setting} {strength:g} {sinkhorn}")

    def worlds(runs: int) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
        return [game.scores(game.play(runs, rng, present=there)) for there in (False, True)]

    def epsilon(rates: RateBounds) -> float:
        return rates.epsilon(DELTA)

    null, alternative = worlds(RUNS)
    # delta at epsilon is attained where the log-likelihood ratio is above epsilon
    delta_bound = rate_bounds(null, alternative, EPSILON).delta(EPSILON)
    # runs that are not counted choose the threshold of the other bound
    other_null, other_alternative = worlds(RUNS // 4)
    threshold = choose_threshold(other_null, other_alternative, epsilon)
    claimed = float(lsi_delta(strength, STEPS, dimension=DIMENSION, num_clients=CLIENTS))
    sound_delta, sound_epsilon = _sound(game, sinkhorn=sinkhorn)
    return {
        "strength": strength,
        "setting": setting,
        "sinkhorn": "on" if sinkhorn else "off",
        "repetitions": RUNS,
        "claimed_delta": claimed,
        "sound_delta": sound_delta,
        "attained_delta": float(gdp_delta(game.mu, EPSILON)),
        "attacked_delta": delta_bound,
        "verdict": "refuted" if delta_bound > claimed else "not refuted",
        "sound_epsilon": sound_epsilon,
        "attacked_epsilon": epsilon(rate_bounds(null, alternative, threshold)),
    }


def _sound(game: TwoPointGame, *, sinkhorn: bool) -> tuple[float, float]:
    """Return the sound delta at epsilon 1 and the sound epsilon at delta 1e-5.

    Projections are post-processing of every step, but between unseen steps they may expand, and
    before a sum they leave the others' noise no Gaussian; the own noise of every step then counts.
    """
    events = game.events()
    accountant: PldAccountant | ContractionAccountant = PldAccountant()
    if game.num_clients > 1 and not sinkhorn:
        factor = float(np.sqrt(game.num_clients))
        events = tuple(
            replace(event, noise_multiplier=event.noise_multiplier * factor) for event in events
        )
    elif game.seen == "last state" and not sinkhorn:
        accountant = ContractionAccountant(
            local_steps=STEPS,
            only_last_sent=True,
            public_start=True,
            projection="none",
            tau=TAU,
            variance_penalty=PENALTY,
        )
    return accountant.delta(events, EPSILON), accountant.epsilon(events, DELTA)


def flow_rows() -> list[dict[str, object]]:
    """Return one row a burn-in, a flow, and the first release or all of them."""
    return [
        _flow_row(steps, smoothness, flow, rounds)
        for (steps, smoothness), flow, rounds in product(FLOWS, ("linear", "bent"), (1, ROUNDS))
        # without a loss both are the same
        if smoothness or flow == "linear"
    ]


def _flow_row(steps: int, smoothness: float, flow: str, rounds: int) -> dict[str, object]:
    strength = 1.0
    constant = float(flow_constant(TAU, strength, smoothness))
    mu = float(flow_mu(2.0, steps, constant, strength, TAU))
    maps: Mapping[str, Callable[..., np.ndarray[tuple[int, ...], np.dtype[np.float64]]]] = {
        "linear": lambda x: constant * x,
        "bent": lambda x: (1 - TAU * strength) * x + TAU * smoothness * np.tanh(x),
    }
    starts = np.array([[-1.0], [1.0]])
    game = FlowGame(maps[flow], starts, float(np.sqrt(2 * strength * TAU)), steps, rounds)
    rng = public_generator(SEED, f"flow {flow} {steps} {smoothness:g} {rounds}")
    found = attack_flow(game, RUNS, rng)
    return {
        "flow": flow,
        "smoothness": smoothness,
        "burn_in": steps,
        "rounds_seen": rounds,
        "repetitions": RUNS,
        "sound_mu": mu,
        "attacked_mu": found.mu(),
        "sound_delta": float(gdp_delta(mu, EPSILON)),
        "attacked_delta": found.delta(EPSILON),
    }


TABLES: Final[Mapping[str, Callable[[], list[dict[str, object]]]]] = {
    "two_point": two_point_rows,
    "flow": flow_rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=TABLES, action="append", help="one table; repeatable")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the CSV files")
    options = parser.parse_args(arguments)
    for name in options.only or TABLES:
        rows = [{key: as_text(value) for key, value in row.items()} for row in TABLES[name]()]
        write_table(options.output / f"{name}.csv", rows)
        sys.stdout.write(f"{options.output / name}.csv: {len(rows)} rows\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
