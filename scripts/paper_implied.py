"""What the constants of the MFPG paper would have to be for its formulas to give its Table 2."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from fedgame import config
from fedgame.accountants.lsi import LsiAccountant
from fedgame.games.privacy.mean_field import MeanField
from fedgame.games.privacy.utilities import surrogate_loss
from fedgame.ledger.events import SampledGaussian
from fedgame.strategies.settings import Experiment
from scripts.paper_grid import SEED, Job

TARGET: Final = 1e-5
"""The paper's delta of the Gaussian cells."""
LARGEST_STRENGTH: Final = 2.0
"""The largest strength of the paper's grid, and the only one above its activation at G = C."""


def _experiment(task: str, cell: str) -> Experiment:
    return config.load(config.read_toml(Job("paper", task, cell, SEED).preset))


def claim_of(task: str) -> tuple[LsiAccountant, int]:
    """Return eq. 4.3 with a task's constants, and its number of rounds K."""
    experiment = _experiment(task, "mfpg")
    claim = config.accountant("lsi", experiment)
    if not isinstance(claim, LsiAccountant):
        raise TypeError(f"{type(claim).__name__}: the claim of an entropic run is eq. 4.3")
    return claim, experiment.run.rounds


def claimed_delta(claim: LsiAccountant, rounds: int, strength: float) -> float:
    """Return the delta of eq. 4.3 after some rounds of one step at a strength."""
    return claim.delta([SampledGaussian(1.0, 1.0, rounds, "client", "jko", strength)], 1.0)


def noise_multiplier(epsilon: float, steps: int) -> float:
    """Return the z at which order 2 gives an epsilon after some steps: steps/z^2 + ln(1/delta).

    Args:
        epsilon: Above ln(1/delta), which is added before anything is released.
        steps: Gaussian steps without sampling.
    """
    return math.sqrt(steps / (epsilon + math.log(TARGET)))


def gradient_norm(delta: float, strength: float, task: str) -> float:
    """Return the G at which the exponential of eq. 4.3 gives a delta after a task's rounds."""
    claim, rounds = claim_of(task)
    # without a gradient the exponential is in force: it gives the constant before it
    free = replace(claim, gradient_bound=0.0)
    decay = rounds * claim.tau / 2
    rate = strength / claim.prior_std**2 - claim.variance_penalty
    constant = claimed_delta(free, rounds, strength) * math.exp(rate * decay)
    return rate - math.log(constant / delta) / decay


def curvature(epsilon: float, task: str) -> float:
    """Return the kappa at which the closed form of MAPG-DP gives an epsilon, at beta = 1."""
    experiment = _experiment(task, "mapg-dp")
    noise_at_one = 2 * experiment.mechanism.step_size * experiment.training.clipping_norm
    return epsilon**3 * experiment.run.num_clients**2 / noise_at_one**2


def loss_of_indifference(task: str) -> float:
    """Return the loss L at which L/(s + c) + delta(s) is the same at the grid's last two strengths.

    Above it a client of beta = 1 takes the largest; c is our preset's.
    """
    game = _experiment(task, "mfpg").game
    if not isinstance(game, MeanField):
        raise TypeError(f"{type(game).__name__}: the preset plays the mean-field game")
    pair = np.array(game.strength_grid[-2:])
    claim, rounds = claim_of(task)
    low, high = (claimed_delta(claim, rounds, strength) for strength in pair.tolist())
    gain = surrogate_loss(1.0, pair, game.offset)
    return (high - low) / float(gain[0] - gain[1])
