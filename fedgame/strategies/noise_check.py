"""A last look at a plan before anything is released: does its noise make sense?"""

from __future__ import annotations

import numpy as np

from fedgame.errors import ConfigError
from fedgame.games.privacy.mapg import Mapg
from fedgame.games.privacy.mean_field import MeanField
from fedgame.mechanisms.jko import Jko
from fedgame.strategies.burn_in import burns_in
from fedgame.strategies.plan import Plan
from fedgame.strategies.settings import Experiment

NOISE_MULTIPLIERS = (1e-2, 1e6)
"""Noise multipliers that a run may use: an epsilon of thousands, or no signal, is a mistake."""


def check_noise_multipliers(plan: Plan) -> None:
    """Refuse noise so small or large that no accountant's number means anything.

    Raises:
        ConfigError: A client's noise multiplier is outside NOISE_MULTIPLIERS.
    """
    low, high = NOISE_MULTIPLIERS
    possible = plan.grid[[0, -1]] if len(plan.grid) else plan.strengths[None]
    for strength in possible:
        found = plan.noise_multipliers(np.broadcast_to(strength, plan.strengths.shape))
        wrong = ~((found >= low) & (found <= high))
        if wrong.any():
            client = int(np.argmax(wrong))
            raise ConfigError(
                _noise_key(plan.experiment),
                plan.experiment.flat[_noise_key(plan.experiment)],
                f"gives a client with {plan.counts[client]} examples the noise multiplier "
                f"{found[client]:.3g}, which must be between {low:g} and {high:g}",
            )


def _noise_key(experiment: Experiment) -> str:
    """Return the key that decides about noise in this experiment."""
    game, mechanism = experiment.game, experiment.mechanism
    if isinstance(game, MeanField):
        grid = "strength-grid" if game.strength_grid else "noise-multiplier-grid"
        return f"mean-field.{grid}"
    if isinstance(game, Mapg):
        return "mapg.epsilon-max"
    if burns_in(experiment):
        return "burn-in.steps"
    if isinstance(mechanism, Jko):
        return "jko.noise-multiplier" if mechanism.noise_multiplier > 0 else "jko.strength"
    given = mechanism.calibration == "noise-multiplier"
    return "gaussian.noise-multiplier" if given else "gaussian.target-epsilon"
