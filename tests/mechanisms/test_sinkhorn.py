"""The projection against its Gaussian closed form, POT (a peer) and its own invariants."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import norm

from fedgame.mechanisms import sinkhorn, sinkhorn_1d
from fedgame.mechanisms.sinkhorn import barycentric_projection, large_projection, pot_projection
from fedgame.mechanisms.sinkhorn_1d import line_projection

Projection = Callable[[np.ndarray, float], np.ndarray]

PROJECTIONS: list[Projection] = [barycentric_projection, large_projection]


@pytest.mark.parametrize(("relative_reg", "rho"), [(0.01, 0.9975), (0.1, 0.9753), (1.0, 0.7808)])
def test_gaussian_particles_shrink_towards_their_mean(relative_reg: float, rho: float) -> None:
    """x -> mean + rho (x - mean) with rho/(1 - rho^2) = 2/reg, at the quantiles of a Gaussian."""
    assert rho / (1 - rho**2) == pytest.approx(2 / relative_reg, rel=2e-2)
    n = 1500
    x = 3.0 + 0.5 * norm.ppf((np.arange(n) + 0.5) / n)

    y = barycentric_projection(x, relative_reg)

    bulk = slice(n // 10, -n // 10)  # the tails of a finite sample are not Gaussian
    slope = np.polyfit(x[bulk] - 3.0, y[bulk] - 3.0, 1)[0]
    assert slope == pytest.approx(rho, abs=1.5e-3)
    np.testing.assert_allclose(y[bulk], 3.0 + rho * (x[bulk] - 3.0), atol=2e-3)


@pytest.mark.parametrize("n", [2, 3, 10, 64])
@pytest.mark.parametrize("relative_reg", [0.05, 0.1, 1.0, 20.0])
def test_equals_pot(n: int, relative_reg: float) -> None:
    x = np.random.default_rng(n).normal(size=n) * 7.0 - 2.0
    np.testing.assert_allclose(
        barycentric_projection(x, relative_reg), pot_projection(x, relative_reg), atol=7e-6
    )


@given(
    x=hnp.arrays(np.float64, st.integers(2, 40), elements=st.floats(-1e6, 1e6)),
    relative_reg=st.sampled_from([1e-4, 0.01, 0.1, 1.0, 100.0]),
)
@settings(max_examples=100, deadline=None)
def test_invariants(x: np.ndarray, relative_reg: float) -> None:
    """Finite, of the same mean, not wider, and equivariant under shifts and scalings."""
    y = barycentric_projection(x, relative_reg)

    spread = float(np.ptp(x))
    tolerance = 1e-6 * spread + 1e-9 * float(np.abs(x).max(initial=0.0))
    assert np.all(np.isfinite(y))
    assert y.mean() == pytest.approx(x.mean(), abs=tolerance)
    assert y.min() >= x.min() - tolerance
    assert y.max() <= x.max() + tolerance
    moved = barycentric_projection(5.0 - 2.0 * x, relative_reg)
    np.testing.assert_allclose(moved, 5.0 - 2.0 * y, atol=4 * tolerance + 1e-8)


@given(seed=st.integers(0, 999), n=st.integers(2, 60))
@settings(max_examples=30, deadline=None)
def test_iterations_suffice(seed: int, n: int) -> None:
    """Whatever the particles, more iterations change nothing that matters."""
    rng = np.random.default_rng(seed)
    shapes = (
        rng.normal(size=n),
        rng.standard_cauchy(n),
        rng.integers(0, 3, n) + 1e-3 * rng.random(n),
    )
    x = shapes[seed % 3]
    for relative_reg in (1e-3, 0.1, 10.0):
        y = barycentric_projection(x, relative_reg)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sinkhorn, "ITERATIONS", 300)
            exact = barycentric_projection(x, relative_reg)
        np.testing.assert_allclose(y, exact, atol=1e-6 * x.std())


@pytest.mark.parametrize(
    "x",
    [
        np.full(5, 0.3),
        np.array([1.0]),
        np.array([1.0, np.nan, 2.0]),
        np.array([1.0, np.inf]),
        np.array([1e308, -1e308, 1e308]),
        np.zeros(4),
    ],
)
@pytest.mark.parametrize("project", PROJECTIONS)
def test_what_cannot_be_projected_is_returned_as_it_is(project: Projection, x: np.ndarray) -> None:
    np.testing.assert_array_equal(project(x, 0.1), x)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("project", PROJECTIONS)
def test_one_bad_set_leaves_the_others_alone(project: Projection, bad: float) -> None:
    x = np.random.default_rng(0).normal(size=(3, 8))
    expected = project(x, 0.1)
    x[1, 3] = bad
    y = project(x, 0.1)
    np.testing.assert_array_equal(y[[0, 2]], expected[[0, 2]])
    np.testing.assert_array_equal(y[1], x[1])


@given(
    x=hnp.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 30))),
    relative_reg=st.sampled_from([1e-300, 1e-4, 0.1, 1e300]),
)
@settings(max_examples=100, deadline=None)
def test_both_projections_treat_every_number_alike(x: np.ndarray, relative_reg: float) -> None:
    """NaN, infinities, overflowing and vanishing spreads included."""
    with np.errstate(all="ignore"):
        deviations = x.std(axis=1, keepdims=True)
        dense = barycentric_projection(x, relative_reg)
        ours = large_projection(x, relative_reg)
        gap = np.abs(ours - dense) / deviations
    movable = (deviations > 0)[:, 0] & np.isfinite(deviations)[:, 0]
    np.testing.assert_array_equal(ours[~movable], x[~movable])
    assert np.all(gap[movable] <= 1e-6 + 1e-12 * np.abs(x[movable]) / deviations[movable])


def test_large_sets_are_projected_without_the_matrix() -> None:
    x = 3.0 + np.random.default_rng(0).standard_t(3, size=(2, 900))
    ours = large_projection(x, 0.1)
    for row, own in zip(x, ours, strict=True):
        np.testing.assert_allclose(own, line_projection(row, 0.1).particles, atol=1e-12)
    np.testing.assert_allclose(ours, barycentric_projection(x, 0.1), atol=1e-6 * x.std())


def test_a_plan_that_is_not_exact_enough_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinkhorn_1d, "BOXES_IN_KERNEL", 1)
    monkeypatch.setattr(sinkhorn_1d, "MAX_NODES", 11)
    x = np.random.default_rng(0).normal(size=600)
    with pytest.raises(ValueError, match=r"relative_reg = 0\.1: the plan of 600 particles"):
        large_projection(x, 0.1)


@pytest.mark.parametrize("n", [2, 5, 20, 127, 128])
def test_a_sets_bits_do_not_depend_on_the_others(n: int) -> None:
    x = np.random.default_rng(n).normal(size=(150, n))
    together = barycentric_projection(x, 0.1)
    for k in (0, 1, 70, 149):
        np.testing.assert_array_equal(together[k], barycentric_projection(x[k], 0.1))
        np.testing.assert_array_equal(together[k], barycentric_projection(x[k:], 0.1)[0])


@pytest.mark.parametrize("n", [513, 700, 5000])
def test_a_large_sets_bits_do_not_depend_on_the_others(n: int) -> None:
    """Neither on how many there are, nor on the array that the sets are cut from."""
    wide = np.random.default_rng(n).normal(size=(7, n + 10))
    x = wide[:, 5 : n + 5]
    together = large_projection(x, 0.1)
    for k in (0, 3, 6):
        np.testing.assert_array_equal(together[k], large_projection(x[k], 0.1))
        np.testing.assert_array_equal(together[k], large_projection(x[k:].copy(), 0.1)[0])


def test_pot_is_imported_by_those_who_ask_for_it_only() -> None:
    code = (
        "import sys, numpy as np\n"
        "from fedgame.mechanisms.sinkhorn import barycentric_projection\n"
        "barycentric_projection(np.arange(4.0), 0.1)\n"
        "assert 'ot' not in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
