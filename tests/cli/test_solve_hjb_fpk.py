"""`fedgame solve hjb-fpk` as a user meets it: the library's numbers, files, and every failure."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame.cli.app import main
from fedgame.cli.hjb_fpk_problem import read_settings
from fedgame.games.privacy.hjb_fpk import HjbFpkSolution, solve_hjb_fpk
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk, flow_constants
from tests.html_page import Page

Call = Callable[..., tuple[int, str, str]]

PRESET = Path(__file__).parents[2] / "experiments" / "games" / "hjb-fpk.toml"
SMALL = """
points = 160
time-steps = 30
betas = [0.5, 1.5]
weights = "0.25, 0.75"
variance-penalty = 0.3
initial-mean = 0.5
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedgame", "solve", "hjb-fpk", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


def strict_json(text: str) -> dict[str, Any]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    content: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return content


@pytest.fixture(scope="module")
def small() -> HjbFpkSolution:
    """What the library says of SMALL; theta and s0 written out from the paper's formulas."""
    return solve_hjb_fpk(
        HjbFpk(
            points=160,
            time_steps=30,
            betas=(0.5, 1.5),
            weights=(0.25, 0.75),
            variance_penalty=0.3,
            initial_mean=0.5,
            loss="logistic",
            horizon=1.5,
            theta=0.75,
            s0=1.3,
            num_clients=8,
            privacy="once",
        )
    )


def test_json_has_the_library_s_numbers(problem: Path, call: Call, small: HjbFpkSolution) -> None:
    code, out, err = call(problem, "--json")
    assert (code, err) == (0, "")
    found = strict_json(out)
    assert (found["status"], found["converged"]) == ("converged", True)
    assert found["message"] == small.message
    assert found["residuals"] == list(small.residuals)
    assert (found["iterations"], found["residual"]) == (len(small.residuals), small.residuals[-1])
    assert (found["mass_error"], found["edge_mass"]) == (small.mass_error, small.edge_mass)
    assert found["policy_residual"] == small.policy_residual
    ends = {"start": small.mean_strength[0], "end": small.mean_strength[-1]}
    assert found["mean_strength"] == ends
    times = [0, 8, 15, 22, 30]
    assert found["x"] == small.x.tolist()
    assert found["t"] == small.t[times].tolist()
    assert found["s_star"] == small.s_star[:, times].tolist()
    assert found["mu"] == small.mu[:, times].tolist()
    assert (found["settings"]["s0"], found["settings"]["theta"]) == (1.3, 0.75)
    assert [kind["beta"] for kind in found["types"]] == [0.5, 1.5]
    assert [kind["share"] for kind in found["types"]] == [0.25, 0.75]


def test_types_in_json_are_moments_of_the_density(problem: Path, call: Call) -> None:
    found = strict_json(call(problem, "--json")[1])
    x, width = np.array(found["x"]), found["x"][1] - found["x"][0]
    mass, strength = np.array(found["mu"]) * width, np.array(found["s_star"])
    for j, kind in enumerate(found["types"]):
        mean = float(mass[j, -1] @ x)
        assert kind["state_mean"] == pytest.approx(mean)
        assert kind["state_std"] == pytest.approx(np.sqrt(mass[j, -1] @ (x - mean) ** 2))
        assert kind["strength_start"] == pytest.approx(mass[j, 0] @ strength[j, 0])
        assert kind["strength_end"] == pytest.approx(2.0)
    starts = [kind["share"] * kind["strength_start"] for kind in found["types"]]
    assert sum(starts) == pytest.approx(found["mean_strength"]["start"])


def test_a_person_gets_tables_and_notes(problem: Path, call: Call, small: HjbFpkSolution) -> None:
    code, out, err = call(problem)
    assert (code, err) == (0, "")
    assert "converged" in out
    assert f"{small.mean_strength[0]:.4g}" in out
    assert f"{small.residuals[-1]:.3g}" in out
    assert "claims that clients of one preference β all have one constant strength" in out
    assert "hjb-fpk.npz" not in out


