"""The transport without a matrix against POT (a peer), the matrix, a closed form and invariants."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import norm

from fedgame.mechanisms import sinkhorn, sinkhorn_1d
from fedgame.mechanisms.sinkhorn import barycentric_projection, pot_projection
from fedgame.mechanisms.sinkhorn_1d import line_projection


def shapes(n: int) -> dict[str, np.ndarray]:
    """Particles of many kinds."""
    rng = np.random.default_rng(n)
    outlier = 1e-3 * rng.normal(size=n)
    outlier[0] = 1e6
    return {
        "normal": 7.0 * rng.normal(size=n) - 2.0,
        "uniform": rng.random(n),
        "cauchy": rng.standard_cauchy(n),
        "long tail": rng.exponential(size=n) ** 3,
        "two groups": rng.random(n) + 5.0 * (rng.random(n) < 0.2),
        "ties": rng.integers(0, 4, n).astype(float),
        "one outlier": outlier,
    }


def by_matrix(x: np.ndarray, relative_reg: float) -> tuple[np.ndarray, np.ndarray]:
    """Projection and potential, of standardised particles, from the full kernel."""
    z = (x - x.mean()) / x.std()
    kernel = np.exp(-np.square(z[:, None] - z) / relative_reg)
    u = np.ones(len(x))
    for _ in range(80):
        u = np.sqrt(u / (kernel @ u))
    return x.mean() + x.std() * (kernel @ (u * z)) / (kernel @ u), u


@pytest.mark.parametrize("relative_reg", [1e-6, 1e-3, 0.02, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("kind", list(shapes(2)))
def test_equals_the_matrix(kind: str, relative_reg: float) -> None:
    x = shapes(700)[kind]
    found = line_projection(x, relative_reg)
    assert found.converged
    assert found.marginal_error <= 1e-9
    np.testing.assert_allclose(
        found.particles, by_matrix(x, relative_reg)[0], rtol=0, atol=1e-8 * x.std()
    )


@pytest.mark.parametrize(
    ("n", "relative_reg"),
    [
        *((n, reg) for n in (2, 3, 17, 512) for reg in (0.05, 0.1, 1.0)),
        (2048, 0.1),
        (2048, 1.0),
        pytest.param(4096, 0.1, marks=pytest.mark.slow),
    ],
)
def test_equals_pot(n: int, relative_reg: float) -> None:
    """At a Gaussian's quantiles: with a particle far from the others POT stops too early."""
    x = 7.0 * norm.ppf((np.arange(n) + 0.5) / n) - 2.0
    ours = line_projection(x, relative_reg).particles
    np.testing.assert_allclose(ours, pot_projection(x, relative_reg), rtol=0, atol=1e-6 * x.std())


@pytest.mark.parametrize("relative_reg", [0.1, 1.0])
def test_equals_pot_that_runs_long_enough(
    relative_reg: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinkhorn, "POT_TOLERANCE", 1e-12)
    monkeypatch.setattr(sinkhorn, "POT_ITERATIONS", 100_000)
    x = shapes(64)["normal"]
    ours = line_projection(x, relative_reg).particles
    np.testing.assert_allclose(ours, pot_projection(x, relative_reg), rtol=0, atol=1e-8 * x.std())


@pytest.mark.parametrize("relative_reg", [1e-4, 0.1, 1.0])
def test_equals_the_dense_solver_up_to_its_cap(relative_reg: float) -> None:
    for x in shapes(512).values():
        dense = barycentric_projection(x, relative_reg)
        ours = line_projection(x, relative_reg).particles
        np.testing.assert_allclose(ours, dense, rtol=0, atol=1e-6 * x.std())


