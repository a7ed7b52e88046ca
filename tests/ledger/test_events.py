"""Events refuse numbers that no accountant could charge, the moment they are made."""

from __future__ import annotations

from typing import Any

import pytest

from fedgame.ledger.events import LaplaceVector, PureDPChoice, SampledGaussian

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


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        *(({"scale": x}, rf"^scale = {x}: must be finite and > 0$") for x in (NAN, INFINITY, 0.0)),
        *(
            ({"sensitivity": x}, rf"^sensitivity = {x}: must be finite and >= 0$")
            for x in (NAN, INFINITY, -0.5)
        ),
        *(
            ({"dimension": x}, rf"^dimension = {x}: must be a whole number of at least 1$")
            for x in (NAN, 0, -1, 2.5)
        ),
        ({"scale": 1e-300, "sensitivity": 1e300}, "^scale = 1e-300: too small for sensitivity"),
    ],
)
def test_a_vector_with_an_impossible_number_is_refused(
    change: dict[str, Any], complaint: str
) -> None:
    numbers: dict[str, Any] = {"scale": 0.5, "sensitivity": 0.2, "dimension": 3}
    with pytest.raises(ValueError, match=complaint) as error:
        LaplaceVector(**{**numbers, **change}, neighbours="client", mechanism="laplace")
    assert "\n" not in str(error.value)


def test_a_vector_costs_its_sensitivity_over_its_scale_in_any_dimension() -> None:
    for dimension in (1, 7):
        assert LaplaceVector(0.5, 0.2, dimension, "client", "laplace").epsilon == 0.4
    assert LaplaceVector(0.5, 0.0, 1, "client", "laplace").epsilon == 0.0
