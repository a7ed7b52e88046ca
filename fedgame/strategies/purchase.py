"""What is bought before training: allocation, payments, schedule, and the noise that fits it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgame.accountants.base import Accountant
from fedgame.accountants.batch_calibration import noise_multipliers_for
from fedgame.errors import CalibrationError, ConfigError, DataError
from fedgame.games.procurement.allocation import allocate
from fedgame.games.procurement.base import Allocation, Mechanism, Terms
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.calibration import calibrate_eta
from fedgame.games.procurement.payments import interim_payments
from fedgame.games.procurement.prior import Prior
from fedgame.games.procurement.schedule import draw_schedule
from fedgame.games.procurement.settings import Procurement
from fedgame.randomness import public_generator
from fedgame.strategies.bridge import client_context
from fedgame.strategies.settings import Experiment

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

ROUNDING = 1e-9
"""What calibration leaves of a budget, so that rounding cannot spend more than was bought."""


Announce = Callable[[str], None]
"""Told, in one line for the user, what comes next."""


def _in_silence(_: str) -> None:
    pass


@dataclass(frozen=True)
class Bought:
    """What a server buys; arrays are over the clients that reported, in order.

    Attributes:
        mechanism: The mechanism.
        terms: The server's terms, eta as found for a budget.
        allocation: The mechanism's choice, with payments.
        schedule: Positions of the clients that take part, shape (rounds, draws), ascending in a
            round.
        draws: How often each takes part, shape (clients,).
        noise_multipliers: The noise of each time, shape (clients,); 0 where a client is never
            drawn.
    """

    mechanism: Mechanism
    terms: Terms
    allocation: Allocation
    schedule: IntArray
    draws: IntArray
    noise_multipliers: FloatArray

    @property
    def payments(self) -> FloatArray:
        """What each client gets, shape (clients,)."""
        if self.allocation.payments is None:
            raise ValueError("bought without payments")
        return self.allocation.payments


def prior_of(settings: Procurement) -> Prior:
    """Return the prior of an experiment.

    Raises:
        ConfigError: The distribution has no density somewhere.
        DataError: The file of samples cannot be read.
    """
    try:
        return settings.prior()
    except DataError:
        raise
    except ValueError as error:
        key = "procurement.distribution"
        raise ConfigError(key, settings.distribution, str(error)) from error


def _allowed(error: ValueError) -> str:
    """Return what is allowed, without the field and value that an error of ours begins with."""
    text = str(error)
    return text.partition(": ")[2] or text


def settle_mechanism(buyer: Mechanism | Bbm, losses: FloatArray) -> Mechanism:
    """Return the mechanism, once it is known who has the largest losses.

    Raises:
        ConfigError: It selects more clients than there are.
    """
    try:
        return buyer.at_losses(losses) if isinstance(buyer, Bbm) else buyer
    except ValueError as error:
        raise ConfigError("bbm.clients", getattr(buyer, "clients", ""), _allowed(error)) from error


def settle_terms(
    settings: Procurement, mechanism: Mechanism, prior: Prior, num_clients: int, seed: int
) -> Terms:
    """Return the server's terms; with a budget, eta is found on the prior and not on the reports.

    Raises:
        ConfigError: The budget is more than the clients cost at the cap.
    """
    terms = settings.terms
    if not settings.budget:
        return terms
    rng = public_generator(seed, "budget")
    try:
        found = calibrate_eta(mechanism, settings.budget, prior, num_clients, terms, rng)
    except ValueError as error:
        raise ConfigError("procurement.budget", settings.budget, _allowed(error)) from error
    return replace(terms, eta=found.eta)


def choose(
    experiment: Experiment,
    reports: FloatArray,
    losses: FloatArray,
    *,
    pay: bool = True,
    announce: Announce = _in_silence,
) -> tuple[Mechanism, Terms, Allocation]:
    """Return mechanism, terms and allocation at the clients' reports.

    Args:
        experiment: The experiment.
        reports: Reported sensitivities, shape (clients,).
        losses: Initial losses, shape (clients,); looked at by BBM only.
        pay: Whether to compute payments, which takes most of the time.
        announce: Told what comes next.

    Raises:
        ConfigError: The mechanism, the budget or the distribution does not fit the clients.
    """
    settings, seed = experiment.procurement, experiment.run.seed
    prior = prior_of(settings)
    mechanism = settle_mechanism(experiment.buyer, losses)
    if settings.budget:
        announce(f"finding the eta at which {len(reports)} clients cost {settings.budget:g}")
    terms = settle_terms(settings, mechanism, prior, len(reports), seed)
    if pay:
        announce(f"choosing and paying by {mechanism.name}")
    interim = settings.payments == "interim" and not mechanism.complete_information
    try:
        allocation = allocate(mechanism, reports, prior, terms, payments=pay and not interim)
        if pay and interim:
            rng = public_generator(seed, "payments")
            found = interim_payments(mechanism, reports, prior, terms, rng)
            allocation = replace(allocation, payments=found.payments)
    except ValueError as error:
        raise ConfigError("procurement.name", settings.name, str(error)) from error
    return mechanism, terms, allocation


def buy(
    experiment: Experiment,
    reports: FloatArray,
    losses: FloatArray,
    accountant: Accountant,
    announce: Announce = _in_silence,
) -> Bought:
    """Choose, draw the schedule and fit the noise.

    Args:
        experiment: The experiment.
        reports: Reported sensitivities, shape (clients,).
        losses: Initial losses, shape (clients,); looked at by BBM only.
        accountant: By which a client spends exactly what was bought from it.
        announce: Told what comes next.

    Raises:
        ConfigError: As for `choose`, or no noise fits a budget.
    """
    run, settings = experiment.run, experiment.procurement
    mechanism, terms, allocation = choose(experiment, reports, losses, announce=announce)
    rng = public_generator(run.seed, "schedule")
    schedule = draw_schedule(
        allocation.probabilities, run.rounds, settings.draws, settings.schedule, rng
    )
    draws = np.bincount(schedule.ravel(), minlength=len(reports))
    noise_multipliers = np.zeros(len(reports))
    drawn = draws > 0
    announce(f"fitting the noise of {drawn.sum()} clients to their budgets")
    noise_multipliers[drawn] = _fitting_noise(
        experiment, allocation.budgets[drawn], draws[drawn], accountant
    )
    return Bought(mechanism, terms, allocation, schedule, draws, noise_multipliers)


def _fitting_noise(
    experiment: Experiment, budgets: FloatArray, draws: IntArray, accountant: Accountant
) -> FloatArray:
    # sampling rate and relation are the same for all, whatever their number of examples
    context = client_context(experiment, 1)
    try:
        found: Any = noise_multipliers_for(
            budgets * (1 - ROUNDING),
            experiment.accounting.delta,
            context.amplifying_rate,
            draws * experiment.training.local_steps,
            context.neighbours,
            accountant,
        )
    except CalibrationError as error:
        reason = f"buys budgets that no noise fits: {error}"
        raise ConfigError("procurement.eta", experiment.procurement.eta, reason) from error
    return np.asarray(found, dtype=np.float64)
