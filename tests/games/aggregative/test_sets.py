"""Feasible sets: projections against SciPy, their slopes against differences, their faces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from fedgame.games.aggregative.sets import Box, Everywhere, KnownSet, Simplex
from fedgame.games.best_response import FloatArray

SETS: list[KnownSet] = [
    Everywhere(),
    Box(-0.5, 2.0),
    Box([0.0, -1.0, 0.0], [1.0, 1.0, 0.0]),
    Simplex(),
]
POINTS = arrays(np.float64, (4, 3), elements=st.floats(-3, 3))


@given(POINTS)
def test_the_simplex_gets_its_nearest_points(points: FloatArray) -> None:
    found = Simplex().project(points)
    assert found.min() >= 0
    assert found.sum(axis=-1) == pytest.approx(1)
    # the nearest point of a convex set is the one from which no vertex lies on the point's side
    ahead = ((points - found)[:, None, :] * (np.eye(3) - found[:, None, :])).sum(axis=-1)
    assert ahead.max() <= 1e-12


def test_the_projection_is_what_scipy_finds() -> None:
    point = np.array([0.9, -0.2, 0.7, 0.1])
    whole = {"type": "eq", "fun": lambda y: y.sum() - 1}
    judge = minimize(
        lambda y: ((y - point) ** 2).sum(), np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=whole
    )
    assert Simplex().project(point) == pytest.approx(judge.x, abs=1e-6)


@pytest.mark.parametrize("feasible", SETS, ids=repr)
def test_projecting_twice_changes_nothing(feasible: KnownSet) -> None:
    points = np.random.default_rng(1).normal(size=(50, 3))
    once = feasible.project(points)
    assert feasible.project(once) == pytest.approx(once, abs=1e-15)


@pytest.mark.parametrize("feasible", SETS, ids=repr)
def test_slopes_are_differences(feasible: KnownSet) -> None:
    points = np.random.default_rng(2).normal(size=(50, 3))
    step = 1e-7
    ahead = [feasible.project(points + step * unit) for unit in np.eye(3)]
    behind = [feasible.project(points - step * unit) for unit in np.eye(3)]
    differences = (np.stack(ahead, axis=-1) - np.stack(behind, axis=-1)) / (2 * step)
    assert feasible.slope(points) == pytest.approx(differences, abs=1e-6)


def test_a_box_has_three_to_the_n_faces_and_the_simplex_one_a_set_of_vertices() -> None:
    assert len(list(Box().faces(3, 3))) == 27
    assert len(list(Box().faces(3, 0))) == 8
    assert len(list(Simplex().faces(4, 4))) == 15
    assert len(list(Simplex().faces(4, 0))) == 4
    assert [len(list(Everywhere().faces(2, largest))) for largest in (1, 2)] == [0, 1]


@pytest.mark.parametrize("feasible", [Box(-0.5, 2.0), Simplex()], ids=repr)
def test_faces_are_in_the_set(feasible: Box | Simplex) -> None:
    for point, basis in feasible.faces(3, 3):
        for inside in (point, *(point + 1e-3 * column for column in basis.T)):
            assert feasible.project(inside) == pytest.approx(inside, abs=1e-12)


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0, np.inf), (np.nan, 1.0)])
def test_bounds_that_are_no_box_are_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"a box from .*: bounds must be finite"):
        Box(*bounds)
