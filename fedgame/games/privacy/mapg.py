"""MAPG-DP: each client picks a privacy budget, in closed form (MFPG paper, section 4.3).

The server averages w_j + N(0, sigma_j^2 I) with sigma_j = 2 lr C/epsilon_j (eq. 4.4), so to second
order client k loses U_k = (kappa_k/2N^2) sum_j sigma_j^2 + beta_k epsilon_k. The paper only cites
a closed form; this one is the minimiser of that U_k. Since U_k is separable, the best response
depends on nobody else: it is a dominant strategy.

This epsilon is no pure-DP budget but the inverse of a noise multiplier, as in Gaussian DP; what a
run costs is for an accountant to say.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic.dataclasses import dataclass

from fedgame.games.best_response import FloatArray
from fedgame.ledger.events import Neighbours


def mapg_best_response(
    curvature: FloatArray,
    beta: FloatArray,
    learning_rate: float,
    effective_clipping: float | FloatArray,
    num_clients: int,
    epsilon_min: float,
    epsilon_max: float,
) -> FloatArray:
    """Return epsilon_k* = (kappa_k (2 lr C)^2/(N^2 beta_k))^(1/3), clipped to the interval.

    U_k is convex in epsilon_k > 0 if kappa_k > 0, so that clipping its minimiser is exact. With
    kappa_k <= 0 noise does no harm, U_k increases, and the answer is `epsilon_min`.

    Args:
        curvature: kappa_k, trace of the Hessian of each client's loss, shape (clients,).
        beta: Price of one unit of epsilon in units of loss, > 0, shape (clients,).
        learning_rate: lr.
        effective_clipping: C, bound on the norm of what one example, or one whole client, adds to
            the averaged gradient: clipping norm/(q n_k) for neighbours "example", the clipping norm
            itself for the client relations; a number or shape (clients,).
        num_clients: N.
        epsilon_min: Smallest budget allowed, > 0.
        epsilon_max: Largest budget allowed.

    Raises:
        ValueError: A beta is not positive, or a curvature is NaN.
    """
    if not (beta > 0).all() or np.isnan(curvature).any():
        raise ValueError("every beta must be > 0 and no curvature NaN")
    noise_at_one = 2 * learning_rate * effective_clipping
    price = num_clients**2 * beta
    unconstrained = np.cbrt(np.maximum(curvature, 0.0) * noise_at_one**2 / price)
    return np.asarray(np.clip(unconstrained, epsilon_min, epsilon_max))


def mapg_disutility(
    actions: FloatArray,
    epsilons: FloatArray,
    curvature: FloatArray,
    beta: FloatArray,
    learning_rate: float,
    effective_clipping: float | FloatArray,
) -> FloatArray:
    """Return U_k of each client for each of its actions while all others keep their budgets.

    With columns (budget played, best response) and column 0 played, `exploitability` gives the
    exact gain over the whole interval, since the best response is a global minimiser.

    Args:
        actions: Budgets that client k considers, shape (clients, actions).
        epsilons: Budgets that the clients play, shape (clients,); N is their number.
        curvature: kappa_k, shape (clients,).
        beta: Price of one unit of epsilon in units of loss, shape (clients,).
        learning_rate: lr.
        effective_clipping: C, as in `mapg_best_response`.

    Returns:
        (kappa_k/2N^2) sum_j sigma_j^2 + beta_k epsilon_k, shape (clients, actions).
    """
    noise_at_one = np.broadcast_to(2 * learning_rate * effective_clipping, epsilons.shape)
    played = (noise_at_one / epsilons) ** 2
    others = played.sum() - played
    own = (noise_at_one[:, None] / actions) ** 2
    weight = curvature / (2 * len(epsilons) ** 2)
    return np.asarray(weight[:, None] * (others[:, None] + own) + beta[:, None] * actions)


def mapg_noise_multiplier(epsilon: FloatArray, neighbours: Neighbours) -> FloatArray:
    """Return z, noise standard deviation over sensitivity, of budgets epsilon_k.

    sigma = 2 lr C/epsilon is 1/epsilon times the 2 lr C by which a client that replaces another
    moves its update, and 2/epsilon times the lr C of one that is removed; likewise for an example.
    """
    return (1.0 if neighbours == "client-replace" else 2.0) / epsilon


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Mapg:
    """The MAPG-DP game.

    Attributes:
        epsilon_min: Smallest budget that a client may choose, > 0. Budgets are per step; the
            default is the noise multiplier 10 (5 where a client replaces another).
        epsilon_max: Largest budget, at least `epsilon_min`; it bounds what a run can cost
            beforehand. The default is the noise multiplier 2 (1 where a client replaces another).
        cost: Price of one unit of epsilon in units of loss, > 0: beta_k times it is the beta_k of
            the closed form; 1 in the paper.
        curvature: Where kappa_k comes from: "public" examples at the public state, free of charge,
            or the client's "own" data, an unaccounted release.
    """

    name: ClassVar[str] = "mapg"

    epsilon_min: float = Field(default=0.2, gt=0)
    epsilon_max: float = Field(default=1.0, gt=0)
    cost: float = Field(default=0.03, ge=1e-12, le=1e12)
    curvature: Literal["public", "own"] = "public"

    @field_validator("epsilon_max")
    @classmethod
    def _at_least_epsilon_min(cls, value: float, info: ValidationInfo) -> float:
        smallest = info.data.get("epsilon_min")
        if smallest is not None and value < smallest:
            raise ValueError(f"must be at least epsilon-min = {smallest}")
        return value

    def best_response(
        self,
        curvature: FloatArray,
        beta: FloatArray,
        learning_rate: float,
        effective_clipping: float | FloatArray,
        num_clients: int,
    ) -> FloatArray:
        """Return each client's budget, shape (clients,): `mapg_best_response` with this cost."""
        return mapg_best_response(
            curvature,
            self.cost * beta,
            learning_rate,
            effective_clipping,
            num_clients,
            self.epsilon_min,
            self.epsilon_max,
        )
