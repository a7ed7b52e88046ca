"""Upper bounds on the leakage of a transcript (PML paper, sections 3 and 4).

Each takes the distances over the noise of `pml_distances`, shape (..., K, N, m, m) with transcripts
along the leading axes, and returns its value after each of the K iterations. Along one transcript
l(F -> o) <= Theorem 1 <= Corollary 1 <= Corollary 2, and Theorem 1 <= group DP; with distances that
hold for every transcript, so do the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml_distances import REALISED, Source, closed_form
from fedgame.accountants.pml_logs import FloatArray
from fedgame.accountants.pml_prior import Prior

SAFE = "; the least favourable profile is bounded in each component of the prior by itself"
FIXED_PRIOR = "; no bound, since the prior is not updated by the messages before"


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """One bound.

    Attributes:
        name: What it is called in reports.
        value: In nats; the axis of iterations, if any, says after which one it holds.
        source: Whether it is rigorous, what it covers, and why.
    """

    name: str
    value: FloatArray
    source: Source


def theorem_1(prior: Prior, distances: ArrayLike, source: Source = REALISED) -> Bound:
    """Return max_f' -log E_f exp(-sum_k Delta(k, f, f')/M_k) (PML paper, Theorem 1, eq. 7).

    The maximum is exact for products and tables, and bounded from above for other priors.

    Args:
        prior: What everybody knows about the types.
        distances: Shape (..., K, N, m, m).
        source: Where they come from; with distances for every transcript it is the theorem itself.

    Returns:
        Values of shape (..., K).

    Raises:
        ValueError: The shape does not fit the prior.
    """
    gaps = _checked(prior, distances)
    value = -prior.log_floor(-np.cumsum(gaps, axis=-4))
    return Bound("Theorem 1", np.maximum(value, 0.0), _safe(prior, source))


def corollary_1(prior: Prior, distances: ArrayLike, source: Source = REALISED) -> Bound:
    """Return -log E_f exp(-sum_k Delta'(k, f)/M_k), Delta' the largest over f' (Corollary 1).

    Delta' is taken player by player, which is the same where every combination of types is
    possible and larger where not.

    Args:
        prior: What everybody knows about the types.
        distances: Shape (..., K, N, m, m).
        source: Where they come from.

    Returns:
        Values of shape (..., K).

    Raises:
        ValueError: The shape does not fit the prior.
    """
    largest = _checked(prior, distances).max(axis=-2)
    value = -prior.log_evidence(-np.cumsum(largest, axis=-3))
    return Bound("Corollary 1", np.maximum(value, 0.0), source)


def corollary_2(prior: Prior, distances: ArrayLike, source: Source = REALISED) -> Bound:
    """Return sum_k Delta''(k)/M_k, Delta'' the largest over f and f' (PML paper, Corollary 2).

    It is the sum over players; the paper's 2 lr C/M is the part of one player.

    Args:
        prior: Only its support matters.
        distances: Shape (..., K, N, m, m).
        source: Where they come from.

    Returns:
        Values of shape (..., K).

    Raises:
        ValueError: The shape does not fit the prior.
    """
    largest = _checked(prior, distances).max(axis=(-2, -1)).sum(axis=-1)
    return Bound("Corollary 2", np.cumsum(largest, axis=-1), source)


def individual_dp(prior: Prior, distances: ArrayLike, source: Source = REALISED) -> Bound:
    """Return each player's differential privacy, max_{s,t} sum_k |v_i(s) - v_i(t)|_1 / M_k.

    It bounds l(F_i -> o) if types are independent (PML paper, Proposition 3); not if they are
    correlated (Theorem 3), and is then marked as no bound.

    Args:
        prior: What everybody knows about the types.
        distances: Shape (..., K, N, m, m).
        source: Where they come from.

    Returns:
        Values of shape (..., K, N).

    Raises:
        ValueError: The shape does not fit the prior.
    """
    value = np.cumsum(_checked(prior, distances), axis=-4).max(axis=(-2, -1))
    if not prior.is_product:
        text = f"{source.text}; no bound on the leakage of correlated types"
        source = replace(source, rigorous=False, text=text)
    return Bound("DP of one player", value, source)


def group_dp(prior: Prior, distances: ArrayLike, source: Source = REALISED) -> Bound:
    """Return N times the largest DP of one player: DP for groups of size N (Proposition 2).

    Args:
        prior: Only its support matters.
        distances: Shape (..., K, N, m, m).
        source: Where they come from.

    Returns:
        Values of shape (..., K).

    Raises:
        ValueError: The shape does not fit the prior.
    """
    single = individual_dp(prior, distances, source)
    return Bound("group DP", prior.num_players * single.value.max(axis=-1), source)


def composition(prior: Prior, log_likelihoods: ArrayLike, distances: ArrayLike) -> Bound:
    """Return the sum over iterations of Theorem 1 for one message, under the posterior before it.

    It is what Remark 5 of the PML paper needs to be a bound: l(F -> o) is at most the sum of the
    leakages of each message, once the prior has been updated by the messages before.

    Args:
        prior: What everybody knows about the types.
        log_likelihoods: log L_i(t) after each iteration, shape (..., K, N, m).
        distances: Those along the same transcript, shape (..., K, N, m, m).

    Returns:
        Values of shape (..., K).

    Raises:
        ValueError: The shapes do not fit the prior, or each other.
    """
    gaps = _checked(prior, distances)
    logs = prior.checked(log_likelihoods)
    if gaps.shape[:-1] != logs.shape:
        raise ValueError(f"distances of shape {gaps.shape} for likelihoods of shape {logs.shape}")
    before = np.concatenate([np.zeros_like(logs[..., :1, :, :]), logs[..., :-1, :, :]], axis=-3)
    before = prior.centred(before)
    steps = prior.log_evidence(before) - prior.log_floor(before[..., None, :] - gaps)
    value = np.cumsum(np.maximum(steps, 0.0), axis=-1)
    return Bound("composition", value, _safe(prior, REALISED))


def fixed_prior_composition(prior: Prior, distances: ArrayLike, source: Source = REALISED) -> Bound:
    """Return the sum over iterations of Theorem 1 for one message, all under the prior (Remark 5).

    It is no bound: two messages that show two halves of a rare type each cost little by
    themselves.

    Args:
        prior: What everybody knows about the types.
        distances: Shape (..., K, N, m, m).
        source: Where they come from.

    Returns:
        Values of shape (..., K), marked as not rigorous.

    Raises:
        ValueError: The shape does not fit the prior.
    """
    steps = -prior.log_floor(-_checked(prior, distances))
    marked = replace(source, rigorous=False, text=source.text + FIXED_PRIOR)
    return Bound("Remark 5", np.cumsum(steps, axis=-1), marked)


def ceiling(prior: Prior) -> Bound:
    """Return log 1/min P(f) over the support: nothing can leak more (PML paper, section 4.2).

    For mixtures other than the paper's correlated prior it may be above that.
    """
    source = closed_form("the rarest profile has no smaller probability")
    return Bound("ceiling", np.asarray(-prior.log_smallest), source)


def individual_ceiling(prior: Prior) -> Bound:
    """Return log 1/min_t P(F_i = t) over each player's support, shape (N,)."""
    rarest = np.where(prior.support, prior.log_marginals, 0.0).min(axis=-1)
    source = closed_form("the player's rarest type has that probability")
    return Bound("individual ceiling", -rarest, source)


def _checked(prior: Prior, distances: ArrayLike) -> FloatArray:
    """Return distances with 0 for types that a player cannot have."""
    gaps = np.asarray(distances, dtype=np.float64)
    expected = (prior.num_players, prior.num_types, prior.num_types)
    if gaps.ndim < 4 or gaps.shape[-3:] != expected:
        raise ValueError(
            f"distances of shape {gaps.shape}: must be (.., iterations, players, types, types) "
            f"with the last three {expected}"
        )
    possible = prior.support[:, :, None] & prior.support[:, None, :]
    return np.where(possible, gaps, 0.0)


def _safe(prior: Prior, source: Source) -> Source:
    return source if prior.floor_is_exact else replace(source, text=source.text + SAFE)
