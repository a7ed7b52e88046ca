"""What every strategy hands back: the record of a run, from which folder and report are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import fsum

import numpy as np
from numpy.typing import NDArray

from fedgame.strategies.game_result import GameResult, IterationRecord


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
class PurchaseRecord:
    """What was agreed with one client, and what came of it; all of it is public.

    Attributes:
        report: The privacy sensitivity that the client reported.
        virtual_cost: What a unit of its privacy costs a server that must not be lied to.
        probability: Its selection probability p_k.
        budget: The epsilon that was bought from it.
        payment: What it gets, for the budget that was bought and not for what was spent.
        scheduled: How often it was to take part.
        released: How often it did.
    """

    report: float
    virtual_cost: float
    probability: float
    budget: float
    payment: float
    scheduled: int
    released: int


@dataclass(frozen=True)
class ProcurementRecord:
    """What a server decided that buys privacy.

    Attributes:
        mechanism: Name of the mechanism.
        eta: Weight of the bound on the training loss.
        q: Q of the objective.
        epsilon_max: Cap on every budget.
        expected_cost: B, the sum of v_k epsilon_k.
        objective: Value of the server's objective.
        threshold: How many clients have a positive probability.
        cap_binds: Whether a budget is at the cap.
        ironed: Whether virtual costs were ironed.
        kkt_residual: How far the choice is from its first-order conditions, relatively.
        brute_force_gap: Objective over the best of a brute-force search, minus 1; None for many
            clients.
        implied_q: Smallest, median and largest value over clients of what the objective takes for
            a constant, up to one common factor; see `implied_q`.
        purchases: One a client, in the order of the clients' records.
        used: For each recorded round, the money that pays for what was released so far, each
            client's payment spread evenly over its draws.
    """

    mechanism: str
    eta: float
    q: float
    epsilon_max: float
    expected_cost: float
    objective: float
    threshold: int
    cap_binds: bool
    ironed: bool
    kkt_residual: float
    brute_force_gap: float | None
    implied_q: tuple[float, float, float] | None
    purchases: tuple[PurchaseRecord, ...]
    used: tuple[float, ...]

    @property
    def total_payment(self) -> float:
        """What all clients get together."""
        return fsum(purchase.payment for purchase in self.purchases)


@dataclass(frozen=True)
class RunResult:
    """All that a strategy hands back.

    Attributes:
        status: "finished", or "failed" when the run could not go on.
        reason: Why it stopped early; empty when all rounds ran.
        rounds: One record for each round after which the model was evaluated.
        clients: One record a client.
        parameters: Final global model, flat float32.
        tensors: (name, shape) of each tensor of the model, in order.
        strengths: Strength of each client in each round, shape (rounds, clients); NaN where a
            client's reply was missing.
        notes: Sentences that the report must show, for example what is not covered.
        unaccounted: What depended on data and left without a guarantee; no epsilon covers it.
        procurement: What was bought, None where nothing was.
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
    procurement: ProcurementRecord | None = None


@dataclass(frozen=True)
class Stage:
    """What a run is busy with before its first round.

    Attributes:
        message: One line for the user.
    """

    message: str


Result = RunResult | GameResult
"""What the server half of some system hands back."""

Progress = RoundRecord | IterationRecord | Stage
"""What a run says while it lasts."""

ProgressListener = Callable[[Progress], None]
"""Called after each round, and before what takes long."""
