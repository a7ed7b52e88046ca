"""The adversary that does its best: it knows the prior and computes the exact posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml import bayes_log_gain, individual_bayes_log_gain, posterior
from fedgame.accountants.pml_logs import FloatArray, IntArray
from fedgame.accountants.pml_prior import Prior


@dataclass(frozen=True, eq=False)
class BayesGuess:
    """What the Bayes-optimal adversary makes of transcripts; nobody can guess more types right.

    Attributes:
        posterior: P(F_i = t | o), shape (..., N, m).
        guesses: The likeliest type of each player, the first of several, shape (..., N).
        log_gain: Logarithm of the number of types that it expects to guess right over the number
            that it expected before, in nats, shape (...); at most l(F -> o).
        individual_log_gain: The same for each player, shape (..., N); at most l(F_i -> o).
    """

    posterior: FloatArray
    guesses: IntArray
    log_gain: FloatArray
    individual_log_gain: FloatArray

    def true_type_probability(self, types: ArrayLike) -> FloatArray:
        """Return the posterior probability of the types that players have, shape (..., N).

        Args:
            types: Each player's type, shape (..., N).
        """
        chosen = np.broadcast_to(np.asarray(types), self.guesses.shape)[..., None]
        return np.take_along_axis(self.posterior, chosen, axis=-1)[..., 0]

    def share_right(self, types: ArrayLike) -> FloatArray:
        """Return on which share of the transcripts each player's type was guessed, shape (N,).

        Args:
            types: The types that players had, shape (..., N), of each transcript.
        """
        right = np.asarray(self.guesses == np.asarray(types), dtype=np.float64)
        return np.asarray(right.reshape(-1, right.shape[-1]).mean(axis=0))


def bayes_guess(prior: Prior, log_likelihoods: ArrayLike) -> BayesGuess:
    """Return the best guesses of types and what they gain (PML paper, Remark 3).

    Args:
        prior: What everybody knows about the types.
        log_likelihoods: log L_i(t; o), shape (..., N, m); leading axes are transcripts or
            iterations.

    Raises:
        ValueError: The shape does not fit the prior, or a value is not finite.
    """
    after = posterior(prior, log_likelihoods)
    return BayesGuess(
        posterior=after,
        guesses=np.asarray(after.argmax(axis=-1), dtype=np.int64),
        log_gain=bayes_log_gain(prior, log_likelihoods),
        individual_log_gain=individual_bayes_log_gain(prior, log_likelihoods),
    )
