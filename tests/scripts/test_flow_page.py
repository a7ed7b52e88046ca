"""docs/flow.md: its curve is recorded as a whole, and its sentences say what the results do."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise, product

import pytest

from fedgame import config
from fedgame.accountants.pld import PldAccountant
from fedgame.strategies.burn_in import burn_in_of
from scripts import flow_tables
from scripts.flow_curve import (
    METHODS,
    RESULTS,
    ROOT,
    SEEDS,
    STEPS,
    STRENGTHS,
    TASKS,
    key_of,
    on_raw_data,
    preset,
)
from scripts.flow_figures import curve_figure
from scripts.flow_tables import mean, points
from scripts.table_parts import Rows
from scripts.tables import read_results

PAGE = (ROOT / "docs" / "flow.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def recorded() -> Rows:
    return read_results(RESULTS / "curve.csv")


def test_every_run_is_there_once(recorded: Rows) -> None:
    wanted = product(TASKS, range(len(METHODS)), STRENGTHS, STEPS, SEEDS)
    assert Counter(map(key_of, recorded)) == Counter(wanted)


def test_costs_are_those_of_the_presets(recorded: Rows) -> None:
    for task, strength, steps in product(TASKS, STRENGTHS, STEPS):
        experiment = config.load(preset(task, strength, steps, SEEDS[0]))
        burn_in = burn_in_of(experiment, 500)
        epsilon = PldAccountant().epsilon([burn_in.event()], experiment.accounting.delta)
        for row in points(recorded, task)[strength, steps]["data"]:
            assert float(row["mu"]) == pytest.approx(burn_in.mu, rel=1e-5)
            assert float(row["epsilon"]) == pytest.approx(epsilon, rel=1e-5)


def test_the_others_are_calibrated_to_the_same_epsilon(recorded: Rows) -> None:
    for task in TASKS:
        for methods in points(recorded, task).values():
            target = float(methods["data"][0]["epsilon"])
            for method in ("parameters", "dp-sgd"):
                for row in methods[method]:
                    # six digits, of which the last is rounded
                    assert 0.999 * target < float(row["epsilon"]) < (1 + 1e-5) * target


def test_more_steps_cost_less_and_teach_less(recorded: Rows) -> None:
    for task, strength in product(TASKS, STRENGTHS):
        found = points(recorded, task)
        for few, more in pairwise(STEPS):
            one, other = found[strength, few]["data"], found[strength, more]["data"]
            assert float(other[0]["mu"]) < float(one[0]["mu"])
            assert mean(other, "loss") > mean(one, "loss")


def test_what_the_page_says_of_the_curve(recorded: Rows) -> None:
    assert "On average the data reading is worse than DP-SGD at every epsilon here" in PAGE
    for task in TASKS:
        for methods in points(recorded, task).values():
            assert mean(methods["data"], "loss") > mean(methods["dp-sgd"], "loss")
    for methods in points(recorded, "logistic").values():
        assert mean(methods["data"], "accuracy") < mean(methods["dp-sgd"], "accuracy")


def test_the_logistic_preset_is_clearly_above_chance_at_a_moderate_epsilon(recorded: Rows) -> None:
    found = points(recorded, "logistic")[0.5, 20]["data"]
    assert max(float(row["epsilon"]) for row in found) < 1.5
    assert min(float(row["accuracy"]) for row in found) > 0.7


@pytest.mark.parametrize("method", METHODS[1:])
def test_settings_for_raw_data_are_valid(method: str) -> None:
    experiment = config.load(on_raw_data(preset("logistic", 1.0, 5, 42), method, 3.0))
    assert experiment.run.cell == ("dp-sgd" if method == "dp-sgd" else "mfep")
    assert experiment.run.rounds == 20


def test_tables_show_means_and_ranges() -> None:
    rows = [
        {
            "task": "logistic",
            "method": method,
            "strength": "0.5",
            "steps": "2",
            "mu": "0.25",
            "epsilon": "1.2345",
            "accuracy": accuracy,
        }
        for method in METHODS
        for accuracy in ("0.5", "0.75")
    ]
    line = flow_tables.logistic_table(rows)[-1]
    cell = "62.5 % (50.0 % to 75.0 %)"
    assert line == f"| 0.5 | 2 | 0.25 | 1.24 | {cell} | {cell} | {cell} |"


def test_the_figure_shows_every_mean(recorded: Rows) -> None:
    figure = curve_figure(recorded)
    assert len(figure.data) == 2 + 2 * (2 + 2)
    shown = {round(float(y), 6) for trace in figure.data for y in trace.y}
    for task, measure in (("logistic", "accuracy"), ("quadratic", "loss")):
        for methods in points(recorded, task).values():
            for own in methods.values():
                assert round(mean(own, measure), 6) in shown


def test_the_formulas_of_the_page_name_what_the_code_does() -> None:
    assert "`mu = D c^K sqrt((1 - c^2)/(1 - c^(2K))) / sqrt(2 s tau)`" in PAGE
    assert set(re.findall(r"`(burn-in\.[a-z-]+)", PAGE)) <= set(config.defaults())
