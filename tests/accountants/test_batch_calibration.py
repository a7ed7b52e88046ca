from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.accountants.base import Accountant
from fedgame.accountants.batch_calibration import noise_multipliers_for
from fedgame.accountants.calibration import (
    MAX_NOISE_MULTIPLIER,
    MIN_NOISE_MULTIPLIER,
    noise_multiplier_for,
)
from fedgame.accountants.lsi import LsiAccountant
from fedgame.accountants.order2 import Order2Accountant
from fedgame.accountants.pld import PldAccountant
from fedgame.accountants.rdp import RdpAccountant, gaussian_epsilon
from fedgame.errors import AccountingError, CalibrationError
from fedgame.ledger.events import PrivacyEvent, SampledGaussian

DELTA = 1e-5
RDP, PLD = RdpAccountant(), PldAccountant()


def calibrate(
    targets: Any, steps: Any, accountant: Accountant, q: float = 0.1, **more: Any
) -> list[float]:
    z = noise_multipliers_for(targets, DELTA, q, steps, "example", accountant, **more)
    assert z.dtype == np.float64
    values: list[float] = z.tolist()
    return values


def spent(z: float, steps: int, accountant: Accountant, q: float = 0.1) -> float:
    return accountant.epsilon([SampledGaussian(z, q, steps, "example", "gaussian")], DELTA)


@pytest.fixture
def pld_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[PrivacyEvent, ...]]:
    """The histories that the tight accountant was asked about."""
    calls: list[tuple[PrivacyEvent, ...]] = []
    original = PldAccountant.epsilon

    def counted(self: PldAccountant, events: Sequence[PrivacyEvent], delta: float) -> float:
        calls.append(tuple(events))
        return original(self, events, delta)

    monkeypatch.setattr(PldAccountant, "epsilon", counted)
    return calls


def population(clients: int, seed: int) -> tuple[list[float], list[int]]:
    rng = np.random.default_rng(seed)
    targets = np.exp(rng.uniform(np.log(0.05), np.log(8), clients))
    return targets.tolist(), np.ceil(200 ** rng.uniform(0, 1, clients)).astype(int).tolist()


@given(
    plans=st.lists(
        st.tuples(st.floats(0.02, 40), st.integers(1, 500)), min_size=1, max_size=4, unique=True
    ),
    q=st.sampled_from([0.01, 0.1, 0.6, 1.0]),
    tolerance=st.sampled_from([0.001, 0.01, 0.2]),
)
@settings(max_examples=10, deadline=None)
def test_rdp_stays_in_the_band_below_each_target(
    plans: list[tuple[float, int]], q: float, tolerance: float
) -> None:
    targets, steps = zip(*plans, strict=True)
    found = calibrate(targets, steps, RDP, q, tolerance=tolerance)
    for z, target, count in zip(found, targets, steps, strict=True):
        assert z == float(f"{z:.6g}")
        assert spent(z, count, RDP, q) <= target
        assert spent(z, count, PLD, q) <= target
        if z > MIN_NOISE_MULTIPLIER:
            assert spent(z, count, RDP, q) >= (1 - tolerance) * target


@pytest.mark.parametrize(("q", "tolerance"), [(0.1, 0.01), (1.0, 0.01), (0.1, 1e-4)])
def test_pld_stays_in_the_band_below_each_target(q: float, tolerance: float) -> None:
    targets, steps = population(6, seed=1)
    for z, target, count in zip(
        calibrate(targets, steps, PLD, q, tolerance=tolerance), targets, steps, strict=True
    ):
        assert (1 - tolerance) * target <= spent(z, count, PLD, q) <= target
        assert z == float(f"{z:.6g}")


@pytest.mark.parametrize("accountant", [RDP, PLD, Order2Accountant()])
def test_one_by_one_calibration_is_met(accountant: Accountant) -> None:
    targets, steps = [0.3, 6.0], [90, 1]
    if accountant.name == "order2":  # its epsilon is at least log(1/delta)
        targets = [target + 11.6 for target in targets]
    found = calibrate(targets, steps, accountant, tolerance=1e-4)
    for z, target, count in zip(found, targets, steps, strict=True):
        alone = noise_multiplier_for(target, DELTA, 0.1, count, "example", accountant)
        assert alone * (1 - 2e-6) <= z <= alone * (1 + 1e-3)
    loose = calibrate(targets, steps, accountant, tolerance=0.01)
    assert loose == pytest.approx(found, rel=0.05)
    assert loose != found


def test_rdp_is_solved_for_all_clients_by_few_vectorised_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def counted(z: Any, q: Any, steps: Any, delta: float) -> Any:
        sizes.append(np.size(z))
        return gaussian_epsilon(z, q, steps, delta)

    monkeypatch.setattr("fedgame.accountants.batch_calibration.gaussian_epsilon", counted)
    targets, steps = population(20, seed=2)
    calibrate(targets, steps, RDP)
    assert sizes[0] == 20
    assert len(sizes) <= 8
    assert sum(sizes) <= 5 * 20


def test_few_calls_of_the_tight_accountant(pld_calls: list[tuple[PrivacyEvent, ...]]) -> None:
    targets, steps = population(20, seed=3)
    calibrate(targets, steps, PLD)
    assert len(pld_calls) <= 2.2 * 20


def test_similar_clients_need_one_call_each(pld_calls: list[tuple[PrivacyEvent, ...]]) -> None:
    calibrate(np.linspace(1.0, 1.1, 12), [40] * 12, PLD)
    assert len(pld_calls) <= 12 + 2


