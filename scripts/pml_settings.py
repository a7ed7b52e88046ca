"""The games behind docs/aggregative.md, and plays of many draws at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from fedgame import config
from fedgame.accountants.pml_logs import FloatArray, IntArray
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.equilibrium import solve_equilibrium
from fedgame.randomness import public_generator
from fedgame.strategies.aggregative_public import PublicGame, public_game

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "results" / "pml"
PRESETS: Final = ROOT / "experiments" / "aggregative"
SEED: Final = 42
DRAWS: Final = 100
"""Types and noise are drawn so often for the means of Figures 1 to 4, as in the paper."""


class Plays(NamedTuple):
    """What happened in several draws of types and noise.

    Attributes:
        types: Shape (draws, N).
        messages: o, shape (draws, K, N, n).
        strategies: x_k, shape (draws, K, N, n).
    """

    types: IntArray
    messages: FloatArray
    strategies: FloatArray


def setting(preset: str, changes: Mapping[str, object] | None = None) -> PublicGame:
    """Return the public part of a preset.

    Args:
        preset: Name of a file in experiments/aggregative/, without its suffix.
        changes: Keys to override.
    """
    flat = dict(config.read_toml(PRESETS / f"{preset}.toml"))
    return public_game(config.load({**flat, **(changes or {})}))


def generator(purpose: str) -> np.random.Generator:
    """Return the generator of one use; the same numbers each time."""
    return public_generator(SEED, f"figures-pml {purpose}")


def unit_noise(dynamics: Dynamics, draws: int, rng: np.random.Generator) -> FloatArray:
    """Draw Laplace noise of scale 1 for all messages, shape (draws, K, N, n)."""
    shape = (draws, len(dynamics.schedules), dynamics.game.num_players, dynamics.game.dimension)
    return rng.laplace(size=shape)


def play_all(dynamics: Dynamics, types: IntArray, noise: FloatArray) -> Plays:
    """Return `dynamics.play` for several profiles of types at once.

    Args:
        dynamics: The public part.
        types: Shape (draws, N).
        noise: Shape (draws, K, N, n), in its true scale.
    """
    everybody = np.arange(dynamics.game.num_players)
    costs = dynamics.game.costs(everybody, types)
    state = dynamics.start(everybody)
    messages: list[FloatArray] = []
    strategies: list[FloatArray] = []
    for k in range(noise.shape[1]):
        if k > 0:
            state = dynamics.step(costs, state, dynamics.signal(messages[-1]), k - 1)
        messages.append(state.v + noise[:, k])
        strategies.append(np.broadcast_to(state.x, messages[-1].shape))
    return Plays(types, np.stack(messages, axis=1), np.stack(strategies, axis=1))


def equilibria(dynamics: Dynamics, types: IntArray) -> FloatArray:
    """Return the equilibrium of each profile of types, shape (draws, N, n), for (draws, N).

    Raises:
        ValueError: The game is not strongly monotone: there may be several.
    """
    found = [solve_equilibrium(dynamics.game, profile) for profile in types]
    if not all(equilibrium.unique for equilibrium in found):
        raise ValueError("the game is not strongly monotone: it may have several equilibria")
    return np.stack([equilibrium.strategies for equilibrium in found])


def errors(plays: Plays, points: FloatArray) -> FloatArray:
    """Return Euclidean distances of all strategies, shape (draws, K), to a point a draw."""
    apart = plays.strategies - points[:, None]
    return np.asarray(np.sqrt((apart**2).sum(axis=(-2, -1))))


def before_each(logs: FloatArray) -> FloatArray:
    """Return log-likelihoods (draws, K, ..) before each step in place of after it."""
    return np.concatenate([np.zeros_like(logs[:, :1]), logs[:, :-1]], axis=1)
