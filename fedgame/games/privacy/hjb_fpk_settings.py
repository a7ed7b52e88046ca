"""Settings of the mean-field game's equations (MFPG paper, section 5.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

import numpy as np
from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import FloatArray

Curve: TypeAlias = Callable[[FloatArray], FloatArray]
"""A function of the state: from states, shape (points,), to values of the same shape."""

Positive: TypeAlias = Annotated[float, Field(gt=0, le=1e9)]
SUM_SLACK: Final = 1e-9
MOST_VALUES: Final = 100_000_000
"""Entries of a solution's arrays; it has three of them, 0.8 GB each."""
MOST_EXPONENT: Final = 300.0
"""ln of the largest claimed delta, over C_d/sqrt N, that a strength may have."""


def _quadratic(x: FloatArray) -> FloatArray:
    return np.asarray(x**2 / 2)


def _logistic(x: FloatArray) -> FloatArray:
    return np.asarray(np.logaddexp(0.0, -x))


LOSSES: Final[dict[str, Curve]] = {"quadratic": _quadratic, "logistic": _logistic}
"""The named losses: x^2/2, and ln(1 + exp(-x)), which is low for large x."""


def flow_constants(
    steps: int, tau: float, prior_std: float, variance_penalty: float, gradient_bound: float
) -> tuple[float, float]:
    """Return (theta, s0) of the claimed delta (C_d/sqrt N) exp(-theta (s - s0)), MFPG paper 5.3.

    With alpha = 1/sigma0^2: theta = alpha K tau/2 and s0 = (lambda + G)/alpha.

    Args:
        steps: K, steps of the flow.
        tau: Length of one step, in time.
        prior_std: sigma0.
        variance_penalty: lambda.
        gradient_bound: G.

    >>> flow_constants(10, 0.1, prior_std=1.0, variance_penalty=0.01, gradient_bound=1.0)
    (0.5, 1.01)
    """
    return steps * tau / (2 * prior_std**2), (variance_penalty + gradient_bound) * prior_std**2


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class HjbFpk:
    """The equations of the MFPG paper's section 5.3 in one dimension, and how to solve them.

    A client of type beta has the state X with dX = (-loss'(X) - (s/sigma0^2) X
    - lambda (X - xbar)) dt + sqrt(2 s) dW, xbar the mean of all clients' states, and picks the
    strength s(t, x) in [s_min, s_max] to have the least E int loss(X) dt plus its privacy cost.

    Attributes:
        x_min: Left end of the states; nothing leaves the range.
        x_max: Right end, above `x_min`.
        points: Cells of equal width between the two, 10 to 100,000.
        horizon: T, the time over which a client minds its loss; K tau for K steps of the flow.
        time_steps: Time steps, 1 to 1,000,000.
        theta: Decay of the claimed delta in s, > 0; see `flow_constants`.
        s0: Strength from which that delta falls below C_d/sqrt N.
        s_min: Smallest strength, > 0.
        s_max: Largest strength, at least `s_min`; equal to it, nobody has a choice.
        prior_std: sigma0, standard deviation of the prior.
        variance_penalty: lambda >= 0, the pull to the mean of all.
        betas: Privacy preferences of the types, > 0.
        weights: The types' shares of the population, > 0, sum 1; empty for equal shares.
        num_clients: N of the claimed delta.
        c_d: C_d of the claimed delta, min(sqrt(d), 10) in the paper.
        loss: "quadratic", "logistic" or a function of the state; both the loss that drives the
            state down and the cost that a client minds.
        privacy: How the claimed delta, the uncapped exponential, enters the cost. "rate": beta
            delta(s) per unit of time, as in the paper's eqs. 5.6, C.4 and appendix C.6; a constant
            strength then pays it T times. "once": beta times the mean of delta(s) over time, so
            that a constant strength pays it once, as eq. 5.3 reads. They agree for T = 1.
        initial_mean: Mean of the Gaussian density at time 0.
        initial_std: Its standard deviation.
        initial_density: A function of the state in place of that Gaussian, >= 0 and not all 0; it
            is scaled to mass 1.
        damping: Weight in (0, 1] of the new path of means in each Picard iteration. With 1 the
            iteration converged in all settings tried; it is slow where lambda is large.
        max_iterations: Picard iterations, at least 1.
        tolerance: Largest residual of a converged solution: by how much the mean state answers
            differently to its own path, in units of x.
        policy_iterations: Policy iterations in one time step, at least 1.
    """

    name: ClassVar[str] = "hjb-fpk"

    x_min: float = -6.0
    x_max: float = 6.0
    points: int = Field(default=400, ge=10, le=100_000)
    horizon: Positive = 1.0
    time_steps: int = Field(default=200, ge=1, le=1_000_000)
    theta: Positive = 0.5
    s0: float = 1.01
    s_min: Positive = 0.1
    s_max: Positive = 2.0
    prior_std: Positive = 1.0
    variance_penalty: float = Field(default=0.01, ge=0, le=1e9)
    betas: tuple[Positive, ...] = Field(default=(1.0,), min_length=1)
    weights: tuple[Positive, ...] = ()
    num_clients: int = Field(default=10, ge=1)
    c_d: float = Field(default=1.0, gt=0, le=10)
    loss: Literal["quadratic", "logistic"] | Curve = "quadratic"
    privacy: Literal["rate", "once"] = "rate"
    initial_mean: float = 0.0
    initial_std: Positive = 1.0
    initial_density: Curve | None = None
    damping: float = Field(default=1.0, gt=0, le=1)
    max_iterations: int = Field(default=100, ge=1)
    tolerance: float = Field(default=1e-9, gt=0)
    policy_iterations: int = Field(default=50, ge=1)

    @field_validator("x_max")
    @classmethod
    def _above_x_min(cls, value: float, info: ValidationInfo) -> float:
        low = info.data.get("x_min")
        if low is not None and not value > low:
            raise ValueError(f"must be above x-min = {low}")
        return value

    @field_validator("s_max")
    @classmethod
    def _at_least_s_min(cls, value: float, info: ValidationInfo) -> float:
        low = info.data.get("s_min")
        if low is not None and value < low:
            raise ValueError(f"must be at least s-min = {low}")
        return value

    @field_validator("weights")
    @classmethod
    def _one_a_type(cls, value: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        betas = info.data.get("betas")
        if not value or betas is None:
            return value
        if len(value) != len(betas) or abs(math.fsum(value) - 1) > SUM_SLACK:
            raise ValueError(f"must be {len(betas)} numbers, one a beta, of sum 1")
        return value

    @model_validator(mode="after")
    def _can_be_computed(self) -> Self:
        exponent = self.theta * (self.s0 - self.s_min)
        if exponent > MOST_EXPONENT:
            raise ValueError(
                f"theta (s0 - s-min) = {exponent:.6g}: must be at most {MOST_EXPONENT:g}, or the "
                "claimed delta is too large for a number"
            )
        values = self.points * (self.time_steps + 1) * len(self.betas)
        if values > MOST_VALUES:
            raise ValueError(
                f"points x (time-steps + 1) x types = {values}: must be at most {MOST_VALUES}"
            )
        return self

    def shares(self) -> FloatArray:
        """Return the types' shares of the population, shape (types,)."""
        return np.array(self.weights or [1 / len(self.betas)] * len(self.betas))

    def prices(self) -> FloatArray:
        """Return what each type pays, per unit of time, for exp(-theta (s - s0)); shape (types,).

        beta C_d/sqrt N, divided by the horizon where privacy is paid "once".
        """
        spread = self.horizon if self.privacy == "once" else 1.0
        return np.array(self.betas) * (self.c_d / math.sqrt(self.num_clients) / spread)

    def loss_at(self, x: FloatArray) -> FloatArray:
        """Return the loss at states x, of their shape.

        Raises:
            ValueError: A loss given as a function returns another shape, or a value that is not
                finite.
        """
        curve = LOSSES[self.loss] if isinstance(self.loss, str) else self.loss
        return _checked("loss", curve, x)

    def density_at(self, x: FloatArray) -> FloatArray:
        """Return the density at time 0, up to a factor, at states x, of their shape.

        Raises:
            ValueError: It is negative, not finite, 0 everywhere or of another shape.
        """
        if self.initial_density is None:
            scaled = (x - self.initial_mean) / self.initial_std
            values = np.exp(-(scaled**2) / 2)
        else:
            values = _checked("initial-density", self.initial_density, x)
        if values.min() < 0 or not values.sum() > 0:
            raise ValueError(
                f"initial-density: values from {values.min():.6g} to {values.max():.6g} on the "
                "grid; they must be >= 0, and > 0 somewhere in [x-min, x-max]"
            )
        return values


def _checked(name: str, curve: Curve, x: FloatArray) -> FloatArray:
    values = np.asarray(curve(x), dtype=np.float64)
    if values.shape != x.shape:
        raise ValueError(f"{name}: returns shape {values.shape}; must be {x.shape}, one a state")
    bad = ~np.isfinite(values)
    if bad.any():
        where = int(np.argmax(bad))
        raise ValueError(f"{name}: is {values[where]} at x = {x[where]:.6g}; must be finite")
    return values