def test_files_hold_the_whole_solution(
    problem: Path, call: Call, small: HjbFpkSolution, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "out"
    code, out, _ = call(problem, "--output", folder)
    assert code == 0
    assert str(folder / "hjb-fpk.html") in out
    assert sorted(path.name for path in folder.iterdir()) == ["hjb-fpk.html", "hjb-fpk.npz"]
    with np.load(folder / "hjb-fpk.npz") as arrays:
        for name in ("x", "t", "mu", "s_star", "value", "mean_state", "mean_strength"):
            np.testing.assert_array_equal(arrays[name], getattr(small, name))
        assert arrays["betas"].tolist() == [0.5, 1.5]
        assert arrays["shares"].tolist() == [0.25, 0.75]
        assert arrays["residuals"].tolist() == list(small.residuals)
    page = Page((folder / "hjb-fpk.html").read_text(encoding="utf-8"))
    assert len(page.figures) == 5


# --- settings -----------------------------------------------------------------------------------


def test_the_preset_is_the_default() -> None:
    settings = read_settings(None, ())
    assert read_settings(PRESET, ()) == settings
    # the paper's logistic task: K = 15 steps of .1, N = 8, lambda = .01, sigma0 = 1, C = 1
    assert (settings.theta, settings.s0) == flow_constants(
        15, 0.1, prior_std=1.0, variance_penalty=0.01, gradient_bound=1.0
    )
    assert (settings.horizon, settings.num_clients, settings.loss) == (1.5, 8, "logistic")
    assert (settings.s_min, settings.s_max, settings.variance_penalty) == (0.1, 2.0, 0.01)
    np.testing.assert_allclose(settings.betas, np.linspace(0.5, 1.5, 5))


def test_with_the_c_d_of_20_dimensions_nearly_all_take_the_largest_strength() -> None:
    """Which is why the default has the C_d of one."""
    coarse = ("points=160", "time-steps=30", f"c-d={20**0.5}")
    solution = solve_hjb_fpk(read_settings(None, coarse))
    assert solution.mean_strength.min() > 1.98


def test_the_claim_s_constants_follow_the_other_settings() -> None:
    settings = read_settings(None, ("prior-std=2", "horizon=3", "variance-penalty=0.5"))
    assert settings.theta == pytest.approx(3 / (2 * 4))
    assert settings.s0 == pytest.approx((0.5 + 1) * 4)
    given = read_settings(None, ("prior-std=2", "theta=0.25"))
    assert given.theta == 0.25
    assert given.s0 == pytest.approx(1.01 * 4)
    both = read_settings(None, ("prior-std=0.01", "theta=1000", "s0=0.2"))
    assert (both.theta, both.s0) == (1000, 0.2)


def test_overrides_win_over_the_file(problem: Path) -> None:
    settings = read_settings(problem, ("betas=0.4, 1", "points=99", "loss=quadratic"))
    assert settings.betas == (0.4, 1.0)
    assert (settings.points, settings.time_steps, settings.loss) == (99, 30, "quadratic")
    assert read_settings(None, ("betas=[2, 3]",)).betas == (2.0, 3.0)
    assert read_settings(None, ("betas=3",)).betas == (3.0,)


# --- what fails ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("x-max=-7", "x-max = -7: must be above x-min = -6.0"),
        ("x-min=7", "x-max = 6.0: must be above x-min = 7.0"),
        ("x-max=1e308", "x-max = 1e+308: must be at most 1e+09 in size"),
        ("num-clients=1" + "0" * 400, "num-clients = 1" + "0" * 400 + ": must be at most 1e+09"),
        ("s-max=0.05", "s-max = 0.05: must be at least s-min = 0.1"),
        ("s-min=nan", "s-min = nan: must be a finite number"),
        ("points=4", "points = 4: must be greater than or equal to 10"),
        ("points=true", "points = True: must not be true or false"),
        ("pointz=40", "pointz = 40: unknown key; did you mean points?"),
        ("initial-density=1", "initial-density = 1: unknown key; "),
        ("betas=1,-2", "betas = '-2': must be greater than 0"),
        ("betas=[]", "betas = []: must have at least one number"),
        ("weights=0.5, 0.6", "weights = ['0.5', '0.6']: must be 5 numbers, one a beta, of sum 1"),
        ("loss=cubic", "loss = 'cubic': must be 'quadratic' or 'logistic'"),
        ("privacy=twice", "privacy = 'twice': must be 'rate' or 'once'"),
        ("theta=1e9", "theta (s0 - s-min) = 9.1e+08: must be at most 300"),
        ("prior-std=1e-9", "theta, from horizon, prior-std and variance-penalty, = 7.5e+17: "),
        ("prior-std=1e-200", "prior-std = 1e-200: too small: T/(2 prior-std^2) is infinite"),
        ("time-steps=1000000", "points x (time-steps + 1) x types = 2000002000: must be at most"),
        ("initial-mean=1e5", "initial-density: values from 0 to 0 on the grid; they must be"),
        ("points", "--run-config = 'points': must be of the form key=value"),
    ],
)
def test_a_bad_setting_is_one_line(call: Call, override: str, message: str) -> None:
    code, out, err = call("-c", override)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_a_bad_value_in_a_file_names_the_file(call: Call, problem: Path) -> None:
    problem.write_text("betas = [1.0, 0.0]")
    message = "betas = 0.0: must be greater than 0"
    assert call(problem) == (2, "", f"error: {problem}: {message}\n")
    problem.write_text("[betas]\nlow = 1")
    assert call(problem)[2].startswith(f"error: {problem}: betas = {{'low': 1}}: ")
    problem.write_text("s_min = 1")
    assert "s_min = 1: unknown key; did you mean s-min?" in call(problem)[2]
    assert call(problem.parent / "none.toml")[0] == 2


