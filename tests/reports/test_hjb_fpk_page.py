"""The numbers, notes, figures and page of a solution of the coupled equations."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedgame.games.privacy.hjb_fpk import HjbFpkSolution, solve_hjb_fpk
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk
from fedgame.reports import hjb_fpk_figures as figures
from fedgame.reports.hjb_fpk_page import render_solution
from fedgame.reports.hjb_fpk_summary import (
    largest_fall,
    notes,
    settings_table,
    type_strengths,
    type_summaries,
)
from tests.html_page import Page

LOGISTIC: dict[str, Any] = {
    "loss": "logistic",
    "horizon": 1.5,
    "theta": 0.75,
    "num_clients": 8,
    "privacy": "once",
    "betas": (0.75, 0.5, 1.5, 1.0),
    "weights": (0.1, 0.2, 0.3, 0.4),
    "points": 240,
    "time_steps": 40,
}


@cache
def solve(**settings: Any) -> HjbFpkSolution:
    return solve_hjb_fpk(HjbFpk(**settings))


@pytest.fixture(scope="module")
def solution() -> HjbFpkSolution:
    return solve(**LOGISTIC)


def widths(solution: HjbFpkSolution) -> float:
    return float(solution.x[1] - solution.x[0])


# --- numbers and notes --------------------------------------------------------------------------


def test_summaries_are_those_of_clients_drawn_from_the_density(solution: HjbFpkSolution) -> None:
    rng = np.random.default_rng(0)
    for j, kind in enumerate(type_summaries(solution)):
        mass = solution.mu[j] * widths(solution)
        first = rng.choice(len(solution.x), 200_000, p=mass[0] / mass[0].sum())
        last = rng.choice(len(solution.x), 200_000, p=mass[-1] / mass[-1].sum())
        strengths, states = solution.s_star[j, 0][first], solution.x[last]
        assert kind.strength_start == pytest.approx(strengths.mean(), abs=0.01)
        assert kind.strength_low == pytest.approx(np.quantile(strengths, 0.05), abs=0.02)
        assert kind.strength_high == pytest.approx(np.quantile(strengths, 0.95), abs=0.02)
        assert kind.state_mean == pytest.approx(states.mean(), abs=0.01)
        assert kind.state_std == pytest.approx(states.std(), abs=0.01)
        assert (kind.beta, kind.share) == (LOGISTIC["betas"][j], LOGISTIC["weights"][j])


def test_types_strengths_make_the_population_s(solution: HjbFpkSolution) -> None:
    mixed = np.array(LOGISTIC["weights"]) @ type_strengths(solution)
    np.testing.assert_allclose(mixed, solution.mean_strength, rtol=1e-13)


def test_a_mean_of_0_is_written_as_0() -> None:
    centred = solve(points=160, time_steps=20)
    assert type_summaries(centred)[0].state_mean == 0.0


def test_the_note_on_one_strength_has_the_range_of_one_type(solution: HjbFpkSolution) -> None:
    note = notes(solution)[0]
    assert "claims that clients of one preference β all have one constant strength" in note
    assert "It is not so here" in note
    first, second, *_ = type_summaries(solution)
    assert first.strength_low == second.strength_low == 0.1
    assert "β = 0.75 have strengths from 0.1 to 2." in note


def test_bounds_that_bind_are_not_held_against_the_paper() -> None:
    bound = solve(s_min=0.5, s_max=0.5, points=160, time_steps=20)
    assert "because the bounds on the strength bind" in notes(bound)[0]
    assert "It is not so here" not in notes(bound)[0]


def test_the_largest_fall_is_found_in_the_order_of_preferences(solution: HjbFpkSolution) -> None:
    fall = largest_fall(solution)
    assert fall is not None
    assert fall.larger_beta > fall.beta
    n = int(np.argmin(np.abs(solution.t - fall.t)))
    i = int(np.argmin(np.abs(solution.x - fall.x)))
    low, high = (LOGISTIC["betas"].index(beta) for beta in (fall.beta, fall.larger_beta))
    assert solution.s_star[low, n, i] == fall.strength
    assert solution.s_star[high, n, i] == fall.smaller_strength
    assert fall.smaller_strength < fall.strength - 0.01
    inhabited = [solution.mu[j, n, i] / solution.mu[j, n].max() for j in (low, high)]
    assert min(inhabited) >= 0.01
    assert f"it is {fall.strength:.4g} for β = {fall.beta:.4g}" in notes(solution)[2]


def test_nothing_falls_where_strengths_rise_everywhere(solution: HjbFpkSolution) -> None:
    rising = np.array(LOGISTIC["betas"])[:, None, None] * np.ones_like(solution.s_star)
    sorted_ = dataclasses.replace(solution, s_star=rising)
    assert largest_fall(sorted_) is None
    assert "falls by no more than 0.001" in notes(sorted_)[2]
    one = solve(points=160, time_steps=20)
    assert largest_fall(one) is None
    assert "it falls" not in notes(one)[2]


def test_peaks_are_where_the_strength_leaves_its_lower_bound() -> None:
    """Not an error of the grid, and s* mu hardly changes there, as the note says."""
    alone = LOGISTIC | {"betas": (0.5,), "weights": (), "time_steps": 60}
    heights = []
    for points in (400, 1600):
        fine = solve(**(alone | {"points": points}))
        strength, density = fine.s_star[0, 30], fine.mu[0, 30]
        leaves = int(np.flatnonzero(strength <= 0.1)[0])
        assert abs(fine.x[int(density.argmax())] - fine.x[leaves]) < 0.04
        near = (fine.x > fine.x[leaves] - 0.1) & (fine.x <= fine.x[leaves])
        product = (strength * density)[near]
        assert density[near].max() > 2 * density[near].min()
        assert product.max() < 1.4 * product.min()
        heights.append(density.max())
    assert heights[0] == pytest.approx(heights[1], rel=0.05)
    assert "does not reach" not in notes(fine)[1]
    assert "does not reach" in notes(solve(points=160, time_steps=20, betas=(9.0,)))[1]


def test_settings_are_listed_by_key(solution: HjbFpkSolution) -> None:
    table = settings_table(solution)
    assert table["num-clients"] == 8
    assert table["betas"] == [0.75, 0.5, 1.5, 1.0]
    assert "initial-density" not in table
    json.dumps(table, allow_nan=False)


# --- figures ------------------------------------------------------------------------------------


def test_panels_are_the_lowest_a_middle_and_the_highest(solution: HjbFpkSolution) -> None:
    assert figures.chosen_types(solution, 3) == [1, 3, 2]
    assert figures.chosen_types(solution, 9) == [1, 0, 3, 2]
    assert figures.snapshot_times(solution) == [0, 10, 20, 30, 40]


def test_densities_are_drawn_where_clients_are(solution: HjbFpkSolution) -> None:
    figure = figures.densities(solution)
    assert len(figure.data) == 3 * 5
    cells = figures.inhabited(solution)
    outside = 1 - solution.mu[..., cells].sum(axis=-1) * widths(solution)
    assert outside.max() <= 1e-4
    assert cells.stop - cells.start < len(solution.x) - 20
    line = figure.data[7]
    assert line.name == "t = 0.75"
    np.testing.assert_array_equal(line.x, solution.x[cells])
    np.testing.assert_array_equal(line.y, solution.mu[3, 20, cells])


def test_heat_maps_hold_the_strengths(solution: HjbFpkSolution) -> None:
    figure = figures.strength_maps(solution)
    maps = [trace for trace in figure.data if trace.type == "heatmap"]
    cells = figures.inhabited(solution)
    for heat, kind in zip(maps, (1, 3, 2), strict=True):
        drawn = np.array(heat.z, dtype=float)
        assert drawn.shape == (len(heat.y), len(heat.x))
        expected = solution.s_star[kind, :-1, cells].T
        np.testing.assert_allclose(drawn, expected, atol=1e-5)
    low, high = figure.data[1], figure.data[2]
    below = np.array(
        [solution.mu[1, 0][solution.x <= edge].sum() for edge in (low.y[0], high.y[0])]
    )
    np.testing.assert_allclose(below * widths(solution), [0.05, 0.95], atol=0.02)


def test_large_maps_are_thinned() -> None:
    large = solve(points=1500, time_steps=300, x_min=-8.0, x_max=8.0)
    heat = figures.strength_maps(large).data[0]
    assert (len(heat.x), len(heat.y)) == (figures.MAP_TIMES, figures.MAP_STATES)
    assert (heat.x[0], heat.x[-1]) == (0, large.t[-2])


def test_lines_of_strength(solution: HjbFpkSolution) -> None:
    start = figures.strengths_at_start(solution)
    assert [line.name for line in start.data] == ["β = 0.5", "β = 0.75", "β = 1", "β = 1.5"]
    cells = figures.inhabited(solution)
    np.testing.assert_array_equal(start.data[0].y, solution.s_star[1, 0, cells])
    over_time = figures.mean_strengths(solution)
    assert len(over_time.data) == 5
    np.testing.assert_array_equal(over_time.data[-1].y, solution.mean_strength)
    np.testing.assert_allclose(over_time.data[0].y, type_strengths(solution)[1])
    assert len(figures.mean_strengths(solve(points=160, time_steps=20)).data) == 1


def test_residuals_are_drawn_with_gaps_where_a_logarithm_has_none(
    solution: HjbFpkSolution,
) -> None:
    history = figures.residuals(solution).data[0]
    assert list(history.x) == list(range(1, len(solution.residuals) + 1))
    assert list(history.y) == list(solution.residuals)
    odd = dataclasses.replace(solution, residuals=(0.5, float("nan"), 0.0))
    assert list(figures.residuals(odd).data[0].y) == [0.5, None, None]


# --- page ---------------------------------------------------------------------------------------


def test_the_page_has_everything_and_loads_nothing(solution: HjbFpkSolution) -> None:
    page = Page(render_solution(solution, "hjb-fpk.npz", "1.2.3"))
    assert page.loads == []
    assert len(page.figures) == 5
    for note in notes(solution):
        assert note in page.all("li")
    assert page.all("h3") == [
        "Optimal strength by time and state",
        "Optimal strength at the start",
        "Density of the state",
        "Mean strength",
        "Residual of each iteration",
    ]
    kind = type_summaries(solution)[2]
    assert page.rows[3][:3] == ["1.5", "0.3", f"{kind.strength_start:.4g}"]
    assert page.rows[3][3] == f"{kind.strength_low:.4g} to {kind.strength_high:.4g}"
    assert f"{solution.mean_strength[0]:.4g}" in page.all("dd")
    assert "0.75, 0.5, 1.5, 1" in page.all("dd")
    assert "1.2.3" in page.all("dd")
    assert "(failed)" not in page.words


def test_a_failed_page_says_so_first(solution: HjbFpkSolution) -> None:
    failed = dataclasses.replace(solution, status="picard", message="it did <not> converge")
    page = Page(render_solution(failed, "hjb-fpk.npz", "1"))
    assert "It did <not> converge. What is shown is the last iterate, not a solution." in page.words
    assert "(failed)" in page.words


def test_numbers_that_are_not_finite_are_gaps(solution: HjbFpkSolution) -> None:
    nothing = np.full_like(solution.mu, np.nan)
    broken = dataclasses.replace(
        solution,
        mu=nothing,
        s_star=nothing,
        mean_strength=nothing[0, :, 0],
        residuals=(float("nan"),),
        status="picard",
    )
    page = Page(render_solution(broken, "hjb-fpk.npz", "1"))
    assert len(page.figures) == 5
    assert "NaN" not in "".join(text for attributes, text in page.scripts if "type" in attributes)


def test_a_loss_of_one_s_own() -> None:
    own = solve_hjb_fpk(HjbFpk(loss=lambda x: x**2 / 4, points=160, time_steps=20))
    page = Page(render_solution(own, "hjb-fpk.npz", "1"))
    assert "of one's own" in page.words
    assert "loss" not in settings_table(own)
