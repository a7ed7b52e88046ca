"""docs/aggregative.md: its examples run, and its sentences say what the results do."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedgame import config
from fedgame.games.aggregative.schedules import parse_schedule
from fedgame.games.aggregative.transcript import FILE, read_recording
from fedgame.runner import run_in_process
from scripts import pml_attacks, pml_correlation, pml_settings, pml_stopping
from scripts.pml_settings import RESULTS, ROOT
from scripts.tables import read_results

PAGE = (ROOT / "docs" / "aggregative.md").read_text(encoding="utf-8")
TEXT = re.sub(r"\s+", " ", PAGE)


def _block(marker: str) -> str:
    found = re.search(rf"<!-- {marker} -->\n```[a-z]+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def _value(name: str, column: str, **where: object) -> str:
    """Return the number of a column in the one row with these values, as the page writes it."""
    wanted = {key: str(value) for key, value in where.items()}
    (row,) = (row for row in read_results(RESULTS / f"{name}.csv") if wanted.items() <= row.items())
    return f"{float(row[column]):.3g}"


def test_the_example_runs_and_leaks_what_its_bound_allows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names: dict[str, object] = {}
    exec(compile(_block("example"), "example", "exec"), names)
    assert "may message 20 be sent? Decision(send=array(True)" in capsys.readouterr().out
    leakage, prior = names["exact_leakage"], names["prior"]
    bound, gaps = names["theorem_1"], names["message_distances"]
    assert callable(leakage)
    assert callable(bound)
    assert callable(gaps)
    found = leakage(prior, names["logs"])
    above = bound(prior, gaps(names["v"], names["scales"])).value
    assert (found <= above + 1e-12).all()
    assert 0.1 < found[-1] < 5 * np.log(2)


def test_the_game_of_ones_own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traffic.py").write_text(_block("own game"), encoding="utf-8")
    (tmp_path / "traffic.toml").write_text(_block("own experiment"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        flat = config.read_toml(tmp_path / "traffic.toml")
        experiment = config.load({**flat, "output-dir": str(tmp_path)})
        summary = run_in_process(experiment, 1, lambda _: None).summary
    finally:
        sys.modules.pop("traffic", None)
    assert summary["status"] == "finished"
    assert summary["game"] == "python-game"
    gains = summary["exploitability"]["by_iteration"]
    assert gains[-1] < gains[0] / 5
    assert summary["exploitability"]["exact"] is False


def test_the_quadratic_game_of_ones_own_is_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "roads.py").write_text(_block("own quadratic game"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    flat = tomllib.loads(_block("own experiment"))
    assert 'function = "roads:roads"' in TEXT
    keys = {key: flat[key] for key in ("strategy", "num-clients", "rounds")} | {
        "aggregative.name": "python-game",
        "aggregative.noise": "0.1",
        "aggregative.step": "0.1",
        "python-game.function": "roads:roads",
        "pml-filter.action": "measure",
        "output-dir": str(tmp_path),
    }
    try:
        summary = run_in_process(config.load(keys), 1, lambda _: None).summary
    finally:
        sys.modules.pop("roads", None)
    assert (summary["status"], summary["game_name"]) == ("finished", "roads")
    # the pseudo-gradient 2 x_i + delta + x_i/N has the eigenvalue 2 + 1/N but along the mean
    assert summary["smallest_eigenvalue"] == pytest.approx(2 + 1 / 6)
    course = summary["error"]["by_iteration"]
    assert course[-1] < course[0] / 5
    assert summary["exploitability"]["exact"] is True


def test_the_ring_shows_raised_noise(tmp_path: Path) -> None:
    flat = config.read_toml(ROOT / "experiments" / "aggregative" / "energy-ring.toml")
    experiment = config.load({**flat, "output-dir": str(tmp_path)})
    assert experiment.pml_filter.action == "raise-noise"
    done = run_in_process(experiment, 1, lambda _: None)
    recording = read_recording(done.folder / FILE)
    scales = recording.transcript.scales.max(axis=1)
    raised = scales > recording.schedules.noise * 1.01
    assert 10 <= raised.sum() < len(raised) - 10
    assert not raised[:10].any()


def test_schedules_are_the_formulas_on_the_page() -> None:
    row = r'^\| `"((?:power|inverse|geometric):[^"]+)"` \| (.+) \|$'
    rows = re.findall(row, PAGE, re.MULTILINE)
    assert len(rows) == 4
    for text, formula in rows:
        name, *parameters = text.split(":")
        values = dict(zip(parameters, (0.5, 2.0, 0.25, 1.5), strict=False))
        expression = re.sub(r"(?<=\w) (?=[kQ])", "*", formula).replace("^", "**")
        expected = [eval(expression, {"k": k, **values}) for k in range(4)]
        schedule = parse_schedule(":".join([name, *map(str, values.values())]))
        assert schedule.values(4) == pytest.approx(expected)


def test_every_preset_is_in_the_table_and_says_what_it_shows() -> None:
    for path in sorted((ROOT / "experiments" / "aggregative").glob("*.toml")):
        assert f"`experiments/aggregative/{path.name}`" in PAGE
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# ")
        assert tomllib.loads(text)["strategy"] == "aggregative"


def test_the_numbers_on_attacks_are_those_of_the_results() -> None:
    assert f"has a gain of {_value('gain', 'blind', noise='none', iteration=0)}:" in TEXT
    leaked, top, group, bayes, matching, counted = (
        _value("leakage", column, iteration=40)
        for column in ("exact", "ceiling", "group_dp", "bayes", "matching", "matching_as_in_paper")
    )
    assert _value("leakage", "theorem_1", iteration=40) == top
    assert f"{leaked} of the {top} nats have leaked" in TEXT
    assert f"group DP says {group}. The Bayes adversary's log gain is {bayes}." in TEXT
    assert f"Gradient matching has {matching}:" in TEXT
    assert f"it seems to gain {counted}." in TEXT


def test_the_numbers_on_errors_are_those_of_the_results() -> None:
    errors = {
        (holder, rule): _value("tradeoff", "error", rule=rule, budget=2, holder=holder)
        for holder in ("filter", "theorem-1", "group-dp")
        for rule in ("ye", "wang")
    }
    filtered, theorem, group = (
        (errors[holder, "ye"], errors[holder, "wang"])
        for holder in ("filter", "theorem-1", "group-dp")
    )
    assert f"squared error of {filtered[0]} with `ye` and {filtered[1]} with `wang`" in TEXT
    assert (
        f"Theorem 1 to {theorem[0]} and {theorem[1]}, group DP to {group[0]} and {group[1]}" in TEXT
    )
    for rule in ("ye", "wang"):
        start = _value("tradeoff", "error_start", rule=rule, budget=2, holder="filter")
        assert f"at the start it is {start}." in TEXT


def test_the_numbers_on_one_player_are_those_of_the_results() -> None:
    dp = _value("correlation", "dp", players=3)
    assert f"A player's DP is {dp} whatever N." in TEXT
    few, many = (_value("correlation", "exact", players=players) for players in (3, 200))
    assert f"can already leak {few}, and with 200 it leaks {many}, which is all there is." in TEXT
    assert many == _value("correlation", "ceiling", players=200)
    mean = _value("correlation", "mean_exact", players=200)
    assert f"200 players leak {mean} about player 1" in TEXT


def test_the_numbers_on_stopping_are_those_of_the_results() -> None:
    rules = ("filter", "theorem-1", "corollary-2", "group-dp")
    where = {"prior": "product", "budget": 2}
    count, error = (
        [_value("stopping", column, rule=rule, **where) for rule in rules]
        for column in ("iterations", "error")
    )
    planned = _value("stopping", "planned", rule="filter", **where)
    assert (
        f"allows {count[0]} of {planned} iterations, Theorem 1 allows {count[1]}, Corollary 2 "
        f"allows {count[2]} and group DP message 0 alone"
    ) in TEXT
    assert count[3] == "1"
    assert f"falls from {error[3]} to {error[0]}, {error[1]}, {error[2]} and not at all" in TEXT
    assert error[3] == _value("stopping", "error_start", rule="filter", **where)
    filtered, theorem = (
        _value("stopping", "iterations", prior="correlated", budget=1, rule=rule)
        for rule in ("filter", "theorem-1")
    )
    assert f"at R = 1, it is {filtered} iterations to {theorem}." in TEXT
    demo = (ROOT / "experiments" / "aggregative" / "demo.toml").read_text(encoding="utf-8")
    assert f"stop them after {count[1]} of {planned} iterations" in demo


def test_the_settings_are_those_of_the_scripts() -> None:
    draws = pml_settings.DRAWS
    assert f"mean over {draws} draws of types and noise" in TEXT
    assert f"attack step {pml_attacks.ATTACK.step_size:g}." in TEXT
    assert f"on {draws} draws within the budget; shown is the error on {draws} other draws" in TEXT
    alpha, beta = pml_correlation.ALPHA, pml_correlation.BETA
    assert f"alpha = {alpha:g}, beta = {beta:g}." in TEXT
    assert f"The mean is over {pml_correlation.DRAWS} real runs." in TEXT
    assert f"{pml_stopping.RUNS} runs each" in TEXT
