from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass
from itertools import pairwise
from typing import Any

import pytest

from fedgame.accountants import ACCOUNTANTS
from fedgame.accountants.base import Accountant, accountable, compress, epsilon_by_client
from fedgame.errors import AccountingError
from fedgame.ledger.events import (
    LaplaceVector,
    PrivacyEvent,
    PureDPChoice,
    SampledGaussian,
    UnaccountedRelease,
)

ARGUMENTS: dict[str, dict[str, int]] = {"lsi": {"dimension": 5, "num_clients": 5}}
STEP = SampledGaussian(4.0, 1.0, 2, "client", "jko", 0.8)
CHOICE = PureDPChoice(0.1, "client", "exponential")
VECTOR = LaplaceVector(2.0, 0.2, 3, "client", "laplace")
UNCOVERED = UnaccountedRelease("client", "argmin")


# two are about one kind of run and have tests of their own: local runs of steps, and burn-ins
@pytest.fixture(params=sorted(set(ACCOUNTANTS) - {"contraction", "flow"}))
def accountant(request: pytest.FixtureRequest) -> Accountant:
    kind: Any = ACCOUNTANTS.get(request.param)
    made: Accountant = kind(**ARGUMENTS.get(request.param, {}))
    return made


def answers(accountant: Accountant, events: Sequence[PrivacyEvent]) -> list[float]:
    """All that it says about the events: delta, and epsilon where its numbers are guarantees."""
    values = [accountant.delta(events, 1.0)]
    return [*values, accountant.epsilon(events, 1e-5)] if accountant.sound else values


def test_it_keeps_the_protocol_and_cannot_be_changed(accountant: Accountant) -> None:
    assert isinstance(accountant, Accountant)
    assert accountant.name in ACCOUNTANTS
    with pytest.raises(FrozenInstanceError):
        accountant.anything = 1  # type: ignore[attr-defined]


def test_nothing_released_costs_nothing(accountant: Accountant) -> None:
    constant = LaplaceVector(2.0, 0.0, 3, "client", "laplace")
    histories: list[list[PrivacyEvent]] = [[], [UNCOVERED], [constant, constant]]
    for history in histories:
        assert all(value == 0 for value in answers(accountant, history))


def test_releases_without_a_guarantee_are_left_to_the_report(accountant: Accountant) -> None:
    other = UnaccountedRelease("example", "argmin")
    assert answers(accountant, [UNCOVERED, STEP, other]) == answers(accountant, [STEP])


def test_mixed_relations_are_refused(accountant: Accountant) -> None:
    other = SampledGaussian(4.0, 1.0, 2, "client-replace", "jko", 0.8)
    constant = LaplaceVector(2.0, 0.0, 3, "example", "laplace")
    for second in (other, PureDPChoice(0.1, "example", "exponential"), constant):
        with pytest.raises(AccountingError, match="different neighbour relations"):
            answers(accountant, [STEP, second])


@pytest.mark.parametrize("relation", ["client", "client-replace"])
def test_who_takes_part_is_public_so_nothing_is_amplified(
    accountant: Accountant, relation: Any
) -> None:
    with pytest.raises(AccountingError, match=r"sampling_rate = 0.5 .* no amplification"):
        answers(accountant, [SampledGaussian(4.0, 0.5, 2, relation, "jko", 0.8)])
    whole = SampledGaussian(4.0, 1.0, 2, relation, "jko", 0.8)
    assert answers(accountant, [whole]) == answers(accountant, [STEP])


def test_an_unknown_event_is_refused_by_name(accountant: Accountant) -> None:
    @dataclass(frozen=True)
    class Staircase:
        neighbours: str = "client"

    with pytest.raises(AccountingError, match="unknown event Staircase"):
        answers(accountant, [STEP, Staircase()])  # type: ignore[list-item]


def test_a_laplace_vector_is_a_pure_dp_event_or_refused(accountant: Accountant) -> None:
    assert VECTOR.epsilon == CHOICE.epsilon
    if accountant.name == "lsi":
        with pytest.raises(AccountingError, match="laplace has no strength"):
            answers(accountant, [STEP, VECTOR])
        return
    assert answers(accountant, [STEP, VECTOR, VECTOR]) == answers(
        accountant, [STEP, CHOICE, CHOICE]
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_questions_out_of_range_are_refused(accountant: Accountant, value: float) -> None:
    with pytest.raises(AccountingError, match="epsilon = "):
        accountant.delta([STEP], value)
    for delta in (value, 0.0, 1.0):
        with pytest.raises(AccountingError):
            accountant.epsilon([STEP], delta)


def test_delta_falls_with_epsilon(accountant: Accountant) -> None:
    deltas = [accountant.delta([STEP, CHOICE], epsilon) for epsilon in (0.0, 0.5, 1.0, 3.0)]
    assert all(a >= b for a, b in pairwise(deltas))
    assert all(0 <= delta <= 1 for delta in deltas)


def test_asking_twice_gives_the_same_bits(accountant: Accountant) -> None:
    assert answers(accountant, [STEP, CHOICE]) == answers(accountant, [STEP, CHOICE])


def test_splitting_steps_over_events_changes_nothing(accountant: Accountant) -> None:
    one = SampledGaussian(4.0, 1.0, 1, "client", "jko", 0.8)
    assert answers(accountant, [one, one]) == answers(accountant, [STEP])


def test_epsilon_by_client_computes_each_distinct_history_once() -> None:
    class Counting:
        calls = 0

        def epsilon(self, events: list[PrivacyEvent], delta: float) -> float:
            self.calls += 1
            return len(compress(events)) + delta

    counting: Any = Counting()
    histories: dict[int, list[PrivacyEvent]] = {
        3: [STEP, CHOICE],
        1: [CHOICE, STEP],
        2: [STEP],
        9: [],
    }
    result = epsilon_by_client(counting, histories, 0.5)
    assert result == {3: 2.5, 1: 2.5, 2: 1.5, 9: 0.5}
    assert counting.calls == 3


def test_compress_and_accountable() -> None:
    assert dict(compress([STEP, CHOICE, STEP, UNCOVERED])) == {
        SampledGaussian(4.0, 1.0, 1, "client", "jko", 0.8): 4,
        CHOICE: 1,
        UNCOVERED: 1,
    }
    assert accountable([UNCOVERED, STEP, CHOICE]) == (STEP, CHOICE)
