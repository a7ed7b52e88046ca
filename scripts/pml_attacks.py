"""What adversaries get out of the PML paper's vaccination game by iteration (its Figs. 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from fedgame.accountants.pml import bayes_log_gain, exact_leakage
from fedgame.accountants.pml_bounds import ceiling, group_dp, theorem_1
from fedgame.accountants.pml_distances import message_distances
from fedgame.accountants.pml_logs import FloatArray
from fedgame.audits.gradient_matching import GradientMatching
from fedgame.audits.quadratic_parameters import blind_gain
from fedgame.games.aggregative.likelihood import log_likelihoods, trajectories
from fedgame.strategies.aggregative_public import PublicGame
from scripts.pml_settings import DRAWS, Plays, generator, play_all, setting, unit_noise

PRESET: Final = "vaccination-paper"
NOISES: Final[Mapping[str, str]] = {
    "none": "",
    "low": "power:1:0.5:1",
    "medium": "power:1:1:1",
    "high": "power:1:1.5:1",
}
"""The paper's levels: M_k = 1 + k/2, 1 + k and 1 + 3k/2."""
ATTACK: Final = GradientMatching(step_size=0.003)
"""A small step, which averages over the noise of many messages."""


class Attacked(NamedTuple):
    """Plays at one level of noise.

    Attributes:
        public: The game, with how it is played and the prior.
        plays: What happened.
        gains: What gradient matching found after each iteration, shape (draws, K).
        blind: The best expected gain without messages.
    """

    public: PublicGame
    plays: Plays
    gains: FloatArray
    blind: float


def attacked(level: str) -> Attacked:
    """Play at one of the levels of noise, with the same types and draws at each, and attack."""
    changes = {"aggregative.noise": NOISES[level]} if NOISES[level] else {}
    public = setting(PRESET, changes)
    dynamics, prior = public.dynamics, public.prior
    types = prior.draw(generator("attack types"), DRAWS)
    noise = unit_noise(dynamics, DRAWS, generator("attack noise"))
    scales = dynamics.schedules.noise if NOISES[level] else np.zeros(len(dynamics.schedules))
    plays = play_all(dynamics, types, noise * scales[:, None, None])
    gains = ATTACK.gains(dynamics, plays.messages, types, generator("attack guess")).whole
    blind, _ = blind_gain(dynamics.game, prior, generator("attack blind"))  # type: ignore[arg-type]
    return Attacked(public, plays, gains, blind)


def gain_rows() -> list[dict[str, object]]:
    """Return the rows of gain.csv: mean gain at each level of noise after each iteration."""
    rows: list[dict[str, object]] = []
    for level in NOISES:
        found = attacked(level)
        for k, gain in enumerate(found.gains.mean(axis=0)):
            row = {"noise": level, "iteration": k, "gain": gain, "blind": found.blind}
            rows.append({**row, "draws": DRAWS})
    return rows


def leakage_rows() -> list[dict[str, object]]:
    """Return the rows of leakage.csv: means over draws at low noise after each iteration.

    Raises:
        AssertionError: In some run the exact leakage is below the Bayes adversary's log gain, or
            above Theorem 1, or Theorem 1 is above group DP.
    """
    found = attacked("low")
    dynamics, prior = found.public.dynamics, found.public.prior
    scales = dynamics.schedules.noise
    v = trajectories(dynamics, found.plays.messages)
    logs = log_likelihoods(found.plays.messages, v, scales)
    gaps = message_distances(v, scales)
    columns = {
        "group_dp": group_dp(prior, gaps).value,
        "theorem_1": theorem_1(prior, gaps).value,
        "exact": exact_leakage(prior, logs),
        "bayes": bayes_log_gain(prior, logs),
    }
    ordered = [columns[name] for name in ("bayes", "exact", "theorem_1", "group_dp")]
    for lower, upper in pairwise(ordered):
        if (lower > upper + 1e-9).any():
            raise AssertionError("leakage and its bounds are not in order")
    top = float(ceiling(prior).value)
    means = {name: values.mean(axis=0) for name, values in columns.items()}
    gain = found.gains.mean(axis=0)
    means |= {"matching": np.log(gain / found.blind), "matching_as_in_paper": np.log(gain)}
    return [
        {
            "iteration": k,
            **{name: mean[k] for name, mean in means.items()},
            "exact_max": columns["exact"][:, k].max(),
            "ceiling": top,
            "draws": DRAWS,
        }
        for k in range(len(scales))
    ]
