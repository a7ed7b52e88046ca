"""Sequences of noise scales and step sizes, one number an iteration, as text and as arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedgame.games.best_response import FloatArray

FORMS = (
    '"power:P1:P2:P3" for P1 + P2 k^P3, "inverse:Q1:Q2:Q3" for Q1/(Q2 + Q3 k), '
    '"inverse:Q1:Q2:Q3:P" for Q1/(Q2 + Q3 k^P), "geometric:C:Q" for C Q^k, '
    "one number for all iterations, or a list of one number an iteration"
)


SMALLEST, LARGEST = 1e-30, 1e30
"""Numbers of a schedule: what is added, multiplied and divided by them has to be a number too."""


class Schedule(Protocol):
    """A sequence of positive numbers, at iterations k = 0, 1, ..."""

    def values(self, count: int) -> FloatArray:
        """Return the first numbers, shape (count,).

        Raises:
            ValueError: One of them is not finite and positive, or there are fewer.
        """


@dataclass(frozen=True)
class Power:
    """P1 + P2 k^P3: noise scales of the PML paper, section 5.1."""

    p1: float
    p2: float
    p3: float

    def values(self, count: int) -> FloatArray:
        """Return the first numbers, shape (count,)."""
        return _checked(lambda k: self.p1 + self.p2 * k**self.p3, count)


@dataclass(frozen=True)
class Inverse:
    """Q1/(Q2 + Q3 k^P): step sizes of the PML paper, section 5.1, where P = 1."""

    q1: float
    q2: float
    q3: float
    p: float = 1.0

    def values(self, count: int) -> FloatArray:
        """Return the first numbers, shape (count,)."""
        return _checked(lambda k: self.q1 / (self.q2 + self.q3 * k**self.p), count)


@dataclass(frozen=True)
class Geometric:
    """C Q^k: noise scales and step sizes of the PML paper, Example 1."""

    c: float
    q: float

    def values(self, count: int) -> FloatArray:
        """Return the first numbers, shape (count,)."""
        return _checked(lambda k: self.c * self.q**k, count)


@dataclass(frozen=True)
class Listed:
    """Numbers one by one; a single one stands for all iterations."""

    numbers: tuple[float, ...]

    def values(self, count: int) -> FloatArray:
        """Return the first numbers, shape (count,)."""
        if 1 < len(self.numbers) < count:
            raise ValueError(f"{len(self.numbers)} numbers listed: {count} iterations need as many")
        listed = np.array(self.numbers)
        return _checked(lambda k: listed[np.minimum(k.astype(np.int64), len(listed) - 1)], count)


@dataclass(frozen=True)
class Schedules:
    """The public sequences of a run of K messages a player, as they stand in its transcript.

    Attributes:
        noise: M_k, scale of the Laplace noise on message k, shape (K,).
        step: lr_k, from strategy k to k + 1, shape (K - 1,).
        gamma: gamma_k, weight of the others' messages k under the rule "wang", shape (K - 1,).
    """

    noise: FloatArray
    step: FloatArray
    gamma: FloatArray

    def __post_init__(self) -> None:
        """Check the lengths."""
        lengths = self.noise.shape, self.step.shape, self.gamma.shape
        messages = self.noise.size
        if messages < 1 or lengths != ((messages,), (messages - 1,), (messages - 1,)):
            raise ValueError(f"schedules of shapes {lengths}: must be (K,), (K - 1,) and (K - 1,)")

    def __len__(self) -> int:
        return len(self.noise)

    @classmethod
    def of(cls, messages: int, *, noise: str, step: str, gamma: str = "1") -> Schedules:
        """Return the sequences that three texts name.

        Args:
            messages: K, at least 1.
            noise: M_k; the forms are those of `parse_schedule`.
            step: lr_k.
            gamma: gamma_k, used by the rule "wang" only.

        Raises:
            ValueError: A text names no schedule, or one with a number that is not positive.
        """
        if messages < 1:
            raise ValueError(f"messages = {messages}: must be at least 1")
        texts = {"noise": noise, "step": step, "gamma": gamma}
        arrays = {}
        for name, text in texts.items():
            try:
                count = messages if name == "noise" else messages - 1
                arrays[name] = parse_schedule(text).values(count)
            except ValueError as error:
                raise ValueError(f"{name} = {text!r}: {error}") from None
        return cls(**arrays)


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that a text names.

    Args:
        text: "power:P1:P2:P3", "inverse:Q1:Q2:Q3", "inverse:Q1:Q2:Q3:P", "geometric:C:Q", one
            number for all iterations, or numbers parted by commas, one an iteration.

    Raises:
        ValueError: It names none.

    >>> parse_schedule("power:1:0.5:1").values(3).tolist()
    [1.0, 1.5, 2.0]
    """
    name, *arguments = text.split(":")
    try:
        if not arguments:
            return Listed(tuple(_number(part) for part in text.split(",")))
        numbers = [_number(part) for part in arguments]
        forms: dict[str, Callable[..., Schedule]]
        forms = {"power": Power, "inverse": Inverse, "geometric": Geometric}
        return forms[name.strip()](*numbers)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"must be {FORMS}") from None


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def _checked(formula: Callable[[FloatArray], FloatArray], count: int) -> FloatArray:
    """Return a formula at k = 0 to count - 1, if it is positive there."""
    with np.errstate(all="ignore"):  # what is not finite is refused just below
        values = np.asarray(formula(np.arange(count, dtype=np.float64)))
    bad = ~((values >= SMALLEST) & (values <= LARGEST))
    if bad.any():
        k = int(np.argmax(bad))
        allowed = f"must be > 0, from {SMALLEST:g} to {LARGEST:g}"
        raise ValueError(f"is {values[k]:g} at iteration {k}: {allowed}")
    return values
