"""The priors by name: independent types, the PML paper's correlated prior, explicit tables.

A mixture of products is `Prior(weights, probabilities)` itself.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml_prior import SUM_TOLERANCE, Prior

MAX_PROFILES = 4096
"""The largest support of an explicit table, since each of its profiles is a component."""


def product_prior(probabilities: ArrayLike) -> Prior:
    """Return the prior of independent types.

    Args:
        probabilities: Shape (N, m); each player's distribution.

    Raises:
        ValueError: The shape is not (N, m), or a row is no distribution.

    >>> bool(product_prior([[0.3, 0.7], [0.6, 0.4]]).is_product)
    True
    """
    rows = np.asarray(probabilities, dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"prior of shape {rows.shape}: must be (players, types)")
    return Prior(np.ones(1), rows[None])


def correlated_prior(num_players: int, alpha: float, beta: float) -> Prior:
    """Return the correlated prior of two types (PML paper, eq. 8).

    Player 0 has type 0 with probability alpha. The others all have player 0's type with probability
    beta, and otherwise one of the remaining 2^(N-1) - 1 profiles, all alike.

    With kappa = (1-beta) / (2^(N-1)-1) the probability of each of these, the profiles get kappa or
    beta, whichever is less, everywhere, which is a product; and what is left over either all on
    f = (a, .., a), or on the f that leave a for the first time at player j, a product for each j.
    So there are 3 components, or 2N - 1 where beta < kappa.

    Args:
        num_players: N >= 2.
        alpha: In (0, 1).
        beta: In (0, 1).

    Raises:
        ValueError: An argument is out of range.
    """
    if num_players < 2:
        raise ValueError(f"num_players = {num_players}: the correlated prior needs at least 2")
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} = {value}: must be between 0 and 1, both excluded")
    others = num_players - 1
    # in units of 2^-(N-1), which may be too small for a float
    kappa = (1 - beta) / -math.expm1(-others * math.log(2))
    above = beta - math.ldexp(kappa, -others)
    first = np.array([alpha, 1 - alpha])
    even = np.full((num_players, 2), 0.5)
    even[0] = first
    same = np.repeat(np.eye(2)[:, None], num_players, axis=1)
    if above >= 0:
        return Prior(np.append(first * above, kappa), np.concatenate([same, even[None]]))
    below = math.ldexp(beta, others)
    weights, rows = [below], [even]
    for leaver, kind in itertools.product(range(1, num_players), range(2)):
        row = same[kind].copy()
        row[leaver] = row[leaver, ::-1]
        row[leaver + 1 :] = 0.5
        weights.append(first[kind] * math.ldexp(kappa - below, -leaver))
        rows.append(row)
    return Prior(np.array(weights), np.array(rows))


def table_prior(table: ArrayLike) -> Prior:
    """Return the prior that a table of all profiles states.

    Args:
        table: P(f) at index f = (f_0, .., f_N-1), shape (m,) * N; at most 4096 may be above 0.

    Raises:
        ValueError: The axes differ in length, an entry is negative, the sum is not 1, or too many
            profiles have probability.

    >>> table_prior([[0.1, 0.4], [0.4, 0.1]]).num_players
    2
    """
    entries = np.asarray(table, dtype=np.float64)
    if entries.ndim == 0 or len(set(entries.shape)) != 1 or entries.size == 0:
        raise ValueError(f"table of shape {entries.shape}: must be (types, ..), an axis a player")
    if not ((entries >= 0).all() and abs(entries.sum() - 1) <= SUM_TOLERANCE):
        raise ValueError(f"table: must be >= 0 and sum to 1, not {entries.sum():.10g}")
    profiles = np.argwhere(entries > 0)
    if len(profiles) > MAX_PROFILES:
        raise ValueError(
            f"table with {len(profiles)} profiles above 0: at most {MAX_PROFILES} are allowed"
        )
    return Prior(entries[entries > 0], np.eye(entries.shape[0])[profiles])


def tabulated(prior: Prior) -> Prior:
    """Return the same prior as a table, for which every minimum over profiles is exact.

    Raises:
        ValueError: It has more than 4096 profiles.
    """
    sizes = float(prior.num_types) ** prior.num_players
    if sizes > MAX_PROFILES:
        raise ValueError(f"prior with {sizes:.3g} profiles: at most {MAX_PROFILES} are allowed")
    rows = prior.probabilities[:, 0]
    for player in range(1, prior.num_players):
        rows = rows[..., None] * prior.probabilities[:, player].reshape(
            len(rows), *(1,) * player, prior.num_types
        )
    return table_prior(np.tensordot(prior.weights, rows, axes=1))
