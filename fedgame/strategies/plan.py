"""What is public and fixed before the first round: weights, grid, strengths, and the guarantee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedgame.accountants.base import Accountant
from fedgame.accountants.calibration import noise_multiplier_for
from fedgame.errors import CalibrationError, ConfigError
from fedgame.games.privacy.mapg import Mapg, mapg_noise_multiplier
from fedgame.games.privacy.mean_field import MeanField
from fedgame.ledger.events import (
    LedgerRow,
    PrivacyEvent,
    PureDPChoice,
    SampledGaussian,
    UnaccountedRelease,
)
from fedgame.mechanisms.base import (
    noise_multiplier_to_strength,
)
from fedgame.mechanisms.exponential import CHOICE_MECHANISM
from fedgame.mechanisms.gaussian import Gaussian, paper_noise_multiplier
from fedgame.mechanisms.jko import Jko
from fedgame.strategies.bridge import Bridge, client_context
from fedgame.strategies.burn_in import burn_in_events, burns_in
from fedgame.strategies.settings import Experiment

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Plan(Bridge):
    """The public plan of a run.

    Attributes:
        betas: Declared privacy preferences, shape (clients,).
        grid: Strengths to choose from, shape (m,); empty without a grid game.
        strengths: Strength of each client before the first choice, shape (clients,).
    """

    betas: FloatArray
    grid: FloatArray
    strengths: FloatArray

    @property
    def weights(self) -> FloatArray:
        """FedAvg weights p_k = n_k / n, public and fixed: a missing update counts as zero."""
        weights: FloatArray = self.counts / self.counts.sum()
        return weights

    def chooses(self, round_: int) -> bool:
        """Return whether clients choose anew in round `round_` (from 1).

        A grid of one strength leaves nothing to choose, so nothing is charged for it either.
        """
        game = self.experiment.game
        return isinstance(game, MeanField) and len(self.grid) > 1 and game.chooses_in(round_)

    def guarantee(self, client: int, rounds: int, strengths: FloatArray) -> list[PrivacyEvent]:
        """Return the events that a client's guarantee after `rounds` rounds is computed from.

        Under the every-round schedule strengths depend on earlier outputs, so what was declared
        beforehand counts: every round at the smallest strength of the grid. Under `commit` the
        strengths are fixed once the (charged) choice is published, as they are without a grid. In
        the data reading the burn-in is all there is, whatever the number of rounds.

        Args:
            client: The client's number.
            rounds: Number of rounds.
            strengths: The strengths once they are fixed, shape (clients,); not looked at under the
                every-round schedule.
        """
        experiment, game = self.experiment, self.experiment.game
        if burns_in(experiment):
            return burn_in_events(experiment, int(self.counts[client]))
        strength = float(strengths[client])
        choices = 0
        if isinstance(game, MeanField):
            choices = sum(self.chooses(round_) for round_ in range(1, rounds + 1))
            if game.schedule == "every-round":
                strength = float(self.grid[0])
        update = self.update_event(client, strength)
        events: list[PrivacyEvent] = [replace(update, steps=rounds * update.steps)]
        charge = choice_charge(experiment)
        return [charge] * choices + events if charge else events

    def weakest_client(self, strengths: FloatArray) -> int:
        """Return the client whose guarantee is the largest: the one with the least noise.

        Sampling rate, steps and choices are the same for all, and epsilon falls in the noise
        multiplier.
        """
        game = self.experiment.game
        if isinstance(game, MeanField) and game.schedule == "every-round":
            strengths = np.full_like(strengths, self.grid[0])
        return int(np.argmin(self.noise_multipliers(strengths)))


def choice_charge(experiment: Experiment) -> PureDPChoice | None:
    """Return what one choice from the grid costs, None where it is public or not accounted."""
    game = experiment.game
    if not isinstance(game, MeanField) or game.selection != "exponential":
        return None
    return PureDPChoice(
        epsilon=game.selection_epsilon,
        neighbours=experiment.training.neighbours,
        mechanism=CHOICE_MECHANISM,
    )


def choice_event(experiment: Experiment) -> PrivacyEvent | None:
    """Return the event of one choice from the grid: charged, unaccounted, or none if public."""
    game = experiment.game
    if not isinstance(game, MeanField) or game.selection == "public":
        return None
    neighbours = experiment.training.neighbours
    return choice_charge(experiment) or UnaccountedRelease(neighbours, "argmin choice")


def round_rows(
    round_: int,
    clients: Sequence[int],
    updates: Sequence[SampledGaussian],
    choice: PrivacyEvent | None,
) -> Iterator[LedgerRow]:
    """Yield the ledger's rows of one round, in the ledger's order if the clients ascend.

    Args:
        round_: The round.
        clients: The clients' numbers.
        updates: The event of each client's update.
        choice: The event of each client's choice from the grid; None where there is none.
    """
    for client, update in zip(clients, updates, strict=True):
        if choice is not None:
            yield LedgerRow(client, round_, 0, "choice", choice)
        yield LedgerRow(client, round_, 0, "update", update)


def make_plan(
    experiment: Experiment,
    counts: NDArray[np.int64],
    betas: FloatArray,
    curvatures: FloatArray,
    accountant: Accountant,
) -> Plan:
    """Plan a run; needs nothing private.

    Args:
        experiment: The experiment.
        counts: Number of examples of each client, shape (clients,).
        betas: Declared privacy preferences, shape (clients,).
        curvatures: Hessian traces kappa_k for the MAPG closed form, shape (clients,).
        accountant: The accountant of the guarantee; calibration uses it.

    Raises:
        ConfigError: The target epsilon cannot be reached.
    """
    plan = Plan(experiment, counts, betas, _grid(experiment, counts), np.zeros(len(counts)))
    game = experiment.game
    if isinstance(game, MeanField):
        start = np.full(len(counts), game.initial_mean_strength(plan.grid))
    elif isinstance(game, Mapg):
        start = plan.strengths_of(_mapg_noise_multipliers(plan, game, curvatures))
    else:
        start = _fixed_strengths(plan, accountant)
    return replace(plan, strengths=start)


def _grid(experiment: Experiment, counts: NDArray[np.int64]) -> FloatArray:
    """Return the strength grid; noise multipliers are converted at the smallest client.

    So no client's noise multiplier is below what is written.
    """
    game = experiment.game
    if not isinstance(game, MeanField):
        return np.empty(0)
    if game.strength_grid:
        return np.array(game.strength_grid)
    smallest = client_context(experiment, int(counts.min()))
    step = experiment.mechanism.step_size
    return np.array(
        [
            noise_multiplier_to_strength(z, step, smallest.sensitivity)
            for z in game.noise_multiplier_grid
        ]
    )


def effective_clipping(experiment: Experiment, sensitivities: FloatArray) -> FloatArray:
    """Return the C of MAPG-DP: how far one protected contribution moves the averaged gradient."""
    replaced = experiment.training.neighbours == "client-replace"
    return sensitivities * (0.5 if replaced else 1.0)


def _mapg_noise_multipliers(plan: Plan, game: Mapg, curvatures: FloatArray) -> FloatArray:
    experiment = plan.experiment
    budgets = game.best_response(
        curvatures,
        plan.betas,
        experiment.mechanism.step_size,
        effective_clipping(experiment, plan.sensitivities),
        len(plan.counts),
    )
    return mapg_noise_multiplier(budgets, experiment.training.neighbours)


def _fixed_strengths(plan: Plan, accountant: Accountant) -> FloatArray:
    experiment, mechanism = plan.experiment, plan.experiment.mechanism
    if isinstance(mechanism, Jko):
        if mechanism.noise_multiplier <= 0:
            return np.full(len(plan.counts), mechanism.strength)
        smallest = client_context(experiment, int(plan.counts.min()))
        strength = noise_multiplier_to_strength(
            mechanism.noise_multiplier, mechanism.tau, smallest.sensitivity
        )
        return np.full(len(plan.counts), strength)
    noise_multiplier = _gaussian_noise_multiplier(experiment, mechanism, accountant)
    return plan.strengths_of(np.full(len(plan.counts), noise_multiplier))


def _gaussian_noise_multiplier(
    experiment: Experiment, mechanism: Gaussian, accountant: Accountant
) -> float:
    if mechanism.calibration == "noise-multiplier":
        return mechanism.noise_multiplier
    delta = experiment.accounting.delta
    if mechanism.calibration == "paper":
        return paper_noise_multiplier(mechanism.target_epsilon, delta)
    context = client_context(experiment, 1)
    try:
        return noise_multiplier_for(
            target_epsilon=mechanism.target_epsilon,
            delta=delta,
            sampling_rate=context.amplifying_rate,
            steps=experiment.run.rounds * experiment.training.local_steps,
            neighbours=context.neighbours,
            accountant=accountant,
        )
    except CalibrationError as error:
        raise ConfigError(
            "gaussian.target-epsilon", mechanism.target_epsilon, str(error)
        ) from error
