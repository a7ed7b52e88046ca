"""Settings of the mean-field game, and what its disutilities make clients do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedgame.games.best_response import FloatArray, best_response
from fedgame.games.privacy.mean_field import MeanField
from fedgame.games.privacy.utilities import (
    Coupling,
    disutility,
    measured_loss,
    privacy_cost,
    quadratic_loss,
    surrogate_loss,
)

PAPER_GRID = np.array([0.1, 0.3, 0.5, 1.0, 2.0])
BETAS = np.geomspace(1e-3, 1e3, 25)


def build(**settings: Any) -> MeanField:
    """Build a game from untyped settings, as the configuration does."""
    return MeanField(**settings)


def lsi_delta(
    grid: FloatArray, gradient_norm: float, *, cap: bool, dim: int = 5, clients: int = 5
) -> FloatArray:
    """The paper's eq. 4.3 with K = 10, tau = .1, alpha = 1, lambda = .01 and its envelope."""
    rate = grid - 0.01 - gradient_norm
    decayed = np.exp(-rate * 10 * 0.1 / 2)
    factor = np.where(rate > 0, decayed, 1 / 11) if cap else decayed
    claimed: FloatArray = math.sqrt(dim / clients) * factor
    return np.minimum(1, claimed) if cap else claimed


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_as", "read_as"),
    [
        ("0.1, 0.3", (0.1, 0.3)),
        ("1e-3,2", (1e-3, 2.0)),
        ([0.1, 2], (0.1, 2.0)),
        ((0.5,), (0.5,)),
        (0.5, (0.5,)),
        ("", ()),
        ([], ()),
    ],
)
def test_grids_are_read_from_strings_and_sequences(
    given_as: object, read_as: tuple[float, ...]
) -> None:
    assert build(strength_grid=given_as).strength_grid == read_as


@pytest.mark.parametrize("key", ["strength_grid", "noise_multiplier_grid"])
@pytest.mark.parametrize(
    "grid",
    ["0.3, 0.1", "0.1, 0.1", "0, 1", "-1, 1", "nan", "1, inf", "0.1,,0.3", "0.1;0.3", "many",
     [0.1, None], [[0.1]], True, None, {"a": 1}],
)  # fmt: skip
def test_a_bad_grid_is_refused_with_what_is_allowed(key: str, grid: object) -> None:
    with pytest.raises(ValidationError, match="finite, positive and strictly increasing") as raised:
        build(**{key: grid})
    assert [error["loc"] for error in raised.value.errors()] == [(key,)]


def test_one_of_the_two_grids_must_be_given() -> None:
    assert build(strength_grid="0.1", noise_multiplier_grid="").noise_multiplier_grid == ()
    with pytest.raises(ValidationError, match="only where strength-grid is given") as raised:
        build(noise_multiplier_grid="")
    assert [error["loc"] for error in raised.value.errors()] == [("noise_multiplier_grid",)]


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "absolute"}, {"selection": "random"}, {"schedule": "never"},
        {"coupling": "none"}, {"privacy": "rdp"}, {"selection_epsilon": 0},
        {"selection_epsilon": float("nan")}, {"choice_sampling_rate": 0},
        {"choice_sampling_rate": 1.01}, {"choice_every": 0}, {"choice_every": 1.5}, {"cost": 0},
        {"loss_cap": -0.5}, {"loss_cap": float("inf")}, {"offset": 0}, {"curvature_cap": 0},
        # finite, and still too much for a disutility or a charge to be
        {"selection_epsilon": 1e3}, {"choice_sampling_rate": 1e-300}, {"loss_cap": 1e308},
        {"loss_cap": 1e-320}, {"offset": 1e-300}, {"curvature_cap": 1e308},
    ],
)  # fmt: skip
def test_a_bad_setting_is_refused_by_its_key(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        build(**settings)
    assert [error["loc"] for error in raised.value.errors()] == [tuple(settings)]


def test_rounds_with_a_choice() -> None:
    game = MeanField()
    assert [r for r in range(1, 61) if game.chooses_in(r)] == [1, 16, 31, 46]
    committed = MeanField(schedule="commit", choice_every=5)
    assert [r for r in range(1, 61) if committed.chooses_in(r)] == [1]


def test_the_first_mean_strength_is_the_grids_mean() -> None:
    assert MeanField().initial_mean_strength(PAPER_GRID) == pytest.approx(0.78)


# --- what clients do ----------------------------------------------------------------------------

STEPS_DOWN = st.lists(st.integers(0, 40), min_size=2, max_size=6)


@given(STEPS_DOWN, st.data())
def test_sound_best_responses_rise_with_beta(drops: list[int], data: st.DataObject) -> None:
    # All numbers are dyadic, so ties are exact and rounding cannot reorder disutilities.
    size = len(drops)
    privacy_term = privacy_cost(np.cumsum(drops[::-1])[::-1] / 8, 0.25)
    betas = np.sort(data.draw(st.lists(st.integers(1, 200), min_size=2, max_size=8))) / 16
    if data.draw(st.booleans()):
        rises = st.lists(st.integers(0, 40), min_size=size, max_size=size)
        rows = data.draw(st.lists(rises, min_size=1, max_size=4))
        loss_term = measured_loss(np.cumsum(rows, axis=1) / 16, 4.0, 4.0)
    else:
        effective = np.cumsum(data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)))
        loss_term = quadratic_loss(data.draw(st.integers(0, 64)) / 8, 0.5, effective / 4)
    assert (np.diff(loss_term) >= 0).all()
    chosen = MeanField().best_response(disutility(loss_term, privacy_term, betas))
    assert (np.diff(chosen) >= 0).all()


