"""Bounds on what a transcript tells about one player under correlation (PML paper, Lemma 5).

As printed, (2) has 2^(N-1) - 1 in both places where beta 2^(N-1) - 1 belongs and then is no lower
bound, and (3) leaves out what beta must do as N grows. Below is what the proof gives.
"""

from __future__ import annotations

import math

import numpy as np

from fedgame.accountants.pml_bounds import Bound
from fedgame.accountants.pml_distances import Source, closed_form
from fedgame.accountants.pml_prior import Prior

CONSTRUCTION = (
    "equal starts, equal messages of all players and one pair of types, under the correlated prior"
)


def lemma_5_upper(prior: Prior, group: Bound) -> Bound:
    """Return -log((1 - a) e^-G + a) with a the least marginal of a player (PML paper, Lemma 5 (1)).

    It holds for every prior: P(o|F_i = s) and P(o|F_i = t) are averages of numbers within a factor
    e^G of each other.

    Args:
        prior: What everybody knows about the types.
        group: A bound on the log-likelihood ratio of any two profiles, such as group DP or
            Corollary 2; values of shape (...).

    Returns:
        Values of shape (..., N), with the source of `group`.
    """
    rarest = np.where(prior.support, prior.log_marginals, 0.0).min(axis=-1)
    alpha = np.exp(rarest)
    ratio = np.exp(-group.value)[..., None]
    value = np.maximum(-np.log((1 - alpha) * ratio + alpha), 0.0)
    return Bound("Lemma 5 (1)", value, group.source)


def lemma_5_lower(num_players: int, alpha: float, beta: float, epsilon: float) -> Bound:
    """Return l(F_1 -> o) of the transcript that Lemma 5 (2) of the PML paper constructs.

    All players start alike and send the same, and between the two types each message's
    log-likelihood differs by epsilon in favour of type 0, so that the supremum over transcripts is
    at least this.

    Args:
        num_players: N >= 2.
        alpha: Probability of type 0 for player 1, in (0, 1/2).
        beta: In (0, 1).
        epsilon: epsilon_o > 0.

    Returns:
        One number, a lower bound on the supremum.

    Raises:
        ValueError: An argument is out of range.
    """
    _check(alpha, epsilon)
    if num_players < 2:
        raise ValueError(f"num_players = {num_players}: must be at least 2")
    if not 0 < beta < 1:
        raise ValueError(f"beta = {beta}: must be between 0 and 1, both excluded")
    others = num_players - 1
    # numerator and denominator over 2^(N-1), which would overflow
    together = beta - 2.0**-others
    mean = (1 - beta) * ((1 + math.exp(-epsilon)) / 2) ** others
    unlike = math.exp(-epsilon) * (together * math.exp(-others * epsilon) + mean)
    value = -math.log((1 - alpha) * unlike / (together + mean) + alpha)
    source = Source(rigorous=True, covers="this transcript", text=CONSTRUCTION)
    return Bound("Lemma 5 (2)", np.asarray(value), source)


def lemma_5_limit(alpha: float, epsilon: float, decay: float = 1.0) -> Bound:
    """Return the limit of `lemma_5_lower` as N grows, where beta falls as decay^N.

    It is log 1/alpha, as Lemma 5 (3) of the PML paper has it for every beta, only where
    beta (2 / (1 + e^-epsilon))^N grows without limit. Where that tends to 0, the others' messages
    tell nothing and the limit is what player 1's own message leaks.

    Args:
        alpha: In (0, 1/2).
        epsilon: epsilon_o > 0.
        decay: In (0, 1]; 1 for a constant beta.

    Raises:
        ValueError: An argument is out of range, or the decay is (1 + e^-epsilon) / 2 itself, where
            the limit depends on the constant in front.
    """
    _check(alpha, epsilon)
    if not 0 < decay <= 1:
        raise ValueError(f"decay = {decay}: must be above 0 and at most 1")
    critical = (1 + math.exp(-epsilon)) / 2
    if decay == critical:
        raise ValueError(f"decay = {decay}: must differ from (1 + exp(-epsilon)) / 2")
    if decay > critical:
        value, text = -math.log(alpha), "beta outweighs the profiles that differ, as N grows"
    else:
        value = -math.log((1 - alpha) * math.exp(-epsilon) + alpha)
        text = "the profiles that differ outweigh beta, as N grows"
    return Bound("Lemma 5 (3)", np.asarray(value), closed_form(f"{text}; {CONSTRUCTION}"))


def _check(alpha: float, epsilon: float) -> None:
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha = {alpha}: must be between 0 and 1/2, both excluded")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon = {epsilon}: must be finite and > 0")
