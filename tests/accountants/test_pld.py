from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant as Peer
from dp_accounting.pld import pld_privacy_accountant, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, norm

from fedgame.accountants import pld
from fedgame.accountants.pld import PldAccountant, epsilons
from fedgame.accountants.rdp import RdpAccountant
from fedgame.errors import AccountingError
from fedgame.ledger.events import (
    LaplaceVector,
    Neighbours,
    PrivacyEvent,
    PureDPChoice,
    SampledGaussian,
)

DELTA = 1e-5
PLD = PldAccountant()
dp_event: Any = pld_privacy_accountant.dp_event


def steps(z: float, q: float, count: int, neighbours: Neighbours = "example") -> SampledGaussian:
    return SampledGaussian(z, q, count, neighbours, "gaussian")


def choices(epsilon: float, count: int) -> list[PrivacyEvent]:
    return [PureDPChoice(epsilon, "example", "exponential")] * count


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Exact delta of a mu-GDP mechanism, at any real epsilon."""
    return float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    )


def exact_delta(mu: float, choice: float, count: int, epsilon: float) -> float:
    """Exact delta of a mu-GDP mechanism (0: none) with `count` times randomised response."""
    total = 0.0
    for k in range(count + 1):
        rest = epsilon - (2 * k - count) * choice
        part = gaussian_delta(mu, rest) if mu else max(0.0, -math.expm1(rest))
        total += float(binom.pmf(k, count, 1 / (1 + math.exp(-choice)))) * part
    return total


def exact_epsilon(mu: float, choice: float, count: int) -> float:
    return float(
        brentq(lambda e: exact_delta(mu, choice, count, e) - DELTA, 0, 100, xtol=1e-13, rtol=1e-13)
    )


@pytest.mark.parametrize(
    ("z", "q", "count", "epsilon"),
    [
        (26.8328157300, 0.1, 100, 0.1168),
        (3.7947331922, 0.1, 50, 0.7287),
        (4.8448052626, 1.0, 10, 2.6884),
        (4.8448052626, 1.0, 15, 3.3841),
        (4.8448052626, 1.0, 20, 3.9908),
        (44.496, 1.0, 40, 0.49972),
        (4.0, 0.1, 100, 0.98),
    ],
)
def test_published_values(z: float, q: float, count: int, epsilon: float) -> None:
    digits = len(str(epsilon).split(".")[1])
    assert round(PLD.epsilon([steps(z, q, count)], DELTA), digits) == epsilon


@pytest.mark.parametrize(
    ("strength", "delta"), [(0.1, 0.5891), (0.3, 0.2372), (0.5, 0.1269), (1, 0.0396), (2, 0.00683)]
)
def test_what_an_attack_on_ten_entropic_steps_attains(strength: float, delta: float) -> None:
    """Zero-out, C = 1, tau = .1: z = sqrt(2 s / tau); exact for constant gradients."""
    z = math.sqrt(2 * strength / 0.1)
    value = PLD.delta([steps(z, 1.0, 10, "client")], 1.0)
    assert value == pytest.approx(delta, rel=2e-3)
    exact = gaussian_delta(math.sqrt(10) / z, 1.0)
    assert exact <= value <= exact * 1.0001


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 6.0])
@pytest.mark.parametrize("parts", [1, 7])
def test_unsampled_gaussians_are_exact_from_above(mu: float, parts: int) -> None:
    z = math.sqrt(parts) / mu
    exact = float(brentq(lambda e: gaussian_delta(mu, e) - DELTA, 0, 100, xtol=1e-13))
    assert exact <= PLD.epsilon([steps(z, 1.0, 1)] * parts, DELTA) <= exact * (1 + 3e-5)


def test_100_choices() -> None:
    assert round(PLD.epsilon(choices(0.1, 100), DELTA), 2) == 4.31


@pytest.mark.parametrize(
    ("choice", "count"), [(0.1, 1), (0.1, 100), (0.0371, 15), (1.3, 4), (20.0, 2), (1e-3, 1000)]
)
def test_choices_are_exact_from_above(choice: float, count: int) -> None:
    exact = exact_epsilon(0.0, choice, count)
    assert exact <= PLD.epsilon(choices(choice, count), DELTA) * (1 + 1e-9)
    assert PLD.epsilon(choices(choice, count), DELTA) <= exact * (1 + 2e-4)


@pytest.mark.parametrize(
    ("mu", "choice", "count"), [(0.5, 0.1, 10), (2.0, 0.03, 60), (0.1, 0.7, 3), (1.0, 1e-4, 5)]
)
def test_choices_with_gaussians_are_exact_from_above(mu: float, choice: float, count: int) -> None:
    history = [*choices(choice, count), steps(2 / mu, 1.0, 4)]
    exact = exact_epsilon(mu, choice, count)
    assert exact <= PLD.epsilon(history, DELTA) <= exact * (1 + 2e-4)
    exact = exact_delta(mu, choice, count, 1.0)
    assert exact <= PLD.delta(history, 1.0) <= exact * (1 + 1e-3) + 1e-14


def test_laplace_vectors_cost_what_pure_dp_does_and_no_less_than_one_coordinate() -> None:
    """Against all outcomes of as many randomised responses, and dp-accounting's Laplace noise."""
    numbers = [(2.0, 0.5), (1.0, 0.31), (0.7, 0.09), (3.0, 2.4), (5.0, 0.0)]
    history = [LaplaceVector(m, s, 3, "client", "laplace") for m, s in numbers]
    budgets = [s / m for m, s in numbers if s]

    def exact(epsilon: float) -> float:
        total = 0.0
        for signs in product((1, -1), repeat=len(budgets)):
            likely = math.prod(
                1 / (1 + math.exp(-sign * b)) for sign, b in zip(signs, budgets, strict=True)
            )
            loss = sum(sign * b for sign, b in zip(signs, budgets, strict=True))
            total += likely * max(0.0, -math.expm1(epsilon - loss))
        return total

    one_coordinate = None
    for budget in budgets:
        part = privacy_loss_distribution.from_laplace_mechanism(
            1 / budget,
            pessimistic_estimate=False,
            value_discretization_interval=1e-4,
            use_connect_dots=False,
        )
        one_coordinate = part if one_coordinate is None else one_coordinate.compose(part)
    for epsilon in (0.0, 0.4, 0.8, 1.2):
        ours = PLD.delta(history, epsilon)
        assert ours == pytest.approx(exact(epsilon), rel=1e-3)
        assert ours >= exact(epsilon) * (1 - 1e-12)
        assert one_coordinate is not None
        assert one_coordinate.get_delta_for_epsilon(epsilon) < ours
    assert PLD.epsilon(history, 1e-9) == pytest.approx(sum(budgets), rel=1e-2)


