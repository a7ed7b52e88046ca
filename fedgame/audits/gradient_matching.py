"""The gradient-matching adversary: it guesses cost functions from messages (PML paper, eq. 9).

It predicts each player's next message from the messages before and from its guess of the player's
parameters, and moves the guess down the slope of the squared error,

    | base + Proj[x - lr_k F(x, o_k)] - x - o_k+1 |^2,

with base = sum_j L_ij o_j for the rule "ye" and o_i + gamma_k sum_j L_ij (o_j - o_i) for "wang",
and x a strategy that it follows with its own guesses, from the public x_0. Without a projection the
prediction is base - lr_k F: eq. 9 prints a + there, which drives the guess to minus the parameters.
Where there is one, the slope is taken as if it were not: a strategy at the edge of the set would
have none, and the guess would stay where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml_logs import BoolArray, FloatArray
from fedgame.audits.quadratic_parameters import Unknowns, true_parameters
from fedgame.games.aggregative.dynamics import Dynamics, check_messages
from fedgame.games.aggregative.quadratic import QuadraticGame

TOO_LARGE = 1e100
"""Nothing is learnt from larger numbers, whose squares would be too large for floats."""


class Gains(NamedTuple):
    """Cosine similarity of guess and truth, plus 1: from 0 to 2, 1 where they are at right angles.

    Attributes:
        whole: For the parameters of all players together, shape (...).
        individual: For each player's own, shape (..., N).
    """

    whole: FloatArray
    individual: FloatArray


@dataclass(frozen=True)
class GradientMatching:
    """The adversary of eq. 9.

    Attributes:
        step_size: nu > 0, by which the slope is multiplied.
        limited: Whether a step never goes beyond the least squared error in its direction, which
            keeps guesses finite whatever the noise is. False: the paper's plain step, which
            diverges where nu lr_k^2 |o|^2 is large.
        passes: How often the messages are gone through, at least 1. With more than once, the
            guesses after each iteration are those of the last time, and have seen all messages
            before.

    Raises:
        ValueError: A field is out of range.
    """

    step_size: float = 1.0
    limited: bool = True
    passes: int = 1

    def __post_init__(self) -> None:
        """Check the fields."""
        if not 0 < self.step_size < np.inf:
            raise ValueError(f"step_size = {self.step_size}: must be finite and > 0")
        if self.passes < 1:
            raise ValueError(f"passes = {self.passes}: must be at least 1")

    def guess(
        self,
        dynamics: Dynamics,
        transcript: FloatArray,
        rng: np.random.Generator,
        sent: BoolArray | None = None,
    ) -> FloatArray:
        """Return the guesses of theta after each iteration, shape (..., K', N, p).

        Args:
            dynamics: The public part of the run, of a quadratic game.
            transcript: o, shape (..., K', N, n), K' >= 1; leading axes are transcripts of the same
                game, attacked one by one.
            rng: Draws the first guess, standard normal.
            sent: Which messages were sent, shape (..., K', N); by default all. The others teach
                nothing.

        Raises:
            ValueError: The game is not quadratic or has nothing to guess, or the transcript does
                not fit it.
        """
        return np.stack(list(self._guesses(dynamics, transcript, rng, sent)), axis=-3)

    def gains(
        self,
        dynamics: Dynamics,
        transcript: FloatArray,
        types: ArrayLike,
        rng: np.random.Generator,
        sent: BoolArray | None = None,
    ) -> Gains:
        """Return the gains after each iteration, shapes (..., K') and (..., K', N).

        Args:
            dynamics: The public part of the run, of a quadratic game.
            transcript: o, shape (..., K', N, n), K' >= 1.
            types: Index of each player's type, shape (N,) or (..., N).
            rng: Draws the first guess.
            sent: As for `guess`.

        Raises:
            ValueError: The game is not quadratic or has nothing to guess, or the transcript does
                not fit it.
        """
        theta = true_parameters(_quadratic(dynamics), types)
        steps = [
            matching_gains(theta, guess) for guess in self._guesses(dynamics, transcript, rng, sent)
        ]
        return Gains(
            np.stack([step.whole for step in steps], axis=-1),
            np.stack([step.individual for step in steps], axis=-2),
        )

    def _guesses(
        self,
        dynamics: Dynamics,
        transcript: FloatArray,
        rng: np.random.Generator,
        sent: BoolArray | None,
    ) -> Iterator[FloatArray]:
        """Yield the guess after each iteration, shape (..., N, p)."""
        unknowns = Unknowns.of(_quadratic(dynamics), dynamics.gradient)
        if not unknowns.count:
            raise ValueError("all types of all players have the same parameters: nothing to guess")
        check_messages(dynamics, transcript, "transcript")
        lead, last = transcript.shape[:-3], transcript.shape[-3] - 1
        theta = rng.standard_normal((*lead, dynamics.game.num_players, unknowns.count))
        start = np.broadcast_to(np.asarray(dynamics.initial), (*lead, *transcript.shape[-2:]))
        for number in range(self.passes):
            x = start
            for k in range(last):
                if number == self.passes - 1:
                    yield theta
                seen, after = transcript[..., k, :, :], transcript[..., k + 1, :, :]
                with np.errstate(over="ignore", invalid="ignore"):  # what overflows teaches nothing
                    slope, limit, x = _slope(dynamics, unknowns, theta, x, seen, after, k)
                step = np.minimum(self.step_size, limit) if self.limited else self.step_size
                came = True if sent is None else sent[..., k + 1, :]
                theta = theta - np.where(came, step, 0.0)[..., None] * slope
        yield theta


def matching_gains(theta: FloatArray, guess: FloatArray) -> Gains:
    """Return cosine similarity plus 1 of parameters and guesses, 1 where one of them is 0.

    Args:
        theta: The true parameters, shape (..., N, p).
        guess: Shape (..., N, p).
    """
    products = (theta * guess).sum(axis=-1)
    squares = (theta**2).sum(axis=-1), (guess**2).sum(axis=-1)
    whole = _cosine(products.sum(axis=-1), *(square.sum(axis=-1) for square in squares))
    return Gains(1 + whole, 1 + _cosine(products, *squares))


def _cosine(product: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    lengths = np.sqrt(first) * np.sqrt(second)
    return np.clip(product / np.where(lengths > 0, lengths, 1.0), -1.0, 1.0)


def _slope(
    dynamics: Dynamics,
    unknowns: Unknowns,
    theta: FloatArray,
    x: FloatArray,
    seen: FloatArray,
    after: FloatArray,
    k: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the slope of the squared error, how far down it goes, and the next strategy.

    Args:
        dynamics: The public part of the run.
        unknowns: What theta stands for.
        theta: The guess, shape (..., N, p).
        x: Followed strategies, shape (..., N, n).
        seen: Messages of iteration k, same shape.
        after: Those of the next one.
        k: The iteration.

    Returns:
        The slope, shape (..., N, p), 0 where a number is too large; the step down it to the least
        error if there were no projection, shape (..., N), infinite where the slope is 0; the
        strategies that the guess leads to.
    """
    base, rate = dynamics.signal(seen), dynamics.schedules.step[k]
    if dynamics.rule == "wang":
        base = seen + dynamics.schedules.gamma[k] * base
    moved = dynamics.game.feasible.project(x - rate * unknowns.gradient(theta, x, seen))
    error = base + (moved - x) - after
    slope = unknowns.slope(-2 * rate * error, x, seen)
    numbers = np.concatenate([seen, after, x, error], axis=-1)
    slope = np.where(np.abs(numbers).max(axis=-1, keepdims=True) <= TOO_LARGE, slope, 0.0)
    # of the direction alone, since the squares of a slope may be too large for a float
    sizes = np.abs(slope).max(axis=-1, keepdims=True)
    direction = slope / np.where(sizes > 0, sizes, 1.0)
    turned = (unknowns.change(direction, x, seen) ** 2).sum(axis=-1)
    bend = np.where(turned > 0, 2 * rate**2 * turned, 1.0)
    limit = np.where(turned > 0, (direction**2).sum(axis=-1) / bend, np.inf)
    return slope, limit, moved


def _quadratic(dynamics: Dynamics) -> QuadraticGame:
    if not isinstance(dynamics.game, QuadraticGame):
        name = type(dynamics.game).__name__
        raise ValueError(f"{name}: only the parameters of quadratic games can be guessed")
    return dynamics.game