def test_an_interior_strength_is_best_for_someone() -> None:
    loss_term = quadratic_loss(1.0, 0.1, PAPER_GRID)
    privacy_term = privacy_cost(1 / PAPER_GRID, 0.03)
    chosen = best_response(disutility(loss_term, privacy_term, BETAS))
    assert set(chosen.tolist()) == {0, 1, 2, 3, 4}


@given(st.floats(1e-6, 1e3), st.floats(1e-3, 1e3))
def test_the_surrogate_sends_everyone_to_the_largest_strength(loss: float, cost: float) -> None:
    delta = lsi_delta(PAPER_GRID, 0.05, cap=True)  # the exponential bound is active from s = .1 on
    table = disutility(surrogate_loss(loss, PAPER_GRID, 0.1), privacy_cost(delta, cost), BETAS)
    assert (best_response(table) == len(PAPER_GRID) - 1).all()


def test_the_papers_fall_with_beta_comes_from_its_envelope() -> None:
    delta = lsi_delta(PAPER_GRID, 1.0, cap=True)
    # The claimed deltas themselves are a known pair: MFEP's and MFPG's of the paper's Table 2.
    assert delta[3:] == pytest.approx([0.0909090909, 0.6095709073], abs=5e-11)
    table = disutility(surrogate_loss(1.0, PAPER_GRID, 0.1), privacy_cost(delta, 1), BETAS)
    chosen = best_response(table)
    assert (np.diff(chosen) <= 0).all()
    assert (chosen[0], chosen[-1]) == (4, 3)


@pytest.mark.parametrize("curvature", [0.5, 2.0, 7.0])
@pytest.mark.parametrize("beta", [0.3, 1.0, 3.0])
def test_quadratic_best_response_is_the_papers_closed_form(curvature: float, beta: float) -> None:
    # Eq. C.4 with M = kappa tau, theta = alpha K tau/2 and s0 = (lambda + G)/alpha.
    tau, theta, start = 0.1, 0.5, 1.01
    closed = start + math.log(beta * theta * 1.0 / (curvature * tau)) / theta
    grid = np.linspace(0.001, 8, 40_000)
    table = disutility(
        quadratic_loss(curvature, tau, grid),
        privacy_cost(lsi_delta(grid, 1.0, cap=False), 1),
        np.array([beta]),
    )
    [found] = grid[best_response(table)]
    assert found == pytest.approx(np.clip(closed, grid[0], grid[-1]), abs=grid[1] - grid[0])


@pytest.mark.parametrize("coupling", ["own", "residual", "aggregate"])
@pytest.mark.parametrize("loss", ["measured", "surrogate", "quadratic"])
def test_sensitivities_follow_the_settings(loss: Any, coupling: Coupling) -> None:
    game = MeanField(
        loss=loss, coupling=coupling, choice_sampling_rate=0.25, loss_cap=0.5, curvature_cap=6.0
    )
    # Divisor .25 * 200 = 50; grid .1 to 2; noise of 3 steps of tau = .5; N = 4.
    spread = 1.9 / 16 if coupling == "aggregate" else 1.9
    by_hand = {
        "measured": 0.5 / 50,
        "surrogate": 0.5 / 50 / 0.2,
        "quadratic": 6.0 / 50 * 0.5 * 3 * spread,
    }[game.loss]
    found = game.sensitivity("example", 200, PAPER_GRID, 0.5, 4, steps=3)
    assert found == pytest.approx(by_hand, rel=1e-12)
    for relation in ("client", "client-replace"):
        whole = game.sensitivity(relation, 200, PAPER_GRID, 0.5, 4, steps=3)
        assert whole == pytest.approx(50 * by_hand, rel=1e-12)


def test_only_replacing_a_client_needs_the_factor_two() -> None:
    game = MeanField()
    assert game.monotone("example")
    assert game.monotone("client")
    assert not game.monotone("client-replace")