@pytest.mark.parametrize(
    ("z", "q", "count"),
    [(4.0, 0.1, 100), (1.0, 0.01, 500), (0.7, 0.5, 10), (10.0, 0.3, 300), (2.0, 0.9, 3)],
)
def test_it_agrees_with_dp_accounting(z: float, q: float, count: int) -> None:
    judge = Peer(value_discretization_interval=1e-4)
    judge.compose(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(z)), count)
    assert PLD.epsilon([steps(z, q, count)], DELTA) == pytest.approx(
        judge.get_epsilon(DELTA), rel=1e-4
    )
    assert PLD.delta([steps(z, q, count)], 1.0) == pytest.approx(judge.get_delta(1.0), rel=2e-3)


def test_two_kinds_of_steps_agree_with_dp_accounting() -> None:
    judge = Peer(value_discretization_interval=1e-4)
    history = [steps(4.0, 0.1, 60), steps(2.5, 0.2, 20), steps(30.0, 1.0, 5)]
    for event in history:
        judge.compose(
            dp_event.PoissonSampledDpEvent(
                event.sampling_rate, dp_event.GaussianDpEvent(event.noise_multiplier)
            ),
            event.steps,
        )
    assert PLD.epsilon(history, DELTA) == pytest.approx(judge.get_epsilon(DELTA), rel=1e-4)


