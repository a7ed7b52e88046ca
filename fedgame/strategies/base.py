"""What every strategy hands back: the record of a run, from which folder and report are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RoundRecord:
    """What is public about one round.

    Attributes:
        round: The round's number, from 1.
        loss: Mean loss on the public test set after the round.
        accuracy: Accuracy on the public test set, None for a regression.
        mean_strength: s-bar, the mean of the strengths that the clients used in the round.
        worst_epsilon: The largest guarantee of any client so far.
        exploitability: Largest gain of any client from changing its strength alone, on the public
            test set; None without a game.
        clients: How many clients' updates were used.
        seconds: Wall time of the round.
    """

    round: int
    loss: float
    accuracy: float | None
    mean_strength: float
    worst_epsilon: float
    exploitability: float | None
    clients: int
    seconds: float


@dataclass(frozen=True)
class ClientRecord:
    """What is public about one client at the end of a run.

    Attributes:
        id: The client's number.
        num_examples: n_k, public by declaration.
        beta: The declared privacy preference, None without a game.
        strength: The last strength used.
        noise_multiplier: The last noise multiplier used.
        epsilon: Epsilon of the realised ledger by accountant name ("rdp", "pld", "order2"). These
            are ex post where strengths were chosen adaptively.
        guarantee: The epsilon that was guaranteed beforehand, at the run's delta.
        realised: Epsilon of the realised ledger by the run's accountant.
        claimed_delta: What the paper claims, None where it makes no claim.
        sound_delta_at_epsilon_1: Delta at epsilon = 1 of the guarantee.
    """

    id: int
    num_examples: int
    beta: float | None
    strength: float
    noise_multiplier: float
    epsilon: dict[str, float]
    guarantee: float
    realised: float
    claimed_delta: float | None
    sound_delta_at_epsilon_1: float


@dataclass(frozen=True)
class RunResult:
    """All that a strategy hands back.

    Attributes:
        status: "finished", or "failed" when the run could not go on.
        reason: Why it stopped early; empty when all rounds ran.
        rounds: One record a round.
        clients: One record a client.
        parameters: Final global model, flat float32.
        tensors: (name, shape) of each tensor of the model, in order.
        strengths: Strength of each client in each round, shape (rounds, clients); NaN where a
            client's reply was missing.
        notes: Sentences that the report must show, for example what is not covered.
        unaccounted: What depended on data and left without a guarantee; no epsilon covers it.
    """

    status: str
    reason: str
    rounds: tuple[RoundRecord, ...]
    clients: tuple[ClientRecord, ...]
    parameters: NDArray[np.float32]
    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    strengths: NDArray[np.float64]
    notes: tuple[str, ...] = field(default=())
    unaccounted: tuple[str, ...] = field(default=())


ProgressListener = Callable[[RoundRecord], None]
"""Called after each round."""
