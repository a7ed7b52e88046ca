"""Distances between types' messages: plain loops, and what random runs of the rules reach."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from numpy.typing import ArrayLike

from fedgame.accountants.pml_distances import (
    REALISED,
    bounded_distances,
    closed_form,
    gradient_sensitivities,
    message_distances,
    sampled,
    simplex_factor,
)
from tests.accountants.pml_plain_loops import Array


def test_distances_are_l1_over_the_scale() -> None:
    rng = np.random.default_rng(0)
    v, scales = rng.standard_normal((4, 3, 2, 5)), rng.uniform(0.5, 2, 4)
    found = message_distances(v, scales)
    assert found.shape == (4, 3, 2, 2)
    for k, i, s, t in np.ndindex(found.shape):
        expected = sum(abs(v[k, i, s] - v[k, i, t])) / scales[k]
        assert found[k, i, s, t] == pytest.approx(expected, rel=1e-14)


def test_scales_may_be_a_number_or_one_a_message_and_what_was_not_sent_is_nothing() -> None:
    rng = np.random.default_rng(1)
    v = rng.standard_normal((6, 4, 4, 2, 1))
    unit = message_distances(v, 1.0)
    each = rng.uniform(0.5, 2, (4, 4))
    assert message_distances(v, 2.0) == pytest.approx(unit / 2)
    assert message_distances(v, each) == pytest.approx(unit / each[..., None, None])
    many = rng.uniform(0.5, 2, (6, 4, 4))
    assert message_distances(v, many) == pytest.approx(unit / many[..., None, None])
    sent = rng.random((6, 4, 4)) < 0.5
    found = message_distances(v, 1.0, sent)
    assert (found[~sent] == 0).all()
    assert (found[sent] == unit[sent]).all()


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        (0.0, "noise scale = 0.0: must be finite and > 0"),
        ([1.0, -2.0], "noise scale = -2.0"),
        (math.inf, "noise scale = inf"),
        (math.nan, "noise scale = nan"),
        ([1.0, 1.0, 1.0], r"noise scales of shape \(3,\): must be a number, \(iterations,\) or"),
        (np.ones((2, 3)), r"noise scales of shape \(2, 3\)"),
    ],
)
def test_wrong_scales_are_refused(scales: ArrayLike, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        message_distances(np.zeros((2, 4, 2, 1)), scales)
    if np.ndim(scales) == 0:
        with pytest.raises(ValueError, match=message):
            bounded_distances([1.0], scales, 2, 2)


def test_messages_need_an_axis_of_iterations() -> None:
    with pytest.raises(ValueError, match=r"shape \(4, 2, 1\): must be \(.., iterations"):
        message_distances(np.zeros((4, 2, 1)), 1.0)


def _project(y: Array) -> Array:
    """On the simplex along the last axis: the multiplier by bisection."""
    low, high = y.min(axis=-1, keepdims=True) - 1, y.max(axis=-1, keepdims=True)
    for _ in range(80):
        middle = (low + high) / 2
        above = np.maximum(y - middle, 0).sum(axis=-1, keepdims=True) > 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(np.maximum(y - high, 0))


def _reached(rule: Literal["ye", "wang"], lr: Array, gradients: Array, *, simplex: bool) -> Array:
    """|v(s) - v(t)|_1 of two types with these gradients, shape (runs, K, 2, n), both rules."""
    runs, _, _, n = gradients.shape
    x = np.full((runs, 2, n), 1 / n)
    start, found = x, [np.zeros(runs)]
    for k in range(len(lr) - 1):
        moved = x - lr[k] * gradients[:, k]
        moved = _project(moved) if simplex else moved
        # what both types have in common, the messages, leaves the difference alone
        v = moved - x if rule == "ye" else moved - start
        found.append(np.abs(v[:, 0] - v[:, 1]).sum(axis=-1))
        x = moved
    return np.stack(found, axis=-1)


@pytest.mark.parametrize("rule", ["ye", "wang"])
@pytest.mark.parametrize("simplex", [False, True])
def test_gradient_sensitivities_hold_and_are_reached(
    rule: Literal["ye", "wang"], simplex: bool
) -> None:
    rng = np.random.default_rng(2)
    lr, bound, n, runs = np.array([0.02, 0.015, 0.01, 0.03]), 1.5, 3, 400
    gradients = rng.standard_normal((runs, len(lr), 2, n))
    gradients *= bound / np.abs(gradients).sum(axis=-1, keepdims=True)
    # one coordinate up, for one type, and down for the other is what stretches most
    gradients[0] = np.array([[bound, 0, 0], [-bound, 0, 0]])
    factor = simplex_factor(n) if simplex else 1.0
    limits = gradient_sensitivities(lr, bound, rule, projection_factor=factor)
    reached = _reached(rule, lr, gradients, simplex=simplex)
    assert (reached <= limits + 1e-9).all()
    assert reached[0] == pytest.approx(limits, rel=1e-6)
    assert simplex == (reached.max() > gradient_sensitivities(lr, bound, rule).max() * 1.1)


def test_a_small_set_bounds_messages_whatever_the_gradient() -> None:
    lr, steep = np.array([0.4, 0.2, 0.0, 0.1]), 50.0
    assert gradient_sensitivities(lr, steep, "ye", diameter=1.0).tolist() == [0, 2, 2, 0]
    assert gradient_sensitivities(lr, math.inf, "ye", diameter=1.0).tolist() == [0, 2, 2, 0]
    assert gradient_sensitivities(lr, math.inf, "wang", diameter=1.0).tolist() == [0, 1, 1, 1]
    found = gradient_sensitivities(lr, 0.5, "wang", diameter=0.5)
    assert found == pytest.approx([0, 0.4, 0.5, 0.5])


def test_the_factor_of_the_simplex() -> None:
    assert [simplex_factor(n) for n in (1, 2, 4)] == [0, 1, 1.5]
    still = gradient_sensitivities([1.0, 1.0], math.inf, "ye", projection_factor=0.0, diameter=1.0)
    assert still.tolist() == [0, 0]
    with pytest.raises(ValueError, match="dimension = 0: must be at least 1"):
        simplex_factor(0)


def test_bounded_distances_are_the_same_for_all_pairs_of_types() -> None:
    found = bounded_distances([0.0, 3.0], [1.0, 2.0], 4, 3)
    assert found.shape == (2, 4, 3, 3)
    assert (found[0] == 0).all()
    assert (found[1] == 1.5 * (1 - np.eye(3))).all()


@pytest.mark.parametrize(
    ("steps", "bound", "options", "message"),
    [
        ([0.1, -0.1], 1.0, {}, "step sizes: must be a list of finite numbers >= 0"),
        ([math.nan], 1.0, {}, "step sizes"),
        ([0.1], -1.0, {}, "gradient_bound = -1.0: must be >= 0"),
        ([0.1], math.nan, {}, "gradient_bound = nan"),
        ([0.1], 1.0, {"projection_factor": -1.0}, "projection_factor = -1.0"),
        ([0.1], 1.0, {"diameter": -2.0}, "diameter = -2.0"),
        ([0.1], math.inf, {}, "gradient_bound and diameter: one of them must be finite"),
    ],
)
def test_wrong_bounds_are_refused(
    steps: list[float], bound: float, options: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        gradient_sensitivities(steps, bound, "ye", **options)


def test_sources_say_what_they_are() -> None:
    assert (REALISED.rigorous, REALISED.covers) == (True, "this transcript")
    estimate = sampled(250)
    assert (estimate.rigorous, estimate.covers) == (False, "every transcript")
    assert "250 sampled transcripts" in estimate.text
    proof = closed_form("strategies stay in [0, 1]")
    assert (proof.rigorous, proof.covers) == (True, "every transcript")
    assert proof.text == "strategies stay in [0, 1]"
    with pytest.raises(ValueError, match="count = 0: must be at least 1"):
        sampled(0)