@pytest.mark.parametrize("relative_reg", [0.01, 0.1, 1.0])
def test_gaussian_particles_shrink_towards_their_mean(relative_reg: float) -> None:
    """x -> mean + rho (x - mean), rho/(1 - rho^2) = 2/reg, at the quantiles of a Gaussian."""
    rho = (np.sqrt(1 + 16 / relative_reg**2) - 1) * relative_reg / 4
    assert rho / (1 - rho**2) == pytest.approx(2 / relative_reg)
    n = 200_000
    x = 3.0 + 0.5 * norm.ppf((np.arange(n) + 0.5) / n)
    y = line_projection(x, relative_reg).particles
    bulk = slice(n // 100, -n // 100)  # the tails of a finite sample are not Gaussian
    np.testing.assert_allclose(y[bulk], 3.0 + rho * (x[bulk] - 3.0), atol=2e-5)


@pytest.mark.parametrize("kind", list(shapes(2)))
def test_the_marginal_error_bounds_that_of_the_plan(kind: str) -> None:
    """Rows of diag(u) K diag(u), the matrix in full and u read off the nodes."""
    x, reg = shapes(400)[kind], 0.05
    z = (x - x.mean()) / x.std()
    for accuracy in (1e-2, 1e-4, 1e-9):
        transform = sinkhorn_1d._GaussTransform(sinkhorn_1d._Boxes.around(z, reg), 8)
        u = transform.at_particles(sinkhorn_1d._potential(transform, accuracy)[0])
        rows = u * (np.exp(-np.square(z[:, None] - z) / reg) @ u)
        nodes, sums, _ = sinkhorn_1d._potential(transform, accuracy)
        assert np.abs(rows - 1).max() <= 1.1 * transform.largest_gap(nodes, sums) + 1e-10


@pytest.mark.parametrize("accuracy", [1e-2, 1e-4, 1e-6, 1e-9, 1e-11])
def test_accuracy_sets_the_nodes_and_what_is_reached(accuracy: float) -> None:
    x = shapes(1000)["cauchy"]
    found = line_projection(x, 1.0, accuracy)
    assert found.converged
    assert found.marginal_error <= accuracy
    error = np.abs(found.particles - by_matrix(x, 1.0)[0]).max() / x.std()
    assert error <= 5 * accuracy
    assert found.nodes == -round(np.log10(accuracy)) + 2


def test_nodes_are_added_until_the_error_is_small_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    x = shapes(1000)["cauchy"]
    monkeypatch.setattr(sinkhorn_1d, "BOXES_IN_KERNEL", 1)
    found = line_projection(x, 1.0)
    assert found.converged
    assert 11 < found.nodes < sinkhorn_1d.MAX_NODES
    np.testing.assert_allclose(found.particles, by_matrix(x, 1.0)[0], rtol=0, atol=1e-8 * x.std())
    monkeypatch.setattr(sinkhorn_1d, "MAX_NODES", 12)
    short = line_projection(x, 1.0)
    assert not short.converged
    assert short.marginal_error > 1e-9


@given(
    x=hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6)),
    relative_reg=st.sampled_from([1e-14, 1e-4, 0.1, 1.0, 1e6]),
)
@settings(max_examples=100, deadline=None)
def test_invariants(x: np.ndarray, relative_reg: float) -> None:
    """Of the same mean, not wider, in the same order, equivariant under all that should be."""
    found = line_projection(x, relative_reg)
    y = found.particles

    assert found.converged
    spread = float(np.ptp(x))
    tolerance = 1e-7 * spread + 1e-9 * float(np.abs(x).max())
    assert y.mean() == pytest.approx(x.mean(), abs=tolerance)
    assert y.min() >= x.min() - tolerance
    assert y.max() <= x.max() + tolerance
    order = np.argsort(x, kind="stable")
    assert np.all(np.diff(y[order]) >= -tolerance)
    np.testing.assert_allclose(
        line_projection(x[order], relative_reg).particles, y[order], rtol=0, atol=tolerance
    )
    moved = line_projection(5.0 - 2.0 * x, relative_reg).particles
    np.testing.assert_allclose(moved, 5.0 - 2.0 * y, rtol=0, atol=4 * tolerance + 1e-8)


