"""The mean-field Nash equilibrium as coupled partial differential equations (MFPG paper, 5.3).

Each type's value and strength solve a Hamilton-Jacobi-Bellman equation backward in time, its
density a Fokker-Planck equation forward, and the two meet in the path of the population's mean
state, found by damped Picard iteration. Steps are implicit: no condition binds the time step, and
errors are of first order in it and of second order in the width of a cell.

A common preference does not make a common strength here: s* depends on the state and on the time
left, whatever beta is. The paper's single strength holds for its scalar game alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.hjb_fpk_grid import Grid, make_grid
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk
from fedgame.games.privacy.hjb_fpk_steps import POLICY_TOLERANCE, Policy, backward, forward

Status: TypeAlias = Literal["converged", "policy", "picard", "range", "resolution", "mass"]

EDGE_SHARE: Final = 0.025
"""The part of the range at each end that no density should reach."""
EDGE_TOLERANCE: Final = 1e-5
"""Largest probability there: the walls then change little of what is far from them."""
STEP_TOLERANCE: Final = 0.25
"""Largest time step over the time in which the fastest pull acts: its error is about half of it."""
CELLS_PER_STD: Final = 2.0
"""Fewest cells in a density's standard deviation."""
ADDED_TOLERANCE: Final = 0.01
"""Largest mean of the diffusion that the grid adds, over the mean strength."""
MASS_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, eq=False)
class HjbFpkSolution:
    """A solution, or the last iterate of a failed attempt, with its certificate.

    Attributes:
        settings: What was solved.
        x: Centres of the cells, shape (points,).
        t: Times, shape (steps + 1,).
        mu: Densities of the types, shape (types, steps + 1, points).
        s_star: Strengths, same shape; index n holds from t_n to t_(n+1), the last is s_max.
        value: V, the cost from each time and state on, same shape.
        mean_state: xbar, the mean state of the population, shape (steps + 1,).
        mean_strength: s-bar, its mean strength (eq. C.5), shape (steps + 1,).
        residuals: By how much the mean state answered differently to its own path, at worst over
            time, in each Picard iteration; units of x.
        policy_residual: What the worst state could still gain by another strength, per unit of
            time, over 1 + its Hamiltonian's size.
        mass_error: Largest difference of a density's mass from 1.
        edge_mass: Largest probability, over times and types, in the outer parts of the range.
        status: "converged", or the first check that failed.
        message: The check that failed, with its numbers and what to change, or what was reached.
    """

    settings: HjbFpk
    x: FloatArray
    t: FloatArray
    mu: FloatArray
    s_star: FloatArray
    value: FloatArray
    mean_state: FloatArray
    mean_strength: FloatArray
    residuals: tuple[float, ...]
    policy_residual: float
    mass_error: float
    edge_mass: float
    status: Status
    message: str

    @property
    def converged(self) -> bool:
        """Return whether all checks passed; otherwise `message` says which failed, and why."""
        return self.status == "converged"


def solve_hjb_fpk(settings: HjbFpk) -> HjbFpkSolution:
    """Solve the coupled equations on the settings' grid.

    Returns:
        A solution with a status; where it is not "converged", the arrays are those of the last
        iteration and the message says what failed.

    Raises:
        ValueError: The loss or the density at time 0 is not allowed.
    """
    grid = make_grid(settings)
    first = settings.density_at(grid.x)
    path = np.full(len(grid.t), float(first @ grid.x / first.sum()))
    guess, residuals = None, list[float]()
    while True:
        policy = backward(settings, grid, path, guess)
        mu = forward(settings, grid, policy.strength, path)
        answer = np.einsum("j,jtx,x->t", settings.shares(), mu, grid.x) * grid.width
        residuals.append(float(np.abs(answer - path).max()))
        if residuals[-1] <= settings.tolerance or len(residuals) == settings.max_iterations:
            break
        path = path + settings.damping * (answer - path)
        guess = policy.strength
    return _certified(settings, grid, policy, mu, answer, residuals)


