"""Pointwise maximal leakage of transcripts, exactly (PML paper, Definition 2, Proposition 1).

Given the transcript o, a player's trajectory depends on o and on its own type only, so that
P(o|f) = prod_i L_i(f_i; o), and a finite number of types makes the leakage a number that can be
computed rather than bounded. It covers every adversary who sees the transcript or a part of it and
knows the prior; it does not cover a player, who knows its own type as well, and it is about the
prior that is given: under another one it is another number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml_logs import FloatArray
from fedgame.accountants.pml_prior import Prior

ROUNDING = 1e-14
"""Less than this is what 1 is off by when it is a sum, and no leakage."""


def exact_leakage(prior: Prior, log_likelihoods: ArrayLike) -> FloatArray:
    """Return l(F -> o) = max_f log P(o|f) - log P(o), over the f of the prior's support.

    Args:
        prior: What everybody knows about the types.
        log_likelihoods: log L_i(t; o), shape (..., N, m); leading axes are transcripts or prefixes.
            A constant per player changes nothing.

    Returns:
        Shape (...), >= 0, in nats.

    Raises:
        ValueError: The shape does not fit the prior, or a value is not finite.
    """
    logs = prior.centred(log_likelihoods)
    return _no_rounding(prior.max_log_likelihood(logs) - prior.log_evidence(logs))


def individual_leakage(prior: Prior, log_likelihoods: ArrayLike) -> FloatArray:
    """Return l(F_i -> o) = max_t log P(o|F_i = t) - log P(o) of each player (PML paper, 4.2).

    Args:
        prior: What everybody knows about the types.
        log_likelihoods: log L_i(t; o), shape (..., N, m).

    Returns:
        Shape (..., N), >= 0, in nats.

    Raises:
        ValueError: The shape does not fit the prior, or a value is not finite.
    """
    marginals = np.where(prior.support, prior.log_marginals, 0.0)
    ratios = _log_posterior(prior, log_likelihoods) - marginals
    return _no_rounding(ratios.max(axis=-1))


def posterior(prior: Prior, log_likelihoods: ArrayLike) -> FloatArray:
    """Return P(F_i = t | o), what an adversary who does its best knows about each player.

    Args:
        prior: What everybody knows about the types.
        log_likelihoods: log L_i(t; o), shape (..., N, m).

    Returns:
        Shape (..., N, m), each row sums to 1.

    Raises:
        ValueError: The shape does not fit the prior, or a value is not finite.
    """
    return np.asarray(np.exp(_log_posterior(prior, log_likelihoods)))


def bayes_log_gain(prior: Prior, log_likelihoods: ArrayLike) -> FloatArray:
    """Return what the transcript adds to the number of types that an adversary expects to guess.

    The gain is how many players' types are guessed right (PML paper, Remark 3); the number returned
    is the logarithm of the best expected gain after the transcript over the best one before it. It
    is at most l(F -> o).

    Args:
        prior: What everybody knows about the types.
        log_likelihoods: log L_i(t; o), shape (..., N, m).

    Returns:
        Shape (...); where it is negative the transcript made the adversary less sure.

    Raises:
        ValueError: The shape does not fit the prior, or a value is not finite.
    """
    after = posterior(prior, log_likelihoods).max(axis=-1).sum(axis=-1)
    before = np.exp(prior.log_marginals).max(axis=-1).sum()
    return np.asarray(np.log(after / before))


def individual_bayes_log_gain(prior: Prior, log_likelihoods: ArrayLike) -> FloatArray:
    """Return the same for the guess of one player's type, at most l(F_i -> o).

    Args:
        prior: What everybody knows about the types.
        log_likelihoods: log L_i(t; o), shape (..., N, m).

    Returns:
        Shape (..., N).

    Raises:
        ValueError: The shape does not fit the prior, or a value is not finite.
    """
    after = _log_posterior(prior, log_likelihoods).max(axis=-1)
    return np.asarray(after - prior.log_marginals.max(axis=-1))


def _no_rounding(leakage: FloatArray) -> FloatArray:
    """Return leakages with 0 for what is only the rounding of a sum of probabilities."""
    return np.where(leakage > ROUNDING, leakage, 0.0)


def _log_posterior(prior: Prior, log_likelihoods: ArrayLike) -> FloatArray:
    logs = prior.centred(log_likelihoods)
    joint = prior.log_joint_by_type(logs)
    return joint - prior.log_evidence(logs)[..., None, None]
