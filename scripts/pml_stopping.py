"""How long each rule lets players send at equal budgets, and how near the equilibrium they get.

Every rule decides before a message is sent, since how far apart types' messages are is known by
then. A run ends at the first message that a rule refuses, so that all rules see the same transcript
up to there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fedgame.accountants.pml import exact_leakage
from fedgame.accountants.pml_bounds import corollary_2, group_dp, theorem_1
from fedgame.accountants.pml_distances import message_distances
from fedgame.accountants.pml_filter import ROUNDING, sequential_worst, simultaneous_worst
from fedgame.accountants.pml_logs import FloatArray, IntArray
from fedgame.accountants.pml_prior import Prior
from fedgame.games.aggregative.likelihood import log_densities, trajectories
from fedgame.strategies.aggregative_public import PublicGame
from scripts.pml_settings import (
    before_each,
    equilibria,
    errors,
    generator,
    play_all,
    setting,
    unit_noise,
)

PRESETS: Final = {"product": "demo", "correlated": "correlated"}
"""The prior: the preset that it is taken from."""
BUDGETS: Final = (0.5, 1.0, 2.0, 4.0)
RULES: Final = ("filter", "theorem-1", "corollary-2", "group-dp")
RUNS: Final = 200


class Steps(NamedTuple):
    """Runs that no rule stops, seen step by step: a step is what is decided about at once.

    Attributes:
        leakage: l(F -> o) after each step, shape (runs, steps).
        values: By rule, what it holds against the budget before the step, same shape.
        error: Distance to the equilibrium of the strategies of the step's iteration, same shape.
        an_iteration: How many steps there are in an iteration.
    """

    leakage: FloatArray
    values: dict[str, FloatArray]
    error: FloatArray
    an_iteration: int


def steps_of(public: PublicGame, runs: int, rng: np.random.Generator) -> Steps:
    """Play to the end and return what each rule would have said at each step.

    Players send one after the other where the prior is not a product.

    Args:
        public: The game, with how it is played and the prior.
        runs: How many draws of types and noise.
        rng: Of the draws.
    """
    dynamics, prior = public.dynamics, public.prior
    scales = dynamics.schedules.noise
    types = prior.draw(rng, runs)
    noise = unit_noise(dynamics, runs, rng) * scales[:, None, None]
    plays = play_all(dynamics, types, noise)
    v = trajectories(dynamics, plays.messages)
    parts = log_densities(plays.messages, v, scales[:, None])
    gaps = message_distances(v, scales)
    each = 1 if prior.is_product else prior.num_players
    if each > 1:
        parts, gaps = one_by_one(parts, 2), one_by_one(gaps, 2)
    logs = np.cumsum(parts, axis=1)
    values = {
        "filter": _filter_values(prior, before_each(logs), v, scales),
        "theorem-1": theorem_1(prior, gaps).value,
        "corollary-2": corollary_2(prior, gaps).value,
        "group-dp": group_dp(prior, gaps).value,
    }
    error = np.repeat(errors(plays, equilibria(dynamics, types)), each, axis=1)
    return Steps(exact_leakage(prior, logs), values, error, each)


def one_by_one(parts: FloatArray, axis: int) -> FloatArray:
    """Return the parts of iterations as parts of single messages, 0 for all other players.

    Args:
        parts: Shape (runs, K, N, ..).
        axis: Where the players are, 2.

    Returns:
        Shape (runs, K N, N, ..).
    """
    players = parts.shape[axis]
    own = np.eye(players).reshape(players, players, *(1,) * (parts.ndim - axis - 1))
    spread = parts[:, :, None] * own
    return np.asarray(spread.reshape(len(parts), -1, *parts.shape[axis:]))


def _filter_values(
    prior: Prior, before: FloatArray, v: FloatArray, scales: FloatArray
) -> FloatArray:
    """Return the largest leakage that each step could bring, shape (runs, steps)."""
    runs, each = len(before), before.shape[1] // len(scales)
    found = []
    for step in range(before.shape[1]):
        k, player = divmod(step, each)
        if each == 1:
            worst = simultaneous_worst(prior, before[:, step], v[:, k])
        else:
            worst = sequential_worst(prior, before[:, step], player, v[:, k, player])
        found.append(worst(np.full(runs, scales[k])))
    return np.stack(found, axis=1)


def allowed(values: FloatArray, budget: float) -> IntArray:
    """Return how many steps a rule allows before the first that it refuses, shape (runs,)."""
    refused = values > budget - ROUNDING
    first = np.where(refused.any(axis=1), refused.argmax(axis=1), refused.shape[1])
    return np.asarray(first, dtype=np.int64)


def stopping_rows() -> list[dict[str, object]]:
    """Return the rows of stopping.csv: one prior, budget and rule each.

    Raises:
        AssertionError: A run leaked more than its budget, or a bound allowed more than the filter.
    """
    rows: list[dict[str, object]] = []
    for name, preset in PRESETS.items():
        steps = steps_of(setting(preset), RUNS, generator(f"stopping {name}"))
        for budget in BUDGETS:
            most = allowed(steps.values["filter"], budget)
            for rule in RULES:
                count = allowed(steps.values[rule], budget)
                _check(name, rule, budget, steps, count, most)
                rows.append({"prior": name, "budget": budget, "rule": rule, **_row(steps, count)})
    return rows


def _check(
    name: str, rule: str, budget: float, steps: Steps, count: IntArray, most: IntArray
) -> None:
    leaked = _at(steps.leakage, count).max()
    if leaked > budget:
        raise AssertionError(f"{name}, {rule}, budget {budget}: a run leaked {leaked}")
    if (count > most).any():
        raise AssertionError(f"{name}, {rule}, budget {budget}: allowed more than the filter")


def _row(steps: Steps, count: IntArray) -> dict[str, object]:
    iterations, error = count / steps.an_iteration, _at(steps.error, count)
    return {
        "iterations": iterations.mean(),
        "iterations_min": iterations.min(),
        "iterations_max": iterations.max(),
        "error": error.mean(),
        "leakage_mean": _at(steps.leakage, count).mean(),
        "leakage_max": _at(steps.leakage, count).max(),
        "planned": steps.error.shape[1] / steps.an_iteration,
        "error_start": steps.error[:, 0].mean(),
        "runs": len(count),
    }


def _at(values: FloatArray, count: IntArray) -> FloatArray:
    """Return the values after the last step that was allowed; there is always one."""
    return np.asarray(values[np.arange(len(count)), count - 1])
