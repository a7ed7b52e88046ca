"""Privacy preferences of a population."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedgame.games.privacy.population import Population


def test_geometric_preferences_have_one_ratio() -> None:
    betas = Population().betas(10)
    assert (betas[0], betas[-1]) == (0.3, 3.0)
    assert betas[1:] / betas[:-1] == pytest.approx(np.full(9, 10 ** (1 / 9)))


def test_the_papers_preferences_are_linear() -> None:
    betas = Population(beta_min=0.5, beta_max=1.5, spacing="linear").betas(5)
    assert betas.tolist() == [0.5, 0.75, 1.0, 1.25, 1.5]


@given(
    st.floats(1e-6, 1e6),
    st.one_of(st.just(1.0), st.floats(1, 1e3)),
    st.sampled_from(["geometric", "linear"]),
    st.integers(1, 50),
)
def test_preferences_rise_and_stay_in_their_range(
    smallest: float, factor: float, spacing: Any, num_clients: int
) -> None:
    population = Population(beta_min=smallest, beta_max=smallest * factor, spacing=spacing)
    betas = population.betas(num_clients)
    assert betas.shape == (num_clients,)
    assert betas.min() >= population.beta_min
    assert betas.max() <= population.beta_max
    assert (np.diff(betas) >= 0).all()


@pytest.mark.parametrize(
    ("settings", "key", "said"),
    [
        ({"beta_min": 0}, "beta_min", "greater than or equal to"),
        ({"beta_min": -1}, "beta_min", "greater than or equal to"),
        ({"beta_min": float("nan")}, "beta_min", "finite number"),
        ({"beta_max": 0}, "beta_max", "greater than or equal to"),
        ({"beta_max": float("inf")}, "beta_max", "finite number"),
        ({"beta_max": 0.2}, "beta_max", "at least beta-min = 0.3"),
        ({"spacing": "random"}, "spacing", "'geometric' or 'linear'"),
    ],
)
def test_a_bad_preference_is_refused_by_its_key(
    settings: dict[str, Any], key: str, said: str
) -> None:
    with pytest.raises(ValidationError, match=said) as raised:
        Population(**settings)
    assert [error["loc"] for error in raised.value.errors()] == [(key,)]
