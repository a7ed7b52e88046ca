from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError

from fedgame.accountants.lsi import LsiAccountant, lsi_delta
from fedgame.accountants.pld import PldAccountant
from fedgame.errors import AccountingError
from fedgame.ledger.events import PrivacyEvent, PureDPChoice, SampledGaussian, UnaccountedRelease


def steps(strength: float | None, count: int) -> SampledGaussian:
    return SampledGaussian(5.0, 0.1, count, "example", "jko", strength)


@pytest.mark.parametrize(
    ("strength", "dimension", "num_clients", "count", "claim"),
    [
        (1.0, 5, 5, 10, 0.0909090909),
        (1.0, 20, 8, 15, 0.0988211769),
        (1.0, 109386, 10, 20, 0.1505846505),
        (2.0, 5, 5, 10, 0.6095709073),
    ],
)
def test_the_papers_table_2(
    strength: float, dimension: int, num_clients: int, count: int, claim: float
) -> None:
    accountant = LsiAccountant(dimension=dimension, num_clients=num_clients)
    assert accountant.delta([steps(strength, count)], 1.0) == pytest.approx(claim, abs=5e-11)


def test_it_is_vectorised_over_strengths_and_clients() -> None:
    strengths = np.array([0.1, 0.5, 1.0, 1.5, 2.0])
    counts = np.array([[1], [10], [100]])
    claims = lsi_delta(strengths, counts, dimension=5, num_clients=5)
    assert claims.shape == (3, 5)
    for i, count in enumerate(counts[:, 0]):
        for j, strength in enumerate(strengths):
            rate = strength - 0.01 - 1.0
            factor = math.exp(-rate * count * 0.05) if rate > 0 else 1 / (count + 1)
            assert claims[i, j] == pytest.approx(min(1.0, factor))


def test_all_parameters_enter_the_rate() -> None:
    claim = lsi_delta(
        3.0,
        7,
        dimension=400,
        num_clients=1000,
        tau=0.2,
        prior_std=0.5,
        variance_penalty=0.3,
        gradient_bound=0.7,
    )
    rate = 3.0 / 0.25 - 0.3 - 0.7
    assert float(claim) == pytest.approx(10 / math.sqrt(1000) * math.exp(-rate * 7 * 0.2 / 2))


def test_the_claim_is_false_for_small_strengths() -> None:
    """Ten steps, zero-out, C = 1: what an attack attains is above what the paper claims."""
    accountant = LsiAccountant(dimension=5, num_clients=5)
    for strength, false in [(0.1, True), (0.3, True), (0.5, True), (1.0, False), (2.0, False)]:
        z = math.sqrt(2 * strength / 0.1)
        history = [SampledGaussian(z, 1.0, 10, "client", "jko", strength)]
        attained = PldAccountant().delta(history, 1.0)
        assert (attained > accountant.delta(history, 1.0)) == false
    assert accountant.sound is False


def test_it_counts_all_steps_at_the_last_strength_and_ignores_choices() -> None:
    accountant = LsiAccountant(dimension=5, num_clients=5)
    history: list[PrivacyEvent] = [
        steps(0.1, 4),
        PureDPChoice(0.1, "example", "exponential"),
        steps(2.0, 6),
        UnaccountedRelease("example", "argmin"),
    ]
    assert accountant.delta(history, 1.0) == accountant.delta([steps(2.0, 10)], 7.0)
    assert accountant.delta(history[::-1], 1.0) == accountant.delta([steps(0.1, 10)], 1.0)
    assert accountant.delta(history[1:2], 1.0) == 0.0


def test_a_release_without_strength_is_outside_the_claim() -> None:
    accountant = LsiAccountant(dimension=5, num_clients=5)
    with pytest.raises(AccountingError, match="jko has no strength"):
        accountant.delta([steps(1.0, 1), steps(None, 1)], 1.0)


def test_it_has_no_epsilon() -> None:
    with pytest.raises(AccountingError, match="gives no epsilon"):
        LsiAccountant(dimension=5, num_clients=5).epsilon([steps(1.0, 1)], 1e-5)


@pytest.mark.parametrize("strength", [0.0, -1.0, float("nan"), float("inf")])
def test_a_strength_out_of_range_is_refused(strength: float) -> None:
    with pytest.raises(AccountingError, match="strength"):
        lsi_delta(strength, 10, dimension=5, num_clients=5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dimension", 0),
        ("num_clients", 0),
        ("tau", 0.0),
        ("tau", float("nan")),
        ("prior_std", float("inf")),
        ("variance_penalty", -0.1),
        ("gradient_bound", float("nan")),
    ],
)
def test_fields_are_validated(field: str, value: float) -> None:
    with pytest.raises(ValidationError, match=field):
        LsiAccountant(**{"dimension": 5, "num_clients": 5, field: value})  # type: ignore[arg-type]


def test_dimension_and_clients_have_no_default() -> None:
    with pytest.raises(ValidationError, match="dimension"):
        LsiAccountant()  # type: ignore[call-arg]
