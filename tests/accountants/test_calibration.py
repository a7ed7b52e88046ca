from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.accountants.base import Accountant
from fedgame.accountants.calibration import MIN_NOISE_MULTIPLIER, noise_multiplier_for
from fedgame.accountants.lsi import LsiAccountant
from fedgame.accountants.order2 import Order2Accountant
from fedgame.accountants.pld import PldAccountant
from fedgame.accountants.rdp import RdpAccountant
from fedgame.errors import AccountingError, CalibrationError
from fedgame.ledger.events import PrivacyEvent, PureDPChoice, SampledGaussian

DELTA = 1e-5
RDP, PLD = RdpAccountant(), PldAccountant()


def cost(
    z: float, q: float, steps: int, accountant: Accountant, extra: Sequence[PrivacyEvent] = ()
) -> float:
    plan = SampledGaussian(z, q, steps, "example", "gaussian")
    return accountant.epsilon([plan, *extra], DELTA)


def calibrate(target: float, q: float, steps: int, accountant: Accountant, **more: Any) -> float:
    return noise_multiplier_for(target, DELTA, q, steps, "example", accountant, **more)


@given(
    target=st.floats(0.02, 40),
    q=st.sampled_from([0.01, 0.1, 0.6, 1.0]),
    steps=st.integers(1, 500),
)
@settings(max_examples=40, deadline=None)
def test_rdp_never_overshoots_and_is_tight(target: float, q: float, steps: int) -> None:
    z = calibrate(target, q, steps, RDP)
    assert cost(z, q, steps, RDP) <= target
    assert cost(z, q, steps, PLD) <= target
    assert z == float(f"{z:.6g}")
    if z > MIN_NOISE_MULTIPLIER:
        assert cost(z * (1 - 2e-5), q, steps, RDP) > target


@given(target=st.floats(0.05, 20), q=st.sampled_from([0.1, 1.0]), steps=st.integers(1, 60))
@settings(max_examples=6, deadline=None)
def test_pld_never_overshoots_and_is_tight(target: float, q: float, steps: int) -> None:
    z = calibrate(target, q, steps, PLD)
    assert cost(z, q, steps, PLD) <= target
    assert z == float(f"{z:.6g}")
    assert cost(z * (1 - 1e-4), q, steps, PLD) > target


def test_the_settings_of_the_utility_frontier() -> None:
    for epsilon, z, steps in [(0.49972, 44.496, 40), (1.99879, 21.853, 120)]:
        assert calibrate(epsilon, 1.0, steps, PLD) == pytest.approx(z, rel=1e-4)


def test_few_calls_of_the_tight_accountant(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    original = PldAccountant.epsilon

    def counted(self: PldAccountant, events: Sequence[PrivacyEvent], delta: float) -> float:
        nonlocal calls
        calls += 1
        return original(self, events, delta)

    monkeypatch.setattr(PldAccountant, "epsilon", counted)
    calibrate(1.0, 0.1, 20, PLD)
    assert calls <= 15


def test_extra_events_take_their_share() -> None:
    extra = [PureDPChoice(0.1, "example", "exponential")] * 4
    for accountant in (RDP, PLD):
        z = calibrate(1.0, 1.0, 20, accountant, extra_events=extra)
        assert z > calibrate(1.0, 1.0, 20, accountant)
        assert cost(z, 1.0, 20, accountant, extra) <= 1.0


def test_a_relation_of_whole_clients() -> None:
    z = noise_multiplier_for(1.0, DELTA, 1.0, 60, "client", PLD)
    assert z == calibrate(1.0, 1.0, 60, PLD)
    with pytest.raises(AccountingError, match="no amplification"):
        noise_multiplier_for(1.0, DELTA, 0.1, 60, "client", PLD)


def test_order_2_is_calibrated_by_its_own_rule() -> None:
    z = calibrate(12.364999, 1.0, 20, Order2Accountant())
    assert z == pytest.approx(4.8448052626, rel=1e-5)


def test_a_target_that_needs_no_noise_gets_the_least_of_the_range() -> None:
    assert calibrate(1e5, 0.01, 1, RDP) == MIN_NOISE_MULTIPLIER


@pytest.mark.parametrize("accountant", [RDP, PLD])
def test_an_unreachable_target_is_one_line_that_says_what_is_reachable(
    accountant: Accountant,
) -> None:
    with pytest.raises(CalibrationError) as error:
        calibrate(1e-9, 0.1, 100, accountant)
    text = str(error.value)
    assert "\n" not in text
    assert "1e-09" in text
    assert f"costs {cost(1e4, 0.1, 100, accountant):.6g}" in text


def test_extra_events_that_cost_more_than_the_target_are_named() -> None:
    extra = [PureDPChoice(0.5, "example", "exponential")] * 2
    with pytest.raises(CalibrationError, match=r"of which the other events cost 0\.99"):
        calibrate(0.7, 0.1, 100, PLD, extra_events=extra)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"target_epsilon": float("nan")}, "target epsilon = nan"),
        ({"target_epsilon": float("inf")}, "target epsilon = inf"),
        ({"target_epsilon": 0.0}, "target epsilon = 0.0"),
        ({"delta": float("nan")}, "delta = nan"),
        ({"delta": 0.0}, "delta = 0.0"),
        ({"delta": 1e-13}, "delta = 1e-13"),
        ({"delta": 1.0}, "delta = 1.0"),
        ({"sampling_rate": float("nan")}, "sampling rate = nan"),
        ({"sampling_rate": 1.5}, "sampling rate = 1.5"),
        ({"steps": 0}, "steps = 0"),
        ({"steps": float("nan")}, "steps = nan"),
        ({"steps": float("inf")}, "steps = inf"),
        ({"steps": 2.5}, "steps = 2.5"),
    ],
)
def test_arguments_out_of_range_are_named(change: dict[str, Any], named: str) -> None:
    arguments: dict[str, Any] = {
        "target_epsilon": 1.0,
        "delta": DELTA,
        "sampling_rate": 0.1,
        "steps": 10,
        "neighbours": "example",
        "accountant": RDP,
    }
    with pytest.raises(CalibrationError, match=named):
        noise_multiplier_for(**{**arguments, **change})


def test_a_claim_cannot_be_calibrated_to() -> None:
    with pytest.raises(CalibrationError, match="lsi states a claim"):
        calibrate(1.0, 1.0, 10, LsiAccountant(dimension=5, num_clients=5))


class Optimist:
    """An accountant that forgets nine tenths of what was spent."""

    name: ClassVar[str] = "optimist"
    sound: ClassVar[bool] = True

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        return RDP.epsilon(events, delta) / 10

    def delta(self, events: Sequence[PrivacyEvent], epsilon: float) -> float:
        return RDP.delta(events, epsilon)


def test_an_accountant_that_is_too_optimistic_is_caught() -> None:
    with pytest.raises(CalibrationError, match="the pld accountant finds"):
        calibrate(1.0, 0.1, 100, Optimist())


def test_the_result_is_a_plain_float() -> None:
    z = calibrate(3, 1.0, 10, RDP)
    assert type(z) is float
    assert math.isfinite(z)
