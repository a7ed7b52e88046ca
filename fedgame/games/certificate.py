"""Certificates of equilibrium: how much any player could gain by changing its action alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgame.games.best_response import FloatArray, IntArray, check_disutilities

PROBABILITY_TOLERANCE = 1e-9
"""How far from 1 the probabilities of a mixed strategy may sum."""


@dataclass(frozen=True)
class Exploitability:
    """What each player could gain from the best unilateral change; all zero at a Nash equilibrium.

    Attributes:
        gains: Disutility played minus least disutility, shape (clients,), at least 0.
    """

    gains: FloatArray

    @property
    def largest(self) -> float:
        """The largest gain of any player: the profile is an epsilon-Nash equilibrium for it."""
        return float(self.gains.max())

    @property
    def total(self) -> float:
        """The sum of all gains, NashConv (Lanctot et al. 2017)."""
        return float(self.gains.sum())


def exploitability(disutilities: FloatArray, played: IntArray) -> Exploitability:
    """Return the certificate of a profile of pure strategies.

    Args:
        disutilities: U, shape (clients, actions): row k holds client k's disutility for each of
            its own actions while all others keep what they play.
        played: Index of the action that each client plays, shape (clients,).

    Raises:
        ValueError: Shapes disagree, an index is out of range, a disutility is NaN, or a client has
            no action of finite disutility.

    >>> exploitability(np.array([[3.0, 1.0], [0.0, 2.0]]), np.array([0, 0])).gains.tolist()
    [2.0, 0.0]
    """
    checked, least = _rows(disutilities)
    indices = np.asarray(played)
    clients, actions = checked.shape
    if indices.shape != (clients,) or not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"played must be {clients} indices, not {indices.dtype} {indices.shape}")
    if indices.min() < 0 or indices.max() >= actions:
        raise ValueError(f"played must be indices from 0 to {actions - 1}")
    return Exploitability(checked[np.arange(clients), indices] - least)


def mixed_exploitability(disutilities: FloatArray, probabilities: FloatArray) -> Exploitability:
    """Return the certificate of a profile of mixed strategies.

    Args:
        disutilities: U, shape (clients, actions), as for `exploitability`; expected values where
            the others mix.
        probabilities: Probability with which each client plays each action, same shape.

    Raises:
        ValueError: As for `exploitability`, or a row of `probabilities` is no distribution.

    >>> mixed_exploitability(np.array([[3.0, 1.0]]), np.array([[0.5, 0.5]])).largest
    1.0
    """
    checked, least = _rows(disutilities)
    mixed = np.asarray(probabilities, dtype=np.float64)
    if mixed.shape != checked.shape:
        raise ValueError(f"probabilities of shape {mixed.shape}, disutilities {checked.shape}")
    sums = mixed.sum(axis=1)
    if not (mixed >= 0).all() or not (np.abs(sums - 1) <= PROBABILITY_TOLERANCE).all():
        raise ValueError("each client's probabilities must be at least 0 and sum to 1")
    # The excess over the best action, not U itself, is averaged: no cancellation, no negative gain.
    # An action that is never played costs nothing, even one of infinite disutility.
    excess = np.where(mixed > 0, checked - least[:, None], 0.0)
    return Exploitability((mixed * excess).sum(axis=1))


def _rows(disutilities: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return checked disutilities (clients, actions) and the least of each row."""
    checked = check_disutilities(disutilities)
    if checked.ndim != 2 or len(checked) == 0:
        raise ValueError(f"disutilities of shape {checked.shape}: (clients, actions) is needed")
    least = checked.min(axis=1)
    if not np.isfinite(least).all():
        raise ValueError("a client has no action of finite disutility")
    return checked, least
