"""From the values of `fedgame solve jsam` to a purchase of privacy, every value checked."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fedgame.cli.jsam_reports import Reports, read_reports
from fedgame.cli.options import Options
from fedgame.errors import FedgameError
from fedgame.games.procurement import PROCUREMENT
from fedgame.games.procurement.allocation import allocate
from fedgame.games.procurement.base import NEGLIGIBLE_COST, Mechanism, Terms
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.calibration import calibrate_eta
from fedgame.games.procurement.payments import interim_payments
from fedgame.games.procurement.prior import Prior
from fedgame.games.procurement.prior_spec import parse_prior
from fedgame.randomness import public_generator
from fedgame.reports.procurement_page import SolvedPurchase

KEYS = (
    "reports", "distribution", "eta", "budget", "q", "c-max", "epsilon-max", "mechanism",
    "clients", "payments", "seed", "output",
)  # fmt: skip
"""Every key of the command."""
PAYMENTS = ("ex-post", "interim", "none")
DEFAULT_SEED = 42
SIMULATED_CLIENTS = 200_000
"""How many clients all draws of a calibration have together: the more in one, the fewer draws."""


@dataclass(frozen=True)
class Problem:
    """What is to be solved.

    Attributes:
        reports: What the clients reported.
        prior: What is known about each beforehand.
        prior_name: The prior as text.
        mechanism: The mechanism.
        terms: The server's terms; with a budget, eta is where the search for it starts.
        budget: What the payments are expected to sum to; None where eta was given.
        payments: One of PAYMENTS.
        seed: Of all draws.
    """

    reports: Reports
    prior: Prior
    prior_name: str
    mechanism: Mechanism
    terms: Terms
    budget: float | None
    payments: str
    seed: int


def read_problem(options: Options) -> Problem:
    """Check every value and read every file.

    Raises:
        FedgameError: Something is missing or not allowed.
    """
    options.exclude("eta", "budget")
    eta, budget = options.positive("eta"), options.positive("budget")
    if eta is None and budget is None:
        raise options.refuse("eta", "give a number > 0, or a --budget")
    cap = options.positive("epsilon-max")
    terms = Terms(eta or 1.0, options.positive("q") or 1.0, math.inf if cap is None else cap)
    payments = options.choice("payments", PAYMENTS, default="ex-post")
    seed = options.integer("seed", least=0)
    make = _mechanism(options)
    prior_name, prior = _prior(options)
    reports = read_reports(options, with_losses=isinstance(make, Bbm))
    with _naming(options):
        mechanism = make.at_losses(reports.losses) if isinstance(make, Bbm) else make
    if mechanism.complete_information and payments == "interim":
        raise options.refuse("payments", f"{mechanism.name} pays the costs: ex-post or none")
    _check_support(reports, prior, mechanism, terms)
    return Problem(
        reports=reports,
        prior=prior,
        prior_name=prior_name,
        mechanism=mechanism,
        terms=terms,
        budget=budget,
        payments=payments,
        seed=DEFAULT_SEED if seed is None else seed,
    )


def solve(problem: Problem, options: Options) -> SolvedPurchase:
    """Solve a problem.

    Args:
        problem: The problem.
        options: What it was read from, for errors that no value shows alone.

    Raises:
        FedgameError: There are fewer clients than are to be selected, no eta costs the budget, or
            the numbers are too large or too small.
    """
    mechanism, prior, terms = problem.mechanism, problem.prior, problem.terms
    sensitivities, count = problem.reports.sensitivities, len(problem.reports.clients)
    found = errors = None
    # what overflows is found at the end
    with _naming(options), np.errstate(all="ignore"):
        if problem.budget is not None:
            draws = max(8, min(200, SIMULATED_CLIENTS // count))
            rng = public_generator(problem.seed, "calibration of eta")
            found = calibrate_eta(mechanism, problem.budget, prior, count, terms, rng, draws)
            terms = replace(terms, eta=found.eta)
        exact = problem.payments == "ex-post"
        bought = allocate(mechanism, sensitivities, prior, terms, payments=exact)
        if problem.payments == "interim":
            rng = public_generator(problem.seed, "interim payments")
            paid = interim_payments(mechanism, sensitivities, prior, terms, rng)
            bought, errors = replace(bought, payments=paid.payments), paid.standard_errors
    purchase = SolvedPurchase(
        clients=problem.reports.clients,
        sensitivities=sensitivities,
        prior=problem.prior_name,
        terms=terms,
        allocation=bought,
        standard_errors=errors,
        calibration=found,
    )
    _check_finite(purchase)
    return purchase


def _mechanism(options: Options) -> Any:
    name = options.choice("mechanism", list(PROCUREMENT), default="jsam")
    cls: Any = PROCUREMENT.get(name)
    clients = options.integer("clients", least=1)
    if "clients" not in {field.name for field in fields(cls)}:
        if clients is not None:
            raise options.refuse("clients", f"{name} decides itself how many it selects")
        return cls()
    if clients is None:
        raise options.refuse("clients", f"say how many clients {name} selects")
    return cls(clients=clients)


def _prior(options: Options) -> tuple[str, Prior]:
    given, name = options.given("distribution"), options.text("distribution")
    if given is None or name is None:
        raise options.refuse("distribution", "give the prior, such as uniform:0:1")
    c_max = options.positive("c-max")
    try:
        with _naming(options):
            return name, parse_prior(name, c_max, folder=given.folder)
    except ValueError as error:
        raise options.refuse("distribution", str(error)) from error


def _check_support(reports: Reports, prior: Prior, mechanism: Mechanism, terms: Terms) -> None:
    """Refuse a report that the prior rules out, or that would buy a budget without bound."""
    sensitivities = reports.sensitivities
    if _refusal(prior, sensitivities):
        counts = range(1, len(sensitivities) + 1)
        # the prior names its first client that is wrong by number; here it has a line and a name
        first = bisect.bisect_left(
            counts, 1, key=lambda n: _refusal(prior, sensitivities[:n]) != ""
        )
        _, _, allowed = _refusal(prior, sensitivities[[first]]).partition(": ")
        raise reports.refusal(first, allowed)
    if math.isfinite(terms.epsilon_max):
        return
    complete = mechanism.complete_information
    costs = sensitivities if complete else prior.virtual_cost(sensitivities)
    if costs.min() < NEGLIGIBLE_COST:
        free = "costs the server nothing, so its budget has no bound: give --epsilon-max"
        raise reports.refusal(int(np.argmin(costs)), free)


def _refusal(prior: Prior, sensitivities: Any) -> str:
    try:
        prior.virtual_cost(sensitivities)
    except ValueError as error:
        return str(error)
    return ""


@contextmanager
def _naming(options: Options) -> Iterator[None]:
    """Turn a game's error that begins with the name of a value into the user's words."""
    try:
        yield
    except ValueError as error:
        name, _, rest = str(error).partition(" = ")
        key = name.replace("_", "-")
        if key not in KEYS:
            raise
        given = options.given(key)
        label = f"--{key}" if given is None else given.label
        raise FedgameError(f"{label} = {rest}") from error


def _check_finite(purchase: SolvedPurchase) -> None:
    bought = purchase.allocation
    numbers = np.array([bought.objective, bought.expected_cost, bought.certificate.kkt_residual])
    arrays = [numbers, bought.budgets, *([] if bought.payments is None else [bought.payments])]
    if not all(np.isfinite(values).all() for values in arrays):
        raise FedgameError(
            f"eta = {purchase.terms.eta}, q = {purchase.terms.q}: the optimum exceeds what "
            "floating-point numbers hold; change the unit of money"
        )