def _certified(
    settings: HjbFpk,
    grid: Grid,
    policy: Policy,
    mu: FloatArray,
    mean_state: FloatArray,
    residuals: list[float],
) -> HjbFpkSolution:
    mass_error = float(np.abs(mu.sum(axis=-1) * grid.width - 1).max())
    margin = EDGE_SHARE * (settings.x_max - settings.x_min)
    outer = (grid.x < settings.x_min + margin) | (grid.x > settings.x_max - margin)
    edge_mass = float(mu[..., outer].sum(axis=-1).max() * grid.width)
    shares = settings.shares()
    mean_strength = np.einsum("j,jtx,jtx->t", shares, mu, policy.strength) * grid.width
    checks: tuple[tuple[Status, str], ...] = (
        ("policy", _policy_problem(settings, grid, policy.residual)),
        ("picard", _picard_problem(settings, residuals)),
        ("mass", _mass_problem(mass_error)),
        ("range", _range_problem(settings, edge_mass, margin)),
        ("resolution", _time_problem(settings, grid)),
        ("resolution", _resolution_problem(settings, grid, mu, mean_state, mean_strength)),
    )
    passed: tuple[Status, str] = (
        "converged",
        f"converged: residual {residuals[-1]:.3g} after {len(residuals)} iterations",
    )
    status, message = next((check for check in checks if check[1]), passed)
    return HjbFpkSolution(
        settings=settings,
        x=grid.x,
        t=grid.t,
        mu=mu,
        s_star=policy.strength,
        value=policy.value,
        mean_state=mean_state,
        mean_strength=mean_strength,
        residuals=tuple(residuals),
        policy_residual=policy.residual,
        mass_error=mass_error,
        edge_mass=edge_mass,
        status=status,
        message=message,
    )


def _policy_problem(settings: HjbFpk, grid: Grid, residual: float) -> str:
    if residual <= POLICY_TOLERANCE:
        return ""
    explicit = grid.width**2 / (2 * settings.s_max)
    return (
        f"policy iterations did not converge: residual {residual:.3g} after "
        f"policy-iterations = {settings.policy_iterations}, tolerance {POLICY_TOLERANCE:.3g}; "
        f"raise policy-iterations or time-steps (the time step is {grid.dt:.3g}; a policy lagged "
        f"by one step needs at most dx^2/(2 s-max) = {explicit:.3g})"
    )


def _picard_problem(settings: HjbFpk, residuals: list[float]) -> str:
    if residuals[-1] <= settings.tolerance:
        return ""
    return (
        f"Picard iteration did not converge: residual {residuals[-1]:.3g} after "
        f"{len(residuals)} iterations, tolerance {settings.tolerance:.3g}; raise "
        "max-iterations, or lower damping if the residuals do not fall"
    )


def _mass_problem(mass_error: float) -> str:
    if mass_error <= MASS_TOLERANCE:
        return ""
    return (
        f"rounding: a density's mass is off by {mass_error:.3g}, tolerance {MASS_TOLERANCE:.3g}; "
        "lower points or raise time-steps"
    )


def _range_problem(settings: HjbFpk, edge_mass: float, margin: float) -> str:
    if edge_mass <= EDGE_TOLERANCE:
        return ""
    return (
        f"the range is too narrow: probability {edge_mass:.3g} within {margin:.3g} of x-min = "
        f"{settings.x_min:g} or x-max = {settings.x_max:g}, tolerance {EDGE_TOLERANCE:.3g}; "
        "widen it"
    )


def _time_problem(settings: HjbFpk, grid: Grid) -> str:
    """Refuse implicit steps so long that they miss how fast the pulls act; they are stable."""
    rate = settings.s_max / settings.prior_std**2 + settings.variance_penalty
    if grid.dt * rate <= STEP_TOLERANCE:
        return ""
    return (
        f"the grid is too coarse: a time step of {grid.dt:.3g} at the fastest pull, {rate:.3g}, "
        f"is {grid.dt * rate:.3g}, tolerance {STEP_TOLERANCE:g}; raise time-steps"
    )


def _resolution_problem(
    settings: HjbFpk,
    grid: Grid,
    mu: FloatArray,
    mean_state: FloatArray,
    mean_strength: FloatArray,
) -> str:
    mean = mu @ grid.x * grid.width
    variance = np.maximum(mu @ grid.x**2 * grid.width - mean**2, 0.0)
    cells = float(np.sqrt(variance.min()) / grid.width)
    if cells < CELLS_PER_STD:
        return (
            f"the grid is too coarse: a density's standard deviation spans {cells:.3g} cells of "
            f"width {grid.width:.3g}, fewer than {CELLS_PER_STD:g}; raise points"
        )
    population = np.einsum("j,jtx->tx", settings.shares(), mu) * grid.width
    added = np.array([grid.fixed_rates(settings, xbar)[1] for xbar in mean_state])
    share = float(np.max((population[:, 1:] * added).sum(axis=-1) / mean_strength))
    if share > ADDED_TOLERANCE:
        return (
            f"the grid is too coarse: it adds {share:.3g} of the mean strength as diffusion, "
            f"tolerance {ADDED_TOLERANCE:g}; raise points or s-min"
        )
    return ""
