"""What a reader is told when the equations were not solved."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedgame.games.privacy import hjb_fpk
from fedgame.games.privacy.hjb_fpk import HjbFpkSolution, solve_hjb_fpk
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk


def solve(**settings: Any) -> HjbFpkSolution:
    return solve_hjb_fpk(HjbFpk(**{"time_steps": 50, **settings}))


def test_too_few_picard_iterations_are_reported() -> None:
    solution = solve(variance_penalty=1.0, initial_mean=1.0, points=240, max_iterations=2)
    assert not solution.converged
    assert solution.status == "picard"
    assert len(solution.residuals) == 2
    assert solution.message == (
        f"Picard iteration did not converge: residual {solution.residuals[-1]:.3g} after "
        "2 iterations, tolerance 1e-09; raise max-iterations, or lower damping if the "
        "residuals do not fall"
    )


def test_a_lagged_policy_is_reported_with_the_step_that_it_would_need() -> None:
    solution = solve(policy_iterations=1)
    assert not solution.converged
    assert solution.status == "policy"
    assert solution.policy_residual > 1e-6
    assert (
        f"residual {solution.policy_residual:.3g} after policy-iterations = 1" in solution.message
    )
    # dx = .03 and s_max = 2.
    assert "time step is 0.02; a policy lagged by one step needs at most" in solution.message
    assert "= 0.000225" in solution.message


def test_a_narrow_range_is_reported() -> None:
    solution = solve(x_min=-3.0)
    assert not solution.converged
    assert solution.status == "range"
    assert solution.edge_mass > 1e-4
    assert f"probability {solution.edge_mass:.3g} within 0.225 of x-min = -3" in solution.message
    # Mass is kept all the same: the walls reflect.
    assert solution.mass_error <= 1e-12


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"initial_std": 0.05}, "standard deviation spans"),
        ({"points": 20}, "cells of width 0.6, fewer than 2"),
        ({"time_steps": 2}, "tolerance 0.25; raise time-steps"),
        (
            {"variance_penalty": 10.0, "initial_mean": 1.0, "points": 100, "time_steps": 60},
            "as diffusion, tolerance 0.01",
        ),
    ],
)
def test_a_coarse_grid_is_reported(settings: dict[str, Any], reason: str) -> None:
    solution = solve(**settings)
    assert not solution.converged
    assert solution.status == "resolution"
    assert solution.message.startswith("the grid is too coarse")
    assert reason in solution.message


def test_lost_mass_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hjb_fpk, "MASS_TOLERANCE", 0.0)
    solution = solve_hjb_fpk(HjbFpk(time_steps=20))
    assert solution.status == "mass"
    assert f"off by {solution.mass_error:.3g}" in solution.message


def test_a_bad_loss_is_refused() -> None:
    with pytest.raises(ValueError, match=r"loss: is nan at x = -5\.985; must be finite"):
        solve_hjb_fpk(HjbFpk(loss=lambda x: np.full_like(x, np.nan)))


def test_a_solution_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        solve().status = "converged"  # type: ignore[misc]
