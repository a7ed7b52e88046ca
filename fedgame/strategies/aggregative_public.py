"""What is public about an aggregative game, which includes the types of a simulation."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgame.accountants.pml_prior import Prior
from fedgame.errors import ConfigError
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.likelihood import Follower
from fedgame.randomness import public_generator
from fedgame.strategies.settings import Experiment


@dataclass(frozen=True)
class PublicGame:
    """All that an observer knows before the first message."""

    dynamics: Dynamics
    prior: Prior

    def follower(self, players: NDArray[np.int64] | None = None) -> Follower:
        """Return all possible types of some players, before iteration 0; by default of all."""
        return Follower(self.dynamics, players, self.prior.support)


def public_game(experiment: Experiment) -> PublicGame:
    """Build the game of an experiment, its dynamics and the prior on types.

    Raises:
        ConfigError: They do not fit each other, by the section that is at fault.
    """
    run, settings, section = experiment.run, experiment.aggregative, experiment.cost_game
    if run.num_clients < 2:
        raise ConfigError("num-clients", run.num_clients, "must be at least 2 in a game")
    with _refusals(section.name, section):
        game = section.build(run.num_clients, public_generator(run.seed, "game"))
    with _refusals("aggregative", settings):
        dynamics = settings.dynamics(game, run.rounds)
    with _refusals(experiment.prior.name, experiment.prior):
        prior = experiment.prior.build(game.num_players, game.num_types)
    return PublicGame(dynamics, prior)


def simulated_types(experiment: Experiment, prior: Prior) -> NDArray[np.int64]:
    """Return the types of all players of a simulation, one profile drawn from the prior, (N,).

    They come from the public seed: whoever knows it knows them.
    """
    return np.asarray(prior.draw(public_generator(experiment.run.seed, "types"), 1)[0])


@contextmanager
def _refusals(name: str, section: object) -> Iterator[None]:
    """Turn what a section refuses into an error that names the key in the file.

    Texts begin with the field that is at fault, and may name others.
    """
    try:
        yield
    except ValueError as error:
        text = str(error)
        fields = [field.name for field in dataclasses.fields(section)]  # type: ignore[arg-type]
        field = re.split(r"\W", text, maxsplit=1)[0]
        for other in fields:
            text = re.sub(rf"\b{other}\b", other.replace("_", "-"), text)
        if field not in fields:
            raise ConfigError(name, "(the section)", text) from error
        key = field.replace("_", "-")
        value = getattr(section, field)
        # the value is said once, as it stands in the file
        text = re.sub(rf"^{key}( = (\[.*?\]|'.*?'|\S+))?: ", "", text)
        shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
        raise ConfigError(f"{name}.{key}", shown, text) from error