def test_a_folder_that_cannot_be_made_is_refused_at_once(call: Call, problem: Path) -> None:
    code, out, err = call(problem, "--output", problem / "below")
    assert (code, out) == (2, "")
    assert "--output = " in err
    assert "must be a folder that can be written" in err


def test_too_few_iterations_fail_after_everything_is_written(
    call: Call, problem: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    code, out, err = call(problem, "-c", "max-iterations=1", "--json", "--output", folder)
    found = strict_json(out)
    assert code == 1
    assert (found["status"], found["converged"], found["iterations"]) == ("picard", False, 1)
    assert f"did not converge: residual {found['residual']:.3g} after 1 iterations" in err
    assert err == f"error: {found['message']}\n"
    page = Page((folder / "hjb-fpk.html").read_text(encoding="utf-8"))
    assert "(failed)" in page.words
    assert "the last iterate, not a solution" in page.words
    assert (folder / "hjb-fpk.npz").exists()


def test_other_failed_checks_show_the_residual_too(call: Call, problem: Path) -> None:
    code, out, err = call(problem, "-c", "x-max=3")
    assert code == 1
    assert "range" in out
    assert err.startswith("error: the range is too narrow: probability ")
    assert "(Picard residual " in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("ends", [("x-min=-1e9", "x-max=1e9"), ("x-min=0", "x-max=1e-300")])
def test_cells_of_extreme_width_fail_a_check_without_a_warning(
    call: Call, ends: tuple[str, str]
) -> None:
    """What is not a number is null in JSON."""
    tiny = ("-c", "points=100", "-c", "time-steps=4", "-c", "max-iterations=2", "--json")
    code, out, err = call("-c", ends[0], "-c", ends[1], "-c", "initial-std=1e8", *tiny)
    assert code == 1
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert not strict_json(out)["converged"]
