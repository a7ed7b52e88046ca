"""What is seen, and what that does to the disutility of a strength."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.equilibrium import MeanFieldGame, mean_field_equilibrium
from fedgame.games.privacy.population import Population
from fedgame.games.privacy.release import StrengthDisutility, observed_strength

GRID = np.array([0.1, 0.3, 0.5, 1.0, 2.0])
BETAS = np.array([0.5, 1.0, 4.0])


def loss(strength: FloatArray) -> FloatArray:
    return 0.4 * strength


def privacy(strength: FloatArray) -> FloatArray:
    return np.asarray(1 / np.sqrt(strength))


def test_all_noise_counts_where_only_the_sum_is_seen() -> None:
    assert observed_strength(GRID, 0.7, 10, "local").tolist() == GRID.tolist()
    others = np.full(9, 0.7)
    expected = [strength + others.sum() for strength in GRID]
    assert observed_strength(GRID, 0.7, 10, "aggregate") == pytest.approx(expected)
    # All alike: N s-bar, what an accountant of the sum uses.
    assert observed_strength(GRID, 0.5, 10, "aggregate")[2] == pytest.approx(10 * 0.5)


@pytest.mark.parametrize("release", ["local", "aggregate"])
@pytest.mark.parametrize("coupling", ["own", "residual", "aggregate"])
def test_the_disutility_is_written_out(coupling: Any, release: Any) -> None:
    disutility = StrengthDisutility(GRID, BETAS, loss, privacy, 4, coupling, release)
    mean = 0.6
    for i, beta in enumerate(BETAS):
        for j, s in enumerate(GRID):
            minded = {"own": s, "residual": s + mean / 4, "aggregate": (s + 3 * mean) / 16}[
                coupling
            ]
            seen = s if release == "local" else s + 3 * mean
            expected = 0.4 * minded + beta / np.sqrt(seen)
            assert disutility(mean)[i, j] == pytest.approx(expected, rel=1e-14)


def test_more_sensitive_clients_choose_more_noise_where_each_message_is_seen() -> None:
    betas = Population().betas(20)
    game = MeanFieldGame(GRID, np.ones(20), StrengthDisutility(GRID, betas, loss, privacy, 20))
    chosen = mean_field_equilibrium(game).strategies @ GRID
    assert (np.diff(chosen) >= 0).all()
    assert chosen[-1] > chosen[0]


def test_nobody_pays_for_a_large_crowd() -> None:
    def equilibrium(num_clients: int, release: Any) -> float:
        disutility = StrengthDisutility(GRID, BETAS, loss, privacy, num_clients, "own", release)
        return mean_field_equilibrium(MeanFieldGame(GRID, np.ones(3), disutility)).mean_strength

    means = [equilibrium(num_clients, "aggregate") for num_clients in (1, 2, 5, 100)]
    assert means[0] == pytest.approx(equilibrium(1, "local"))  # alone, the sum is the message
    assert means == sorted(means, reverse=True)
    assert means[-1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"grid": np.array([0.3, 0.1])}, "grid"),
        ({"betas": np.array([1.0, np.nan])}, "betas"),
        ({"num_clients": 0}, "num_clients = 0: must be at least 1"),
        ({"coupling": "none"}, "coupling = 'none': must be one of residual, own, aggregate"),
        ({"release": "global"}, "release = 'global': must be one of local, aggregate"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], said: str) -> None:
    fields: dict[str, Any] = {
        "grid": GRID,
        "betas": BETAS,
        "loss": loss,
        "privacy": privacy,
        "num_clients": 4,
    }
    with pytest.raises(ValueError, match=said):
        StrengthDisutility(**(fields | change))
