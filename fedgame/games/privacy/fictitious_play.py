"""Fictitious play: each player answers all that the others have played so far (Brown 1951)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray, best_response
from fedgame.games.certificate import Exploitability, exploitability, mixed_exploitability
from fedgame.games.privacy.n_player import NPlayerGame, check_profile
from fedgame.games.privacy.tables import allowed_gains

MOST_PROFILES = 200_000
"""The largest game that is enumerated."""


@dataclass(frozen=True)
class FictitiousPlay:
    """What came of fictitious play, with its certificates.

    Attributes:
        frequencies: How often each player played each action, shape (N, m); rows sum to 1.
        exploitability: What each player could gain over its own frequencies against the joint
            distribution of what the others played. This is the exact certificate of `frequencies`
            as independent mixed strategies if there are two players, or if U is affine in the mean
            of the others; otherwise `product_exploitability` is.
        played: Index of each player's action in the last round, shape (N,).
        last: What each player could gain in the last profile.
        rounds: Rounds played.
        pure: Whether the last profile is a pure Nash equilibrium, where play stops.
        converged: `pure`, or no gain of `exploitability` above the tolerance.
        history: Largest gain of `exploitability` after each round, shape (rounds,).
        trivial: Whether the grid has one action, so that there was nothing to choose.
    """

    frequencies: FloatArray
    exploitability: Exploitability
    played: IntArray
    last: Exploitability
    rounds: int
    pure: bool
    converged: bool
    history: FloatArray
    trivial: bool


def fictitious_play(
    game: NPlayerGame, start: IntArray, max_rounds: int = 1000, tolerance: float = 1e-3
) -> FictitiousPlay:
    """Let players answer the empirical distribution of all past profiles.

    The belief is the joint distribution of what the others played, so that it works for any U: the
    expected disutility is the mean of the tables so far. With two players this is Brown's form.

    Args:
        game: The game.
        start: Index of each player's first action, shape (N,).
        max_rounds: Most rounds, at least 1.
        tolerance: Gain at which play stops, in units of U, at least 0.

    Raises:
        ValueError: The start is no profile, a disutility is not finite, or an argument is out of
            its range.
    """
    if max_rounds < 1 or not tolerance >= 0:
        raise ValueError(
            f"max_rounds = {max_rounds} and tolerance = {tolerance}: must be at least 1 and 0"
        )
    played = check_profile(game, start)
    players = np.arange(game.num_players)
    believed = np.zeros((game.num_players, len(game.grid)))
    frequencies = np.zeros_like(believed)
    history: list[float] = []
    while True:
        table = game.table(played)
        last = exploitability(table, played)
        rounds = len(history) + 1
        # Means over the rounds so far, kept up to date by what a round adds to them.
        believed += (table - believed) / rounds
        frequencies *= 1 - 1 / rounds
        frequencies[players, played] += 1 / rounds
        found = mixed_exploitability(believed, frequencies)
        history.append(found.largest)
        pure = bool((last.gains <= allowed_gains(table)).all())
        converged = pure or found.largest <= tolerance
        if converged or rounds == max_rounds:
            break
        played = best_response(believed)
    return FictitiousPlay(
        frequencies=frequencies,
        exploitability=found,
        played=played,
        last=last,
        rounds=rounds,
        pure=pure,
        converged=converged,
        history=np.array(history),
        trivial=len(game.grid) == 1,
    )


def product_exploitability(game: NPlayerGame, strategies: FloatArray) -> Exploitability:
    """Return the exact certificate of independent mixed strategies, by enumeration of all profiles.

    Args:
        game: The game; m^N may be at most `MOST_PROFILES`.
        strategies: Probability with which each player plays each action, shape (N, m).

    Raises:
        ValueError: There are too many profiles, or a row of `strategies` is no distribution.
    """
    shape = (len(game.grid),) * game.num_players
    if len(game.grid) ** game.num_players > MOST_PROFILES:
        raise ValueError(
            f"{len(game.grid)} actions of {game.num_players} players: more than {MOST_PROFILES} "
            "profiles are not enumerated"
        )
    players = np.arange(game.num_players)
    expected = np.zeros((game.num_players, len(game.grid)))
    for profile in np.ndindex(*shape):
        played = np.array(profile, dtype=np.int64)
        chances = strategies[players, played]
        # A player's own part does not weigh its table, which is for all of its own actions; the
        # table of the one profile in which it plays action 0 stands for all m of them.
        others = np.array([np.delete(chances, k).prod() for k in players]) * (played == 0)
        if others.any():
            expected += others[:, None] * game.table(played)
    return mixed_exploitability(expected, strategies)
