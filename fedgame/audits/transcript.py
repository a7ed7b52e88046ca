"""What a transcript leaked: exactly, by every bound, by two attacks, and what it was good for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedgame.accountants.pml import exact_leakage, individual_leakage
from fedgame.accountants.pml_bounds import Bound, ceiling, individual_ceiling
from fedgame.accountants.pml_distances import message_distances
from fedgame.accountants.pml_logs import FloatArray, IntArray
from fedgame.accountants.pml_prior import Prior
from fedgame.audits.bayes import BayesGuess, bayes_guess
from fedgame.audits.gradient_matching import Gains, GradientMatching
from fedgame.audits.quadratic_parameters import Unknowns, blind_gain
from fedgame.audits.transcript_bounds import (
    RunningBounds,
    blocks,
    every_transcript,
    exact_floors,
    realised_bounds,
)
from fedgame.audits.transcript_outcome import progress
from fedgame.games.aggregative.base import check_types
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.likelihood import Follower, log_likelihoods
from fedgame.games.aggregative.monotone import smallest_eigenvalue
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.aggregative.transcript import Transcript
from fedgame.randomness import public_generator


@dataclass(frozen=True, eq=False)
class GradientMatchingAttack:
    """What the gradient-matching adversary found (PML paper, eq. 9).

    Attributes:
        gain: Cosine similarity of guess and true parameters, plus 1, after each iteration, shape
            (K',).
        individual_gain: The same for each player's own parameters, shape (K', N).
        blind_gain: The best expected gain of a guess that saw no message.
        individual_blind_gain: The same for each player, shape (N,).
    """

    gain: FloatArray
    individual_gain: FloatArray
    blind_gain: float
    individual_blind_gain: FloatArray


@dataclass(frozen=True, eq=False)
class Outcome:
    """What only who knows the true types can say; nobody does in a deployment.

    Attributes:
        error: Euclidean distance of the strategies behind each iteration's messages, x_0 in
            iteration 0, to the equilibrium, shape (K',); None where the game is not strongly
            monotone or its equilibrium cannot be computed.
        exploitability: The most that a player could gain by itself from these strategies, shape
            (K',).
        exploitability_is_exact: Whether that is the largest gain, or only the largest found, which
            is looked for on at most 20 iterations; those after each repeat its number.
        true_type_probability: Posterior probability of each player's true type at the end, shape
            (N,).
        share_right: Share of the players whose likeliest type at the end is the true one.
        attack: What gradient matching found; None where the game has no parameters to guess.
    """

    error: FloatArray | None
    exploitability: FloatArray
    exploitability_is_exact: bool
    true_type_probability: FloatArray
    share_right: float
    attack: GradientMatchingAttack | None


@dataclass(frozen=True, eq=False)
class TranscriptAudit:
    """All numbers about one transcript of K' iterations; everything in nats is about its prefix.

    Attributes:
        leakage: l(F -> o) after each iteration, shape (K',).
        individual_leakage: l(F_i -> o), shape (K', N).
        bounds: Upper bounds on `leakage`, values of shape (K',), or on `individual_leakage`, of
            shape (K', N); their sources say what each is worth.
        ceiling: What can leak at most, whatever is sent.
        individual_ceiling: The same for each player, shape (N,).
        posterior: Probability of each type of each player at the end, shape (N, m).
        bayes_log_gain: What the best guess of types gained by the transcript, shape (K',).
        individual_bayes_log_gain: The same for each player, shape (K', N).
        guesses: The likeliest type of each player at the end, shape (N,).
        outcome: What depends on the true types; None if they are not known here.
        smallest_eigenvalue: Of the symmetric part of the pseudo-gradient, the smallest over
            profiles looked at; None if the game is not quadratic.
    """

    leakage: FloatArray
    individual_leakage: FloatArray
    bounds: tuple[Bound, ...]
    ceiling: Bound
    individual_ceiling: Bound
    posterior: FloatArray
    bayes_log_gain: FloatArray
    individual_bayes_log_gain: FloatArray
    guesses: IntArray
    outcome: Outcome | None
    smallest_eigenvalue: float | None


def audit_transcript(
    transcript: Transcript, dynamics: Dynamics, prior: Prior, types: IntArray | None
) -> TranscriptAudit:
    """Return all numbers about one transcript; the same arguments give the same numbers.

    Iterations are worked on together as far as they fit in memory, so that what is kept is O(K' N)
    but for the arrays of one stretch. The exploitability costs one best response of every player
    an iteration.

    Args:
        transcript: What was sent, K' iterations, at most as many as were planned.
        dynamics: The public part of the run.
        prior: What everybody knows about the types.
        types: Each player's type, shape (N,), where they are known; not a secret of anybody then.

    Raises:
        ValueError: Transcript, prior and dynamics are not of the same players and types, or the
            transcript is longer than the schedules.
    """
    _check(transcript, dynamics, prior)
    known = None if types is None else check_types(dynamics.game, types)
    exact = exact_floors(prior)
    running = RunningBounds(exact)
    parts, logs = _along(transcript, dynamics, prior, running)
    end = bayes_guess(prior, logs)
    return TranscriptAudit(
        **_joined(parts),
        bounds=(
            *realised_bounds(running),
            *every_transcript(exact, dynamics, len(transcript)),
        ),
        ceiling=ceiling(exact),
        individual_ceiling=individual_ceiling(prior),
        posterior=end.posterior,
        guesses=end.guesses,
        outcome=None if known is None else _outcome(transcript, dynamics, prior, known, end),
        smallest_eigenvalue=smallest_eigenvalue(dynamics.game, prior, known),
    )


def _along(
    transcript: Transcript, dynamics: Dynamics, prior: Prior, running: RunningBounds
) -> tuple[list[_Leakage], FloatArray]:
    """Go through a transcript: extend the bounds, return what leaked and the last log L_i(t)."""
    follower = Follower(dynamics, support=prior.support)
    before = np.zeros((1, prior.num_players, prior.num_types))
    parts: list[_Leakage] = []
    for block in blocks(running.prior, dynamics, len(transcript)):
        v = _followed(follower, transcript, block)
        rows = transcript.messages[block], transcript.scales[block], transcript.sent[block]
        logs = before + log_likelihoods(rows[0], v, *rows[1:])
        running.extend_realised(message_distances(v, *rows[1:]), before, logs)
        parts.append(_Leakage.of(prior, logs))
        before = np.concatenate([before, logs])[-1:]
    return parts, before[0]


class _Leakage(NamedTuple):
    """What leaked in a stretch of iterations, exactly."""

    leakage: FloatArray
    individual_leakage: FloatArray
    bayes_log_gain: FloatArray
    individual_bayes_log_gain: FloatArray

    @classmethod
    def of(cls, prior: Prior, logs: FloatArray) -> _Leakage:
        guess = bayes_guess(prior, logs)
        return cls(
            exact_leakage(prior, logs),
            individual_leakage(prior, logs),
            guess.log_gain,
            guess.individual_log_gain,
        )


def _joined(parts: list[_Leakage]) -> dict[str, FloatArray]:
    columns = zip(*parts, strict=True)
    return {
        name: np.concatenate(column) for name, column in zip(_Leakage._fields, columns, strict=True)
    }


def _followed(follower: Follower, transcript: Transcript, block: slice) -> FloatArray:
    """Return what each type would have sent in a stretch of iterations, (iterations, N, m, n)."""
    rows = []
    for k in range(block.start, block.stop):
        if k > 0:
            follower.advance(transcript.messages[k - 1])
        rows.append(follower.next_messages)
    return np.array(rows).reshape(len(rows), *follower.next_messages.shape)


def _outcome(
    transcript: Transcript, dynamics: Dynamics, prior: Prior, types: IntArray, end: BayesGuess
) -> Outcome:
    """Return what depends on the true types."""
    reached = progress(dynamics, transcript.messages, types)
    return Outcome(
        error=reached.error,
        exploitability=reached.exploitability,
        exploitability_is_exact=reached.is_exact,
        true_type_probability=end.true_type_probability(types),
        share_right=float(end.share_right(types).mean()),
        attack=_attack(transcript, dynamics, prior, types),
    )


def _attack(
    transcript: Transcript, dynamics: Dynamics, prior: Prior, types: IntArray
) -> GradientMatchingAttack | None:
    """Return what gradient matching finds; its first guess comes from a public stream."""
    game = dynamics.game
    if not isinstance(game, QuadraticGame) or not Unknowns.of(game, dynamics.gradient).count:
        return None
    gains = Gains(np.zeros(0), np.zeros((0, game.num_players)))
    if len(transcript):
        rng = public_generator(0, "gradient matching")
        adversary = GradientMatching()
        gains = adversary.gains(dynamics, transcript.messages, types, rng, transcript.sent)
    return GradientMatchingAttack(*gains, *blind_gain(game, prior, public_generator(0, "profiles")))


def _check(transcript: Transcript, dynamics: Dynamics, prior: Prior) -> None:
    """Refuse parts that do not belong to one run."""
    game = dynamics.game
    wanted = game.num_players, game.dimension
    if transcript.messages.shape[1:] != wanted:
        found = transcript.messages.shape
        raise ValueError(
            f"transcript of shape {found}: must be (iterations, {wanted[0]}, {wanted[1]})"
        )
    if len(transcript) > len(dynamics.schedules):
        most = len(dynamics.schedules)
        raise ValueError(f"transcript of {len(transcript)} iterations: the schedules have {most}")
    pair = prior.num_players, prior.num_types
    if pair != (game.num_players, game.num_types):
        raise ValueError(
            f"prior of {pair[0]} players with {pair[1]} types: the game has {game.num_players} "
            f"with {game.num_types}"
        )
