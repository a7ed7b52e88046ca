"""What every accountant offers, and how to ask one about many clients at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol, runtime_checkable

from fedgame.ledger.events import PrivacyEvent, SampledGaussian, UnaccountedRelease


@runtime_checkable
class Accountant(Protocol):
    """A pure function of a client's events.

    Attributes:
        name: The registered name, as used in tables and on the command line.
        sound: True if the numbers are guarantees, False if they are a paper's claim.
    """

    name: ClassVar[str]
    sound: ClassVar[bool]

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        """Return the epsilon at `delta` of all events together; 0 for no events."""
        ...

    def delta(self, events: Sequence[PrivacyEvent], epsilon: float) -> float:
        """Return the delta at `epsilon` of all events together; 0 for no events."""
        ...


def accountable(events: Sequence[PrivacyEvent]) -> tuple[PrivacyEvent, ...]:
    """Drop the releases that no accountant can charge; reports list them by themselves."""
    return tuple(event for event in events if not isinstance(event, UnaccountedRelease))


def compress(events: Sequence[PrivacyEvent]) -> tuple[tuple[PrivacyEvent, int], ...]:
    """Group equal events and count them, in a canonical order.

    Sampled Gaussians that differ only in `steps` become one event of one step, counted by the sum
    of their steps; `mechanism` and `strength` do not matter to an accountant's composition but are
    kept, since claims read them.
    """
    counts: dict[PrivacyEvent, int] = {}
    for event in events:
        unit: PrivacyEvent = event
        count = 1
        if isinstance(event, SampledGaussian):
            unit, count = replace(event, steps=1), event.steps
        counts[unit] = counts.get(unit, 0) + count
    return tuple(sorted(counts.items(), key=lambda item: repr(item[0])))


def epsilon_by_client(
    accountant: Accountant, events: Mapping[int, Sequence[PrivacyEvent]], delta: float
) -> dict[int, float]:
    """Return each client's epsilon at `delta`, computed once per distinct history."""
    cache: dict[tuple[tuple[PrivacyEvent, int], ...], float] = {}
    result: dict[int, float] = {}
    for client, history in events.items():
        key = compress(history)
        if key not in cache:
            cache[key] = accountant.epsilon(history, delta)
        result[client] = cache[key]
    return result
