"""The least error within a privacy budget, by what holds the budget (PML paper, section 5.3).

A design is a factor on all noise scales and a number of iterations. The designs within the budget
are compared on some draws of types and noise, and the best one is tried on others. Along every
transcript of this game the distances between types' messages are the same, so that Theorem 1 and
group DP are no estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from fedgame.accountants.pml_bounds import group_dp, theorem_1
from fedgame.accountants.pml_distances import message_distances
from fedgame.accountants.pml_filter import simultaneous_worst
from fedgame.accountants.pml_logs import FloatArray
from fedgame.games.aggregative.likelihood import log_likelihoods, trajectories
from fedgame.strategies.aggregative_public import PublicGame
from scripts.pml_settings import (
    DRAWS,
    before_each,
    equilibria,
    errors,
    generator,
    play_all,
    setting,
    unit_noise,
)
from scripts.pml_stopping import allowed

PRESET: Final = "demo"
CHANGES: Final[Mapping[str, Mapping[str, object]]] = {
    "ye": {"aggregative.noise": "geometric:1:0.97"},
    "wang": {
        "aggregative.rule": "wang",
        "aggregative.noise": "power:1:0.1:1",
        "aggregative.gamma": "inverse:0.3:1:0.3",
    },
}
"""What each rule changes in the preset: the shape of the noise, whose size is designed."""
BUDGETS: Final = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)
HOLDERS: Final = ("filter", "theorem-1", "group-dp")
FACTORS: Final = np.geomspace(0.02, 50.0, 81)


class Design(NamedTuple):
    """How a budget is best used.

    Attributes:
        factor: Index of the factor in FACTORS.
        iterations: K' of the run; with the filter the most that it may have.
    """

    factor: int
    iterations: int


class Draws(NamedTuple):
    """Runs with each factor, whose types and noise, but for its scale, are the same.

    Attributes:
        squared: Squared distance to the equilibrium, shape (factors, draws, K).
        worst: The largest leakage that each iteration could bring, same shape.
    """

    squared: FloatArray
    worst: FloatArray


def draws_of(public: PublicGame, rng: np.random.Generator) -> Draws:
    """Play every factor on the same draws.

    Args:
        public: The game, with how it is played and a product prior.
        rng: Of the draws.
    """
    dynamics, prior = public.dynamics, public.prior
    types = prior.draw(rng, DRAWS)
    noise = unit_noise(dynamics, DRAWS, rng)
    points = equilibria(dynamics, types)
    squared, worst = [], []
    for factor in FACTORS:
        scales = factor * dynamics.schedules.noise
        plays = play_all(dynamics, types, noise * scales[:, None, None])
        v = trajectories(dynamics, plays.messages)
        logs = log_likelihoods(plays.messages, v, scales)
        each = np.broadcast_to(scales, logs.shape[:2])
        worst.append(simultaneous_worst(prior, before_each(logs), v)(each))
        squared.append(errors(plays, points) ** 2)
    return Draws(np.stack(squared), np.stack(worst))


def bounds_of(public: PublicGame) -> dict[str, FloatArray]:
    """Return Theorem 1 and group DP with each factor, shapes (factors, K), for all transcripts."""
    dynamics, prior = public.dynamics, public.prior
    scales = dynamics.schedules.noise
    silent = np.zeros((len(scales), prior.num_players, dynamics.game.dimension))
    gaps = message_distances(trajectories(dynamics, silent), scales)
    each = gaps / FACTORS[:, None, None, None, None]
    return {"theorem-1": theorem_1(prior, each).value, "group-dp": group_dp(prior, each).value}


def mean_squared_errors(
    holder: str, budget: float, draws: Draws, bounds: Mapping[str, FloatArray]
) -> FloatArray:
    """Return the mean squared error of each design, infinite where it is not within the budget.

    Args:
        holder: What holds the budget.
        budget: R.
        draws: The runs.
        bounds: As from `bounds_of`.

    Returns:
        Shape (factors, K).
    """
    if holder != "filter":
        means = draws.squared.mean(axis=1)
        return np.where(bounds[holder] <= budget, means, np.inf)
    iterations = np.arange(draws.worst.shape[-1])
    flat = draws.worst.reshape(-1, draws.worst.shape[-1])
    most = allowed(flat, budget).reshape(draws.worst.shape[:-1])
    last = np.minimum(iterations, most[..., None] - 1)
    return np.asarray(np.take_along_axis(draws.squared, last, axis=-1).mean(axis=1))


def best_design(means: FloatArray) -> Design:
    """Return the design of the least mean squared error."""
    factor, last = np.unravel_index(int(np.argmin(means)), means.shape)
    return Design(int(factor), int(last) + 1)


def tradeoff_rows() -> list[dict[str, object]]:
    """Return the rows of tradeoff.csv: one update rule, budget and holder of the budget each."""
    rows: list[dict[str, object]] = []
    for rule, changes in CHANGES.items():
        public = setting(PRESET, changes)
        bounds = bounds_of(public)
        chosen_on, tried_on = (
            draws_of(public, generator(f"tradeoff {rule} {use}")) for use in ("design", "trial")
        )
        for budget in BUDGETS:
            for holder in HOLDERS:
                design = best_design(mean_squared_errors(holder, budget, chosen_on, bounds))
                tried = mean_squared_errors(holder, budget, tried_on, bounds)
                rows.append(
                    {
                        "rule": rule,
                        "budget": budget,
                        "holder": holder,
                        "factor": FACTORS[design.factor],
                        "iterations": design.iterations,
                        "error": tried[design.factor, design.iterations - 1],
                        "error_start": tried_on.squared[0, :, 0].mean(),
                        "draws": DRAWS,
                    }
                )
    return rows
