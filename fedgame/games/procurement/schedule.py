"""Who takes part when: the whole schedule is drawn before training, by public probabilities.

A schedule that looked at the training would make a client's number of releases depend on data.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray


def draw_schedule(
    probabilities: FloatArray,
    rounds: int,
    draws: int,
    kind: Literal["iid", "systematic"],
    rng: np.random.Generator,
) -> IntArray:
    """Return who is drawn, shape (rounds, draws), ascending in each round.

    A client can be drawn twice in a round. Under "systematic" client k is drawn n p_k times in all,
    rounded up or down, with n = rounds draws: at least once if n p_k >= 1, and in expectation as
    often as under "iid".

    Args:
        probabilities: p_k, shape (clients,), summing to 1.
        rounds: T, at least 1.
        draws: m, at least 1.
        kind: How to draw.
        rng: Generator of the schedule.
    """
    total = rounds * draws
    ends = np.cumsum(probabilities)
    ends /= ends[-1]
    systematic = kind == "systematic"
    points = (np.arange(total) + rng.random()) / total if systematic else rng.random(total)
    # a point is below 1, and a client without probability has no room of its own
    order = np.searchsorted(ends, points, side="right")
    if systematic:
        order = rng.permutation(order)
    return np.sort(order.reshape(rounds, draws), axis=1)


def implied_q(
    noise_multipliers: FloatArray, budgets: FloatArray, draws: IntArray, sampling_rate: float
) -> FloatArray:
    """Return z^2 epsilon^2/(q^2 T_k), what the objective takes for a constant times Q.

    The paper's Q (eq. 8) rests on a noise variance proportional to T_k/epsilon_k^2. Exact
    accounting gives another one, so that this differs from client to client.

    Args:
        noise_multipliers: z_k, shape (clients,).
        budgets: epsilon_k, shape (clients,).
        draws: T_k, shape (clients,).
        sampling_rate: q.

    Returns:
        Shape (clients,); NaN where a client is never drawn.
    """
    drawn = draws > 0
    ratio = (noise_multipliers * budgets / sampling_rate) ** 2 / np.where(drawn, draws, 1)
    return np.where(drawn, ratio, np.nan)