def test_equal_clients_are_computed_once(pld_calls: list[tuple[PrivacyEvent, ...]]) -> None:
    progress: list[tuple[int, int]] = []
    found = calibrate(
        [2.0, 0.5] * 50, [30, 60] * 50, PLD, on_progress=lambda *done: progress.append(done)
    )
    assert len(found) == 100
    assert found == found[:2] * 50
    assert found[0] != found[1]
    assert len(pld_calls) <= 6
    assert progress == [(1, 2), (2, 2)]


def test_the_order_of_the_clients_does_not_matter() -> None:
    targets, steps = population(5, seed=4)
    forth = calibrate(targets, steps, PLD)
    assert calibrate(targets[::-1], steps[::-1], PLD) == forth[::-1]


@pytest.mark.parametrize("accountant", [RDP, PLD])
def test_a_target_that_needs_no_noise_gets_the_least_of_the_range(accountant: Accountant) -> None:
    found = calibrate([1e5, 1.0], [1, 10], accountant, q=0.01)
    assert found[0] == MIN_NOISE_MULTIPLIER
    assert found[1] > MIN_NOISE_MULTIPLIER


def test_a_target_that_rdp_jumps_over_is_kept_and_pld_meets_it() -> None:
    [z] = calibrate([5e-4], [1], RDP)
    assert z < MAX_NOISE_MULTIPLIER
    assert spent(z, 1, RDP) == 0
    assert spent(z * (1 - 2e-5), 1, RDP) > 5e-4
    [z] = calibrate([5e-4], [1], PLD)
    assert 0.99 * 5e-4 <= spent(z, 1, PLD) <= 5e-4


@pytest.mark.parametrize("accountant", [RDP, PLD])
def test_an_unreachable_target_names_client_epsilon_and_delta(accountant: Accountant) -> None:
    with pytest.raises(CalibrationError) as error:
        calibrate([1.0, 1e-9, 2.0], [10, 100, 10], accountant)
    text = str(error.value)
    assert text.startswith("client 1: epsilon = 1e-09 at delta = 1e-05 is out of reach")
    assert f"costs {spent(MAX_NOISE_MULTIPLIER, 100, accountant):.6g}" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"target_epsilons": [1.0, float("nan")]}, "client 1: target epsilon = nan"),
        ({"target_epsilons": [float("inf"), 1.0]}, "client 0: target epsilon = inf"),
        ({"target_epsilons": [1.0, 0.0]}, "client 1: target epsilon = 0.0"),
        ({"target_epsilons": [1.0, -2.0]}, "client 1: target epsilon = -2.0"),
        ({"steps": [0, 5]}, "client 0: steps = 0"),
        ({"steps": [5, 2.5]}, "client 1: steps = 2.5"),
        ({"steps": [5, float("nan")]}, "client 1: steps = nan"),
        ({"steps": [5]}, r"shape \(2,\) and steps of shape \(1,\)"),
        ({"steps": 5}, "one entry for each client"),
        ({"target_epsilons": [[1.0, 2.0]]}, "one entry for each client"),
        ({"delta": 0.0}, "delta = 0.0"),
        ({"delta": float("nan")}, "delta = nan"),
        ({"sampling_rate": 1.5}, "sampling rate = 1.5"),
        ({"tolerance": 0.0}, "tolerance = 0.0"),
        ({"tolerance": float("nan")}, "tolerance = nan"),
        ({"tolerance": 1.0}, r"tolerance = 1\.0: must be in \[0\.0001, 0\.5\]"),
        ({"accountant": LsiAccountant(dimension=5, num_clients=5)}, "lsi states a claim"),
    ],
)
def test_arguments_out_of_range_are_named(change: dict[str, Any], named: str) -> None:
    arguments: dict[str, Any] = {
        "target_epsilons": [1.0, 2.0],
        "delta": DELTA,
        "sampling_rate": 0.1,
        "steps": [10, 20],
        "neighbours": "example",
        "accountant": RDP,
    }
    with pytest.raises(CalibrationError, match=named):
        noise_multipliers_for(**{**arguments, **change})


def test_no_amplification_for_whole_clients() -> None:
    with pytest.raises(AccountingError, match="no amplification"):
        noise_multipliers_for([1.0], DELTA, 0.1, [10], "client", RDP)
    at_full_rate = noise_multipliers_for([1.0], DELTA, 1.0, [10], "client", PLD)
    assert at_full_rate.tolist() == calibrate([1.0], [10], PLD, q=1.0)


def test_no_clients() -> None:
    assert calibrate([], [], PLD) == []


class Optimist:
    """An accountant that forgets nine tenths of what was spent."""

    name: ClassVar[str] = "optimist"
    sound: ClassVar[bool] = True

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        return RDP.epsilon(events, delta) / 10

    def delta(self, events: Sequence[PrivacyEvent], epsilon: float) -> float:
        return RDP.delta(events, epsilon)


def test_an_accountant_that_is_too_optimistic_is_caught_and_the_client_named() -> None:
    with pytest.raises(CalibrationError, match=r"client 0: .*the pld accountant finds"):
        calibrate([1.0], [100], Optimist())


@pytest.mark.slow
def test_a_hundred_clients_in_seconds(pld_calls: list[tuple[PrivacyEvent, ...]]) -> None:
    targets, steps = population(100, seed=5)
    found = calibrate(targets, steps, PLD)
    assert len(pld_calls) <= 2 * 100
    shares = [
        spent(z, count, PLD) / target
        for z, count, target in zip(found, steps, targets, strict=True)
    ]
    assert min(shares) >= 0.99
    assert max(shares) <= 1
