"""Whether a game is monotone, so that its equilibrium can be found by small steps."""

from __future__ import annotations

import numpy as np

from fedgame.accountants.pml_prior import Prior
from fedgame.games.aggregative.affine import AffineMap
from fedgame.games.aggregative.base import AggregativeGame
from fedgame.games.aggregative.quadratic import QuadraticGame
from fedgame.games.best_response import IntArray
from fedgame.randomness import public_generator

PROFILES = 8
"""How many profiles of types are looked at."""

SLACK = 1e-9
"""How far below 0 an eigenvalue may be by rounding."""


def smallest_eigenvalue(
    game: AggregativeGame, prior: Prior, types: IntArray | None = None
) -> float | None:
    """Return the least eigenvalue of the pseudo-gradient's symmetric part over some profiles.

    Where it is >= 0 the game is monotone at all of them.

    Args:
        game: The game.
        prior: Eight profiles are drawn from it, from a public stream.
        types: The profile that players really have, which is looked at as well, if it is known.

    Returns:
        None if the game is not quadratic.
    """
    if not isinstance(game, QuadraticGame):
        return None
    profiles = prior.draw(public_generator(0, "profiles"), PROFILES)
    if types is not None:
        profiles = np.concatenate([profiles, types[None]])
    distinct = np.unique(profiles, axis=0)
    return min(AffineMap.of(game, profile).smallest_eigenvalue() for profile in distinct)