def test_equal_particles_go_to_the_same_place() -> None:
    x = np.repeat(np.array([3.0, -1.0, 0.5, 0.5 + 1e-9]), [500, 1, 20, 7])
    y = line_projection(np.random.default_rng(0).permutation(x), 0.1).particles
    assert len(np.unique(y.round(12))) <= 4
    np.testing.assert_allclose(np.sort(y), np.sort(by_matrix(x, 0.1)[0]), atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_heavy_and_light_places(seed: int) -> None:
    """Up to 10^5 particles in a place beside single ones, against the matrix of the places."""
    rng = np.random.default_rng(seed)
    places = (rng.standard_cauchy(40), np.cumsum(rng.exponential(size=40)))[seed % 2]
    count = (10 ** rng.uniform(0, 5, size=40)).astype(int)
    x = np.repeat(places, count)
    z, reg = (places - x.mean()) / x.std(), (1e-3, 0.1, 3.0, 30.0)[seed]
    kernel = np.exp(-np.square(z[:, None] - z) / reg) * count
    u = np.ones(40)
    for _ in range(80):
        u = np.sqrt(u / (kernel @ u))
    found = line_projection(x, reg)
    assert found.converged
    np.testing.assert_allclose(
        (found.particles[np.cumsum(count) - 1] - x.mean()) / x.std(),
        kernel @ (u * z) / (kernel @ u),
        rtol=0,
        atol=1e-8,
    )


@pytest.mark.parametrize("far", [1e3, 1e9, 1e300])
def test_far_outliers_cost_no_boxes(far: float) -> None:
    """Only boxes with particles exist; 1e300 would be 1e301 boxes otherwise."""
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=3000), [far, -far, far / 2]])
    tracemalloc.start()
    found = line_projection(x, 1e-6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.converged
    assert peak < 20 * 2**20
    np.testing.assert_allclose(found.particles[-3:], x[-3:], rtol=1e-6)
    np.testing.assert_allclose(found.particles / far, x / far, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    "x",
    [np.full(5, 0.3), np.full(10, 0.1), np.array([1.0]), np.zeros(4), np.full(3, 1e308)],
)
def test_what_cannot_move_is_returned_as_it_is(x: np.ndarray) -> None:
    found = line_projection(x, 0.1)
    np.testing.assert_array_equal(found.particles, x)
    assert found.particles is not x
    assert (found.iterations, found.marginal_error, found.converged) == (0, 0.0, True)


def test_very_small_and_very_large_regularisers() -> None:
    x = shapes(300)["normal"]
    before = x.copy()
    np.testing.assert_array_equal(line_projection(x, 1e-16).particles, x)
    np.testing.assert_allclose(
        line_projection(x, 1.01e-15).particles, x, rtol=0, atol=1e-6 * x.std()
    )
    np.testing.assert_allclose(line_projection(x, 1e300).particles, x.mean(), rtol=1e-12)
    np.testing.assert_array_equal(x, before)


def test_huge_and_tiny_values_keep_their_scale() -> None:
    x = shapes(300)["normal"]
    y = line_projection(x, 0.1).particles
    for scale in (1e306, 1e-306):
        np.testing.assert_allclose(line_projection(scale * x, 0.1).particles / scale, y, rtol=1e-9)


@pytest.mark.parametrize(
    ("x", "relative_reg", "accuracy", "message"),
    [
        ([1.0, np.nan], 0.1, 1e-9, "particles: every value must be finite"),
        ([1.0, np.inf], 0.1, 1e-9, "particles: every value must be finite"),
        ([], 0.1, 1e-9, r"particles of shape \(0,\)"),
        ([[1.0, 2.0]], 0.1, 1e-9, r"particles of shape \(1, 2\)"),
        ([1.0, 2.0], 0.0, 1e-9, r"relative_reg = 0\.0: must be finite and > 0"),
        ([1.0, 2.0], np.nan, 1e-9, "relative_reg = nan"),
        ([1.0, 2.0], np.inf, 1e-9, "relative_reg = inf"),
        ([1.0, 2.0], 0.1, 0.0, r"accuracy = 0\.0: must be in \[1e-11, 1e-2\]"),
        ([1.0, 2.0], 0.1, np.nan, "accuracy = nan"),
    ],
)
def test_bad_arguments_are_refused(
    x: list[float], relative_reg: float, accuracy: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        line_projection(np.array(x), relative_reg, accuracy)


def test_memory_and_iterations_do_not_grow_like_a_matrix() -> None:
    x = shapes(300_000)["normal"]
    few = line_projection(x[:1000], 0.1)
    tracemalloc.start()
    many = line_projection(x, 0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert many.converged
    assert many.iterations <= few.iterations + 2
    assert peak < 15 * x.nbytes
