"""Events refuse numbers that no accountant could charge, the moment they are made."""

from __future__ import annotations

from typing import Any

import pytest

from fedgame.ledger.events import PureDPChoice, SampledGaussian

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("noise_multiplier", value) for value in (NAN, INFINITY, 0.0, -1.0)),
        *(("sampling_rate", value) for value in (NAN, 0.0, 1.1, -0.1)),
        *(("steps", value) for value in (NAN, INFINITY, 0, -1, 2.5)),
    ],
)
def test_a_release_with_an_impossible_number_is_refused(field: str, value: float) -> None:
    numbers: dict[str, Any] = {"noise_multiplier": 4.0, "sampling_rate": 0.5, "steps": 3}
    with pytest.raises(ValueError, match=f"{field} = "):
        SampledGaussian(**{**numbers, field: value}, neighbours="example", mechanism="jko")


@pytest.mark.parametrize("epsilon", [NAN, INFINITY, 0.0, -1.0])
def test_a_choice_that_costs_nothing_or_no_number_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon = "):
        PureDPChoice(epsilon, "example", "exponential")
