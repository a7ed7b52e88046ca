"""Loss terms, by hand and by simulated noise; sensitivities by neighbouring data sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.utilities import (
    Coupling,
    capped_mean,
    disutility,
    effective_strength,
    is_monotone,
    measured_loss,
    measured_sensitivity,
    privacy_cost,
    quadratic_loss,
    quadratic_sensitivity,
    surrogate_loss,
    surrogate_sensitivity,
)
from fedgame.ledger.events import Neighbours

GRID = np.array([0.1, 0.3, 0.5, 1.0])
CAP, OFFSET, TAU, STEPS = 0.5, 0.1, 0.2, 3
COUPLINGS: list[Coupling] = ["own", "residual", "aggregate"]
FORMS = ["measured", "surrogate", "quadratic"]


# --- noise --------------------------------------------------------------------------------------


def test_aggregate_strength_is_the_noise_of_the_average() -> None:
    others = np.array([0.2, 0.7, 1.5])
    for own, effective in zip(
        GRID, effective_strength(GRID, float(others.mean()), 4, "aggregate"), strict=True
    ):
        # The variance of a mean of independent noises, each 2 tau s_j.
        assert effective == pytest.approx((own + others.sum()) / 16, rel=1e-14)


def test_residual_strength_adds_what_the_average_keeps_of_the_others() -> None:
    assert effective_strength(GRID, 0.8, 4, "residual") == pytest.approx(GRID + 0.2)
    assert effective_strength(GRID, 0.8, 10**9, "residual") == pytest.approx(GRID, abs=1e-8)


def test_own_strength_ignores_the_others() -> None:
    assert np.array_equal(effective_strength(GRID, 7.0, 4, "own"), GRID)


def test_quadratic_loss_is_the_mean_rise_under_noise() -> None:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 4))
    hessian = root @ root.T
    effective = 0.3
    step_noise = rng.standard_normal((100_000, STEPS, 4)) * np.sqrt(2 * TAU * effective)
    noise = step_noise.sum(axis=1)
    rise = 0.5 * np.einsum("ni,ij,nj->n", noise, hessian, noise)
    [ours] = quadratic_loss(float(np.trace(hessian)), TAU, np.array([effective]), STEPS)
    standard_error = rise.std() / np.sqrt(len(rise))
    assert ours == pytest.approx(rise.mean(), abs=4 * standard_error)
    assert standard_error < 0.005 * ours


# --- loss terms ---------------------------------------------------------------------------------


def test_measured_loss_by_hand() -> None:
    losses = np.array([[2.0, 2.2, 3.0], [1.0, 0.9, 1.25], [4.0, 4.0, 4.1]])
    # Increments .2, 1 -> .5; -.1 -> 0, .25; 0, .1.
    assert measured_loss(losses, 0.5, 10.0) == pytest.approx([0.0, 0.02, 0.085])


@pytest.mark.parametrize("examples", [1, 7, 8, 50, 129])
def test_clients_together_have_the_loss_terms_of_each_alone(examples: int) -> None:
    """To the last bit, so that a choice does not depend on who else is asked."""
    rng = np.random.default_rng(examples)
    own = [rng.normal(size=(5, examples)).astype(np.float32).astype(np.float64) for _ in range(6)]
    divisors = rng.uniform(1, 60, 6)
    together = measured_loss(np.stack(own).transpose(2, 0, 1), 0.5, divisors[:, None])
    alone = [measured_loss(losses.T, 0.5, n) for losses, n in zip(own, divisors, strict=True)]
    assert np.array_equal(together, np.stack(alone))


def test_measured_loss_takes_float32_and_an_empty_batch() -> None:
    assert measured_loss(np.zeros((0, 4), dtype=np.float32), 0.5, 10.0).tolist() == [0.0] * 4
    single = measured_loss(np.array([[0.0, 0.25]], dtype=np.float32), 0.5, 1.0)
    assert single.dtype == np.float64
    assert single.tolist() == [0.0, 0.25]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([1.0, np.inf, np.nan], [0.0, 0.5, 0.5]),
        ([np.nan, 1.0, np.inf], [0.0, 0.0, 0.0]),
        ([np.inf, np.inf, 1.0], [0.0, 0.0, 0.0]),
        ([-np.inf, 1.0, 2.0], [0.0, 0.0, 0.0]),
        ([1.0, -np.inf, 1.5], [0.0, 0.0, 0.5]),
        ([-1.7e308, 1.7e308, 0.0], [0.0, 0.5, 0.5]),
    ],
)
def test_losses_that_are_not_finite_stay_within_the_cap(
    row: list[float], expected: list[float]
) -> None:
    assert measured_loss(np.array([row]), 0.5, 1.0).tolist() == expected


def test_capped_mean_bounds_a_batch_larger_than_expected() -> None:
    assert capped_mean(np.full((5, 2), 9.0), 0.5, 2.0).tolist() == [0.5, 0.5]
    assert capped_mean(np.array([0.1, -3.0, np.nan]), 0.5, 2.0) == pytest.approx(0.05)


def test_surrogate_loss_is_equation_6_1() -> None:
    assert surrogate_loss(2.0, GRID, OFFSET).tolist() == [2.0 / (s + OFFSET) for s in GRID]
    two = surrogate_loss(np.array([2.0, 3.0]), GRID, OFFSET)
    assert two.tolist() == [[loss / (s + OFFSET) for s in GRID] for loss in (2.0, 3.0)]


def test_quadratic_loss_of_many_clients_is_that_of_each() -> None:
    two = quadratic_loss(np.array([2.0, 3.0]), TAU, GRID, STEPS)
    assert np.array_equal(two[1], quadratic_loss(3.0, TAU, GRID, STEPS))
    assert two.shape == (2, 4)


def test_disutility_by_hand_and_for_many_clients() -> None:
    loss_term = np.array([0.0, 1.0])
    privacy_term = privacy_cost(np.array([8.0, 2.0]), 0.5)
    assert disutility(loss_term, privacy_term, 3.0).tolist() == [12.0, 4.0]
    both = disutility(np.stack([loss_term, 2 * loss_term]), privacy_term, np.array([3.0, 0.5]))
    assert both.tolist() == [[12.0, 4.0], [2.0, 2.5]]
    assert disutility(loss_term, privacy_term, np.array([3.0, 0.5])).shape == (2, 2)


@pytest.mark.parametrize("values", [[1.0, np.nan], [-0.1, 1.0]])
def test_what_is_no_privacy_curve_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="negative or NaN"):
        privacy_cost(np.array(values), 1.0)


# --- sensitivities and the privacy of a choice -------------------------------------------------


def loss_term(form: str, data: FloatArray, divisor: float, coupling: Coupling) -> FloatArray:
    """The loss term of one client; rows of `data` are examples, read as each form needs them."""
    if form == "measured":
        return measured_loss(data, CAP, divisor)
    mean = float(capped_mean(data[:, -1], CAP, divisor))
    if form == "surrogate":
        return surrogate_loss(mean, GRID, OFFSET)
    effective = effective_strength(GRID, 0.4, 5, coupling)
    whole = quadratic_loss(mean, TAU, effective, STEPS)
    centred: FloatArray = whole - whole[0]
    return centred  # a constant does not move a choice


def sensitivity(form: str, divisor: float, neighbours: Neighbours, coupling: Coupling) -> float:
    if form == "measured":
        return measured_sensitivity(CAP, divisor, neighbours)
    if form == "surrogate":
        return surrogate_sensitivity(CAP, divisor, float(GRID[0]), OFFSET, neighbours)
    effective = effective_strength(GRID, 0.4, 5, coupling)
    return quadratic_sensitivity(CAP, TAU, effective, divisor, neighbours, STEPS)


def choice_log_probabilities(disutilities: FloatArray, epsilon: float, scale: float) -> FloatArray:
    """Logs of P ~ exp(-e U/scale)."""
    weights = -epsilon * disutilities / scale
    logs: FloatArray = weights - np.logaddexp.reduce(weights)
    return logs


EXAMPLES = arrays(np.float64, st.tuples(st.integers(0, 6), st.just(4)), elements=st.floats(-1, 2))
ONE = arrays(np.float64, (1, 4), elements=st.floats(-1, 2))
RATES = st.sampled_from([0.25, 1.0])
"""Of sampling: the divisor is the rate times a public count of 4, the batch may be anything."""


def neighbour_of(data: FloatArray, one: FloatArray, other: FloatArray, relation: str) -> FloatArray:
    if relation == "example":
        return np.concatenate([data, one])
    return np.empty((0, 4)) if relation == "client" else other


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("relation", ["example", "client", "client-replace"])
@given(EXAMPLES, ONE, EXAMPLES, RATES, st.sampled_from(COUPLINGS), st.floats(0.01, 5))
def test_no_neighbour_moves_a_choice_by_more_than_is_charged(
    form: str,
    relation: Any,
    data: FloatArray,
    one: FloatArray,
    other: FloatArray,
    rate: float,
    coupling: Coupling,
    epsilon: float,
) -> None:
    divisor = rate * 4
    here = loss_term(form, data, divisor, coupling)
    there = loss_term(form, neighbour_of(data, one, other, relation), divisor, coupling)
    delta = sensitivity(form, divisor, relation, coupling)
    assert np.abs(there - here).max() <= delta * (1 + 1e-9)

    scale = delta if is_monotone(relation) else 2 * delta
    public = np.array([2.0, 1.0, 0.7, 0.1])  # beta privacy(s), the same for both neighbours
    log_ratio = choice_log_probabilities(here + public, epsilon, scale)
    log_ratio = log_ratio - choice_log_probabilities(there + public, epsilon, scale)
    assert np.abs(log_ratio).max() <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("relation", ["example", "client", "client-replace"])
def test_sensitivities_are_attained(form: str, coupling: Coupling, relation: Any) -> None:
    none, full = np.zeros((4, 4)), np.array([[0.0, 0.0, 0.0, 9.0]] * 4)
    data = full if relation == "client" else none
    there = neighbour_of(data, full[:1], full, relation)
    moved = loss_term(form, there, 4.0, coupling) - loss_term(form, data, 4.0, coupling)
    assert np.abs(moved).max() == pytest.approx(sensitivity(form, 4.0, relation, coupling))


def test_the_charge_of_a_choice_is_attained() -> None:
    # An example that hurts one strength only, which is rarely chosen: e is reached in the limit.
    public = np.array([0.0, 0.0, 0.0, 30.0])
    delta = measured_sensitivity(CAP, 4.0, "example")
    here = measured_loss(np.zeros((4, 4)), CAP, 4.0)
    there = measured_loss(np.array([[0.0] * 4] * 4 + [[0.0, 0.0, 0.0, 9.0]]), CAP, 4.0)
    log_ratio = choice_log_probabilities(here + public, 1.0, delta)
    log_ratio = log_ratio - choice_log_probabilities(there + public, 1.0, delta)
    assert np.abs(log_ratio).max() == pytest.approx(1.0, abs=1e-6)


def test_replacing_a_client_without_the_factor_two_would_break_the_charge() -> None:
    def curve(hurt: int) -> FloatArray:
        losses = np.zeros((4, 4))
        losses[:, hurt] = 9.0
        return measured_loss(losses, CAP, 4.0)

    delta = measured_sensitivity(CAP, 4.0, "client-replace")
    public = np.array([9.0, 0.0, 9.0, 9.0]) * 10
    log_ratio = choice_log_probabilities(curve(1) + public, 1.0, delta)
    log_ratio = log_ratio - choice_log_probabilities(curve(3) + public, 1.0, delta)
    assert np.abs(log_ratio).max() > 1.9
