"""What a run of an aggregative game hands back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedgame.accountants.pml_prior import Prior
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.transcript import Transcript


@dataclass(frozen=True)
class IterationRecord:
    """What is public about one iteration.

    Attributes:
        round: The iteration's number, from 0.
        leakage: l(F -> o) after it, in nats.
        worst_individual_leakage: The largest l(F_i -> o) of any player after it.
        worst_epsilon: The largest realised pure-DP epsilon of any player after it.
        possible: The largest leakage that its messages could have brought, as the filter had it.
        asked: How many players were asked for a message.
        sent: How many players' messages came and were believed.
        noise: The largest noise scale of a message that was sent; 0 without any.
        seconds: Wall time of the iteration.
    """

    round: int
    leakage: float
    worst_individual_leakage: float
    worst_epsilon: float
    possible: float
    asked: int
    sent: int
    noise: float
    seconds: float


@dataclass(frozen=True)
class PlayerRecord:
    """What is public about one player at the end of a run.

    Attributes:
        id: The player's number.
        sent: How many of its messages came.
        released: How many releases its ledger rows hold; more than `sent` where a reply was lost.
        epsilon: The sum of its releases' pure-DP epsilons.
        own_type: Whether its type is its node's own secret, and not drawn from the public seed.
        own_noise: Whether its noise comes from a secret of its node's own.
    """

    id: int
    sent: int
    released: int
    epsilon: float
    own_type: bool
    own_noise: bool


@dataclass(frozen=True, eq=False)
class GameResult:
    """All that a strategy hands back that looks for an equilibrium by messages.

    Attributes:
        status: "finished", or "failed" when the run could not go on.
        reason: Why it stopped early; empty when all iterations ran.
        iterations: One record for each iteration.
        players: One record a player.
        dynamics: The public part of the run.
        prior: What everybody knows about the types.
        transcript: What was sent.
        types: Every player's type where all of them come from the public seed, shape (N,); None
            where some player keeps its own.
        notes: Sentences that the report must show.
    """

    status: str
    reason: str
    iterations: tuple[IterationRecord, ...]
    players: tuple[PlayerRecord, ...]
    dynamics: Dynamics
    prior: Prior
    transcript: Transcript
    types: NDArray[np.int64] | None
    notes: tuple[str, ...] = field(default=())
