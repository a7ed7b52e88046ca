"""Whether a game is monotone, over the profiles that the prior makes likely."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fedgame.accountants.pml_prior_forms import product_prior
from fedgame.games.aggregative.affine import AffineMap
from fedgame.games.aggregative.monotone import smallest_eigenvalue
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.sets import Everywhere


def test_smallest_eigenvalue_looks_at_the_true_profile_too() -> None:
    curvature = np.array([1.0, -5.0])[:, None, None]
    game = QuadraticGame.of(np.zeros((3, 2, 1)), curvature=curvature, feasible=Everywhere())
    rare = product_prior(np.tile([1 - 1e-12, 1e-12], (3, 1)))
    assert smallest_eigenvalue(game, rare, None) == pytest.approx(1.0)
    types = np.array([0, 1, 0])
    assert smallest_eigenvalue(game, rare, types) == pytest.approx(-5.0)
    expected = AffineMap.of(game, types).smallest_eigenvalue()
    assert smallest_eigenvalue(game, rare, types) == expected


def test_no_eigenvalue_for_other_games() -> None:
    game = SimpleNamespace(num_players=2, num_types=2, dimension=1)
    assert smallest_eigenvalue(game, product_prior(np.full((2, 2), 0.5))) is None
