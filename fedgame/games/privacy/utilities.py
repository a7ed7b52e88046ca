"""Disutilities of the privacy games: loss terms, privacy terms and their sensitivities.

A client's disutility over a grid of strengths is U(s) = loss(s; s-bar) + beta privacy(s) (MFPG
paper, eq. 3.3). Only the loss term depends on data. Each form of it is a sum of non-negative
contributions, one an example, over a public divisor, and sensitivities are those of that sum.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from fedgame.games.best_response import FloatArray
from fedgame.ledger.events import Neighbours

Coupling: TypeAlias = Literal["residual", "own", "aggregate"]
"""Whose noise is in the state whose loss a client minds."""


def effective_strength(
    grid: FloatArray, mean_strength: float, num_clients: int, coupling: Coupling
) -> FloatArray:
    """Return the strength behind the noise of the state whose loss the client minds.

    That state's noise has variance 2 tau steps times the returned value, per coordinate:

    - "own": s, the client's own state. Nothing couples the players: the MFPG paper's reading.
    - "residual": s + s-bar/N, its own state and what the others' noise leaves in the average;
      tends to "own" as N grows.
    - "aggregate": (s + (N - 1) s-bar)/N^2, the average itself. Noise is a public bad.

    Args:
        grid: The client's possible strengths s, shape (m,).
        mean_strength: s-bar, the broadcast mean of all clients' strengths.
        num_clients: N.
        coupling: One of the three.
    """
    if coupling == "own":
        return grid
    if coupling == "residual":
        return grid + mean_strength / num_clients
    return (grid + (num_clients - 1) * mean_strength) / num_clients**2


def capped_mean(values: FloatArray, cap: float, divisor: float | FloatArray) -> FloatArray:
    """Return min(cap, sum_i clip(v_i, 0, cap)/divisor), the private mean behind every loss term.

    The outer cap matters only for a Poisson batch larger than expected. It bounds what a whole
    client contributes, and is monotone and 1-Lipschitz, so that one example's sensitivity and the
    sign of its effect stay as they are.

    Args:
        values: One value an example, shape (examples, ...); NaN counts as 0. No examples, as in an
            empty batch, give 0.
        cap: Bound on one value, > 0.
        divisor: The public n_k, or q n_k on a Poisson batch; an array is of a shape that fits one
            example's values.

    Returns:
        Shape of one example's values.
    """
    clipped = np.clip(np.where(np.isnan(values), 0.0, values), 0.0, cap)
    return np.asarray(np.minimum(clipped.sum(axis=0, dtype=np.float64) / divisor, cap))


def measured_loss(losses: FloatArray, cap: float, divisor: float | FloatArray) -> FloatArray:
    """Return the mean loss increment over the smallest strength (MFPG paper, eq. 5.1).

    The value is `capped_mean` of l_i(s_j) - l_i(s_min). Increments and not losses are clipped: they
    are small where losses are not, so the cap and with it the sensitivity can be small.

    Args:
        losses: l_i(s_j), loss of example i at the state privatised with strength s_j, shape
            (examples, m), or of clients that have equally many (examples, clients, m); the last
            axis in increasing order of strength. The noise must be common to it and independent of
            the noise of any release.
        cap: D, bound on one example's increment.
        divisor: The public n_k, or q n_k on a Poisson batch; of several clients shape (clients, 1).

    Returns:
        Shape (m,) or (clients, m), from 0 (always at the smallest strength) to D. An example whose
        loss at the smallest strength is not finite counts as 0; a loss that is NaN elsewhere counts
        as D.
    """
    values = np.asarray(losses, dtype=np.float64)
    base = values[..., :1]
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and inf are handled just below
        increments = values - base
    increments = np.where(np.isnan(increments), cap, increments)
    return capped_mean(np.where(np.isfinite(base), increments, 0.0), cap, divisor)


def surrogate_loss(loss: float | FloatArray, grid: FloatArray, offset: float) -> FloatArray:
    """Return L_k/(s + c), the loss term of the MFPG paper's eq. 6.1.

    It falls in s, as a privacy term does, so that nothing holds a client back from the largest
    strength; it is kept for fidelity.

    Args:
        loss: L_k, the latest mean loss, a number or shape (clients,); `capped_mean` of the losses
            where its sensitivity matters.
        grid: Strengths s, shape (m,).
        offset: c > 0.

    Returns:
        Shape (m,) or (clients, m).
    """
    return np.asarray(np.asarray(loss, dtype=np.float64)[..., None] / (grid + offset))


def quadratic_loss(
    curvature: float | FloatArray, tau: float, effective: FloatArray, steps: int = 1
) -> FloatArray:
    """Return kappa_k tau s steps, the expected loss that noise adds to second order.

    Noise of variance v = 2 tau s steps in each coordinate raises a loss with Hessian H by
    E[xi^T H xi]/2 = tr(H) v/2, exactly so if the loss is quadratic.

    Args:
        curvature: kappa_k, trace of the Hessian of the client's loss, a number or shape (clients,).
        tau: Step size.
        effective: Strengths as `effective_strength` returns them, shape (m,).
        steps: Local steps whose noise adds up.

    Returns:
        Shape (m,) or (clients, m).
    """
    return np.asarray(np.asarray(curvature, dtype=np.float64)[..., None] * tau * steps * effective)


def measured_sensitivity(cap: float, divisor: float, neighbours: Neighbours) -> float:
    """Return Delta of `measured_loss`: D/divisor for one example, D for a whole client.

    Args:
        cap: D.
        divisor: The public n_k, or q n_k on a Poisson batch.
        neighbours: The relation; under the two client relations the divisor drops out.
    """
    return cap / divisor if neighbours == "example" else cap


def surrogate_sensitivity(
    loss_cap: float,
    divisor: float,
    smallest_strength: float,
    offset: float,
    neighbours: Neighbours,
) -> float:
    """Return Delta of `surrogate_loss` of a capped mean: L_max/(divisor (s_min + c)).

    Args:
        loss_cap: L_max, bound on one example's loss.
        divisor: The public n_k, or q n_k on a Poisson batch; drops out for a whole client.
        smallest_strength: s_min of the grid.
        offset: c.
        neighbours: The relation.
    """
    return measured_sensitivity(loss_cap, divisor, neighbours) / (smallest_strength + offset)


def quadratic_sensitivity(
    curvature_cap: float,
    tau: float,
    effective: FloatArray,
    divisor: float,
    neighbours: Neighbours,
    steps: int = 1,
) -> float:
    """Return Delta of `quadratic_loss` of a capped mean: kappa_max tau steps (s_max - s_min)/n_k.

    Choice probabilities do not change when a constant is added to U, so only the excess over the
    smallest strength counts. It is 0 for a grid of one strength, where a choice reveals nothing.

    Args:
        curvature_cap: kappa_max, bound on one example's trace.
        tau: Step size.
        effective: Strengths as `effective_strength` returns them, shape (m,), increasing.
        divisor: The public n_k, or q n_k on a Poisson batch; drops out for a whole client.
        neighbours: The relation.
        steps: Local steps whose noise adds up.
    """
    spread = float(effective[-1] - effective[0])
    return measured_sensitivity(curvature_cap, divisor, neighbours) * tau * steps * spread


def is_monotone(neighbours: Neighbours) -> bool:
    """Return whether going to a neighbour moves U the same way, if at all, at every strength.

    An example, or a client, that is added can only add to each of the three loss terms, since
    contributions are clipped to be non-negative (the quadratic term seen from the smallest
    strength). Then the choice P(s) ~ exp(-e U(s)/Delta) is e-DP; otherwise, as when one client
    replaces another, it must be exp(-e U(s)/(2 Delta)) (McSherry and Talwar 2007).
    """
    return neighbours != "client-replace"


def privacy_cost(values: FloatArray, cost: float) -> FloatArray:
    """Return cost times privacy(s): the public half of a disutility, before the weight beta_k.

    Args:
        values: The epsilon, or the delta, that each strength of the grid leads to over the planned
            rounds, shape (..., m).
        cost: Price of one unit of it, in units of loss.

    Raises:
        ValueError: A value is negative or NaN.
    """
    if not (values >= 0).all():
        raise ValueError("an epsilon or delta is negative or NaN")
    return cost * values


def disutility(
    loss_term: FloatArray, privacy_term: FloatArray, beta: float | FloatArray
) -> FloatArray:
    """Return U_k(s) = loss term + beta_k privacy term (MFPG paper, eq. 3.3 and 5.1).

    Args:
        loss_term: Shape (m,) or (clients, m).
        privacy_term: As `privacy_cost` returns it, shape (m,) or (clients, m).
        beta: A number, or shape (clients,).

    Returns:
        Shape (m,) or (clients, m).
    """
    return np.asarray(loss_term + np.asarray(beta, dtype=np.float64)[..., None] * privacy_term)
