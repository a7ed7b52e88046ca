"""What one player leaks when players are alike, as their number grows (PML paper, Lemma 5, Fig. 4).

In the transcript that Lemma 5 constructs everybody sends what type 0 would have sent without noise.
B is the same for both types here, so that the distances between their messages, and with them the
differential privacy of a player, are the same for every transcript and any number of players.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from fedgame.accountants.pml import individual_leakage
from fedgame.accountants.pml_bounds import group_dp, individual_ceiling, individual_dp
from fedgame.accountants.pml_distances import message_distances
from fedgame.accountants.pml_individual import lemma_5_lower, lemma_5_upper
from fedgame.audits.gradient_matching import GradientMatching
from fedgame.audits.quadratic_parameters import blind_gain
from fedgame.games.aggregative.likelihood import (
    final_log_likelihoods,
    log_likelihoods,
    trajectories,
)
from fedgame.strategies.aggregative_public import PublicGame
from scripts.pml_settings import generator, play_all, setting, unit_noise

PRESET: Final = "vaccination-paper"
CHANGES: Final[Mapping[str, object]] = {
    "aggregative.initial": 0.0,
    "vaccination.a": "0.7, 0.5, 0.6, 0.6",
    "vaccination.b": "0.5, 0.5",
}
ALPHA: Final = 0.3
BETA: Final = 0.5
PLAYERS: Final = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, 100, 140, 200)
ATTACKED_UP_TO: Final = 30
DRAWS: Final = 400
ATTACK: Final = GradientMatching(step_size=0.1)


def correlation_rows() -> list[dict[str, object]]:
    """Return the rows of correlation.csv, one for each number of players.

    Raises:
        AssertionError: The exact leakage is not what Lemma 5 (2) says, or not finite.
    """
    return [_row(players) for players in PLAYERS]


def _row(players: int) -> dict[str, object]:
    public = setting(PRESET, {**CHANGES, "num-clients": players, **_prior()})
    dynamics, prior = public.dynamics, public.prior
    scales = dynamics.schedules.noise
    shape = (1, len(scales), players, dynamics.game.dimension)
    silent = play_all(dynamics, np.zeros((1, players), dtype=np.int64), np.zeros(shape))
    messages = silent.messages[0]
    v = trajectories(dynamics, messages)
    logs = log_likelihoods(messages, v, scales)[-1]
    gaps = message_distances(v, scales)
    dp = float(individual_dp(prior, gaps).value[-1, 0])
    exact = float(individual_leakage(prior, logs)[0])
    lower = float(lemma_5_lower(players, ALPHA, BETA, dp).value)
    if not abs(exact - lower) < 1e-9:
        raise AssertionError(f"{players} players: leakage {exact}, Lemma 5 (2) {lower}")
    return {
        "players": players,
        "exact": exact,
        "lemma_5_lower": lower,
        "lemma_5_upper": float(lemma_5_upper(prior, group_dp(prior, gaps)).value[-1, 0]),
        "dp": dp,
        "ceiling": float(individual_ceiling(prior).value[0]),
        **_means(public),
    }


def _prior() -> dict[str, object]:
    return {"correlated-prior.alpha": ALPHA, "correlated-prior.beta": BETA}


def _means(public: PublicGame) -> dict[str, object]:
    """Return what player 0 leaks on average, and what gradient matching gains where it is tried."""
    dynamics, prior = public.dynamics, public.prior
    players, scales = prior.num_players, dynamics.schedules.noise
    types = prior.draw(generator(f"correlation types {players}"), DRAWS)
    noise = unit_noise(dynamics, DRAWS, generator(f"correlation noise {players}"))
    plays = play_all(dynamics, types, noise * scales[:, None, None])
    logs = final_log_likelihoods(dynamics, plays.messages, scales)
    found: dict[str, object] = {
        "mean_exact": individual_leakage(prior, logs)[:, 0].mean(),
        "matching": None,
        "matching_as_in_paper": None,
    }
    if players <= ATTACKED_UP_TO:
        rng = generator(f"correlation guess {players}")
        gains = ATTACK.gains(dynamics, plays.messages, types, rng).individual[:, -1, 0]
        _, blind = blind_gain(dynamics.game, prior, rng)  # type: ignore[arg-type]
        mean = gains.mean()
        found |= {"matching": np.log(mean / blind[0]), "matching_as_in_paper": np.log(mean)}
    return found
