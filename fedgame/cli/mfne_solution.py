"""From a mean-field problem to its equilibria, their certificate, and what strengths are worth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedgame.cli.mfne_loss import QuadraticLoss, TabulatedLoss
from fedgame.cli.mfne_problem import Problem
from fedgame.config import accountant
from fedgame.errors import FedgameError, RunFailed
from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.equilibrium import (
    RESIDUAL,
    MeanFieldEquilibrium,
    MeanFieldGame,
    mean_field_equilibria,
)
from fedgame.games.privacy.release import StrengthDisutility, observed_strength
from fedgame.games.privacy.welfare import price_of_anarchy
from fedgame.ledger.events import SampledGaussian
from fedgame.mechanisms.base import strength_to_noise_multiplier
from fedgame.mechanisms.jko import Jko
from fedgame.reports.mfne_result import Rules, SolvedMeanField
from fedgame.strategies.bridge import client_context
from fedgame.strategies.disutilities import FIXED_EPSILON, privacy_terms

POINTS = 512
"""Total strengths, equally spaced in the logarithm, between which the privacy term is interpolated.

An epsilon is off by less than 1e-3 of itself, with up to 100,000 clients.
"""


def mean_field_game(problem: Problem) -> MeanFieldGame:
    """Return the game; its disutility is that of a run, but for the loss, which no data decide.

    Raises:
        ValueError: A privacy term is not a number.
    """
    disutility = StrengthDisutility(
        grid=problem.grid,
        betas=problem.betas,
        loss=problem.loss,
        privacy=_privacy(problem),
        num_clients=problem.experiment.run.num_clients,
        coupling=problem.game.coupling,
        release=problem.release,
    )
    return MeanFieldGame(problem.grid, problem.shares, disutility)


def _privacy(problem: Problem) -> Callable[[FloatArray], FloatArray]:
    """Return the priced privacy term of observed strengths: computed once, then looked up."""
    low, high = (_observed(problem, edge) for edge in (problem.grid[0], problem.grid[-1]))
    points = problem.grid
    if problem.release == "aggregate":
        points = np.geomspace(low[0], high[-1], POINTS)
    values = privacy_terms(problem.experiment, problem.game, problem.num_examples, points)
    places = np.log(points)
    return lambda observed: np.interp(np.log(observed), places, values)


def _observed(problem: Problem, mean_strength: float) -> FloatArray:
    clients = problem.experiment.run.num_clients
    return observed_strength(problem.grid, mean_strength, clients, problem.release)


def solve(problem: Problem) -> SolvedMeanField:
    """Find the equilibria, their certificate, and what their strengths are worth.

    Raises:
        RunFailed: The search did not converge.
        FedgameError: A disutility is not finite.
    """
    try:
        game = mean_field_game(problem)
        equilibria = mean_field_equilibria(game, max_iterations=problem.iterations)
        check_converged(equilibria, game)
        price = price_of_anarchy(game, equilibria)
    except ValueError as error:
        raise FedgameError(str(error)) from error
    observed = _observed(problem, equilibria[0].mean_strength)
    events = [_event(problem, float(strength)) for strength in observed]
    accounting = problem.experiment.accounting
    sound, delta = accountant(accounting.name, problem.experiment), accounting.delta
    return SolvedMeanField(
        rules=rules_of(problem),
        betas=problem.betas,
        shares=problem.shares,
        grid=problem.grid,
        noise_multipliers=np.array([event.noise_multiplier for event in events]),
        epsilons=np.array([sound.epsilon([event], delta) for event in events]),
        sound_deltas=np.array([sound.delta([event], FIXED_EPSILON) for event in events]),
        claimed_deltas=_claimed(problem),
        equilibria=equilibria,
        price=price,
    )


def check_converged(equilibria: tuple[MeanFieldEquilibrium, ...], game: MeanFieldGame) -> None:
    """Refuse what a search ended with if it is no equilibrium.

    Raises:
        RunFailed: The search did not converge.
    """
    for found in equilibria:
        if not found.converged:
            allowed = RESIDUAL * float(game.grid[-1])
            raise RunFailed(
                f"no equilibrium after {found.iterations} bisection steps: at mean strength "
                f"{found.mean_strength:.6g} the residual is {found.residual:.3g} (allowed: "
                f"{allowed:.3g}), the largest gain of a client {found.exploitability.largest:.3g}"
            )


def _event(problem: Problem, strength: float) -> SampledGaussian:
    experiment = problem.experiment
    context = client_context(experiment, problem.num_examples)
    step = experiment.mechanism.step_size
    return SampledGaussian(
        noise_multiplier=strength_to_noise_multiplier(strength, step, context.sensitivity),
        sampling_rate=context.amplifying_rate,
        steps=experiment.run.rounds * experiment.training.local_steps,
        neighbours=context.neighbours,
        mechanism=experiment.mechanism.name,
        strength=strength,
    )


def _claimed(problem: Problem) -> FloatArray | None:
    """Return the paper's claim: by the own strength, whoever sees what."""
    if not isinstance(problem.experiment.mechanism, Jko):
        return None
    claim = accountant("lsi", problem.experiment)
    events = (_event(problem, float(strength)) for strength in problem.grid)
    return np.array([claim.delta([event], FIXED_EPSILON) for event in events])


def rules_of(problem: Problem) -> Rules:
    """Return what game a problem is, in the words of its reports."""
    experiment, game = problem.experiment, problem.game
    neighbours = experiment.training.neighbours
    return Rules(
        num_clients=experiment.run.num_clients,
        release=problem.release,
        coupling=game.coupling,
        privacy=game.privacy,
        cost=game.cost,
        loss=_loss_name(problem.loss),
        linear_loss=isinstance(problem.loss, QuadraticLoss),
        num_examples=problem.num_examples if neighbours == "example" else None,
        steps=experiment.run.rounds * experiment.training.local_steps,
        neighbours=neighbours,
        accountant=experiment.accounting.name,
        delta=experiment.accounting.delta,
    )


def _loss_name(loss: QuadraticLoss | TabulatedLoss) -> str:
    if isinstance(loss, TabulatedLoss):
        return f"table {loss.name}"
    return f"quadratic, curvature {loss.curvature:.6g}"