@pytest.mark.parametrize("z", [0.05, 0.4, 4.0, 300.0])
@pytest.mark.parametrize("q", [1e-4, 0.1, 0.99, 1.0])
def test_one_release_is_what_dp_accounting_builds(z: float, q: float) -> None:
    interval = max(0.05 / z, 0.05 * q / z)
    ours = pld._release(z, q, interval)
    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        z, sampling_prob=q, value_discretization_interval=interval, use_connect_dots=True
    )
    for epsilon in np.linspace(0, 2 / z, 7):
        assert ours.get_delta_for_epsilon(epsilon) == pytest.approx(
            theirs.get_delta_for_epsilon(epsilon), rel=1e-6, abs=1e-11
        )


@given(
    z=st.floats(0.6, 30),
    q=st.sampled_from([0.02, 0.1, 0.5, 1.0]),
    count=st.sampled_from([1, 9, 40]),
)
@settings(max_examples=15, deadline=None)
def test_it_is_tighter_than_rdp_and_monotone(z: float, q: float, count: int) -> None:
    base = PLD.epsilon([steps(z, q, count)], DELTA)
    assert base <= RdpAccountant().epsilon([steps(z, q, count)], DELTA) * (1 + 1e-4) + 1e-9
    assert PLD.epsilon([steps(1.05 * z, q, count)], DELTA) <= base * (1 + 1e-5)
    assert PLD.epsilon([steps(z, q, count + 1)], DELTA) >= base * (1 - 1e-5)
    assert PLD.epsilon([steps(z, min(1.0, 1.1 * q), count)], DELTA) >= base * (1 - 1e-5)


def test_resuming_10_and_10_rounds_costs_20() -> None:
    one = steps(4.0, 0.1, 1)
    assert PLD.epsilon([one] * 10 + [one] * 10, DELTA) == PLD.epsilon([steps(4.0, 0.1, 20)], DELTA)


def test_order_of_composition_does_not_matter() -> None:
    history = [*choices(0.1, 2), steps(4.0, 0.1, 3), steps(9.0, 1.0, 3), steps(7.0, 1.0, 1)]
    assert PLD.epsilon(history[::-1], DELTA) == PLD.epsilon(history, DELTA)


@pytest.mark.parametrize(
    "history",
    [
        [steps(0.05, 0.1, 10)],
        [steps(0.05, 1.0, 10)],
        [steps(0.3, 1e-3, 5)],
        [steps(1e4, 1e-6, 1000)],
        choices(500.0, 3),
        choices(1e-9, 3),
        [*choices(500.0, 1), steps(1e4, 0.01, 1)],
    ],
)
def test_extreme_histories_stay_sound_and_quiet(history: list[PrivacyEvent]) -> None:
    epsilon = PLD.epsilon(history, DELTA)
    assert 0 <= epsilon <= RdpAccountant().epsilon(history, DELTA) * (1 + 1e-4) + 1e-6
    assert PLD.delta(history, epsilon) <= DELTA * (1 + 1e-6)


@pytest.mark.parametrize("delta", [1e-13, 1e-30])
def test_a_delta_that_it_cannot_resolve_is_refused(delta: float) -> None:
    with pytest.raises(AccountingError, match="resolves 1e-12"):
        PLD.epsilon([steps(4.0, 0.1, 10)], delta)


def test_many_distinct_clients_cost_few_distributions_and_stay_sound() -> None:
    z = np.geomspace(3, 30, 300)
    histories = {k: [steps(float(v), 1.0, 10)] for k, v in enumerate(z)}
    pld._composed.cache_clear()
    coarse = epsilons(histories, DELTA, points=20)
    assert pld._composed.cache_info().misses <= 20
    exact = np.array([PLD.epsilon(history, DELTA) for history in histories.values()])
    ratio = np.array(list(coarse.values())) / exact
    assert list(coarse) == list(histories)
    assert np.all(ratio >= 1 - 1e-9)
    assert np.all(ratio <= 10 ** (1 / 19) * 1.03)


def test_few_distinct_clients_are_not_rounded() -> None:
    histories: dict[int, list[PrivacyEvent]] = {
        0: [steps(4.0, 0.1, 10)],
        1: [steps(4.1, 0.1, 10), *choices(0.1, 1)],
        2: [],
    }
    assert epsilons(histories, DELTA) == {k: PLD.epsilon(h, DELTA) for k, h in histories.items()}
