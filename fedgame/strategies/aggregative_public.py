"""What is public about an aggregative game, which includes the types of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgame.accountants.pml_prior import Prior
from fedgame.errors import ConfigError
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.randomness import public_generator
from fedgame.strategies.settings import Experiment


@dataclass(frozen=True)
class PublicGame:
    """All that an observer knows before the first message."""

    dynamics: Dynamics
    prior: Prior


def public_game(experiment: Experiment) -> PublicGame:
    """Build the game of an experiment, its dynamics and the prior on types.

    Raises:
        ConfigError: They do not fit each other, by the section that is at fault.
    """
    run, settings, section = experiment.run, experiment.aggregative, experiment.cost_game
    if run.num_clients < 2:
        raise ConfigError("num-clients", run.num_clients, "must be at least 2 in a game")
    try:
        game = section.build(run.num_clients, public_generator(run.seed, "game"))
    except ValueError as error:
        raise ConfigError(section.name, "(the section)", str(error)) from error
    try:
        dynamics = settings.dynamics(game, run.rounds)
    except ValueError as error:
        raise ConfigError("aggregative", "(the section)", str(error)) from error
    try:
        prior = experiment.prior.build(game.num_players, game.num_types)
    except ValueError as error:
        raise ConfigError(experiment.prior.name, "(the section)", str(error)) from error
    return PublicGame(dynamics, prior)


def simulated_types(experiment: Experiment, prior: Prior) -> NDArray[np.int64]:
    """Return the types of all players of a simulation, one profile drawn from the prior, (N,).

    They come from the public seed: whoever knows it knows them.
    """
    return np.asarray(prior.draw(public_generator(experiment.run.seed, "types"), 1)[0])
