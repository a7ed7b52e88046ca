"""What the recorded results must show; `make results` and `make results-jsam` make them anew."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest

from fedgame.config import read_toml
from scripts.jsam_grid import MECHANISMS, PRESET, grid, job_of
from scripts.jsam_rows import fingerprint

RESULTS = Path(__file__).parents[1] / "results"
CAP = float(read_toml(PRESET)["procurement.epsilon-max"])
COSTED = [mechanism for mechanism in MECHANISMS if mechanism != "bbm"]


def _rows(table: str, cell: str) -> list[dict[str, str]]:
    with (RESULTS / f"{table}.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["cell"] == cell]
    assert len({row["seed"] for row in rows}) == 3
    return rows


@pytest.mark.parametrize("cell", ["mfpg", "dp-sgd"])
def test_full_mnist_is_learnt_within_an_epsilon_of_2(cell: str) -> None:
    rows = _rows("sound_mnist", cell)
    assert all(float(row["accuracy"]) >= 0.9 for row in rows)
    assert all(float(row["worst_epsilon"]) <= 2 for row in rows)
    assert all(float(row["realised_max"]) <= float(row["worst_epsilon"]) for row in rows)


def test_both_are_compared_at_one_worst_epsilon() -> None:
    worst = {
        cell: max(float(row["worst_epsilon"]) for row in _rows("sound_mnist", cell))
        for cell in ("mfpg", "dp-sgd")
    }
    assert worst["dp-sgd"] == pytest.approx(worst["mfpg"], abs=0.01)


def test_the_demo_learns() -> None:
    assert mean(float(row["accuracy"]) for row in _rows("demo", "mfpg")) > 0.8


def _jsam(table: str) -> list[dict[str, str]]:
    with (RESULTS / "jsam" / f"{table}.csv").open() as stream:
        return list(csv.DictReader(stream))


def _curve(mechanism: str, column: str) -> list[float]:
    return [float(row[column]) for row in _jsam("cost") if row["mechanism"] == mechanism]


def test_every_jsam_run_is_there_once() -> None:
    assert Counter(map(job_of, _jsam("accuracy"))) == Counter(grid())


def test_all_jsam_runs_are_of_the_preset_as_it_is() -> None:
    assert {row["settings"] for row in _jsam("accuracy")} == {fingerprint(read_toml(PRESET))}


def test_no_jsam_client_spent_more_than_was_bought() -> None:
    for row in _jsam("accuracy"):
        assert 0 < float(row["spent_max"]) <= float(row["bought_max"])


def _jsam_accuracy(mechanism: str, similarity: int, budget: float) -> list[float]:
    """Return the accuracies over seeds, in their order."""
    rows = [
        row
        for row in _jsam("accuracy")
        if row["mechanism"] == mechanism
        and int(row["similarity"]) == similarity
        and float(row["budget"]) == budget
    ]
    return [float(row["accuracy"]) for row in sorted(rows, key=lambda row: int(row["seed"]))]


@pytest.mark.parametrize(("similarity", "budget"), [(100, 1), (100, 3), (30, 1)])
def test_jsam_is_above_usbm_with_little_money(similarity: int, budget: float) -> None:
    jsam, usbm = (_jsam_accuracy(name, similarity, budget) for name in ("jsam", "usbm"))
    assert len(jsam) == len(usbm) == 3
    assert all(one > other for one, other in zip(jsam, usbm, strict=True))


def test_the_docs_say_where_jsam_is_not_above() -> None:
    pairs = zip(*(_jsam_accuracy(name, 30, 3) for name in ("jsam", "usbm")), strict=True)
    assert {jsam > usbm for jsam, usbm in pairs} == {True, False}
    for similarity, budget in ((30, 10.0), (0, 3.0), (0, 10.0)):
        (jsam,) = _jsam_accuracy("jsam", similarity, budget)
        assert jsam < _jsam_accuracy("usbm", similarity, budget)[0]
    weaker = ((70, 10.0), (30, 10.0), (0, 10.0), (30, 3.0), (0, 3.0), (0, 1.0), (0, 0.3))
    for similarity, budget in weaker:
        jsam = _jsam_accuracy("jsam", similarity, budget)[0]
        assert jsam < _jsam_accuracy("fsbm-50", similarity, budget)[0]


def test_all_jsam_mechanisms_pay_about_the_same() -> None:
    for row in _jsam("accuracy"):
        # the budget is an expectation over sensitivities, a run has one draw of 100 of them
        assert float(row["total_payment"]) == pytest.approx(float(row["budget"]), rel=0.25)


@pytest.mark.parametrize("mechanism", COSTED)
def test_cost_does_not_fall_in_eta(mechanism: str) -> None:
    etas, costs = _curve(mechanism, "eta"), _curve(mechanism, "expected_cost")
    assert len(etas) == 40
    assert etas == sorted(etas)
    assert all(later >= earlier for earlier, later in pairwise(costs))


@pytest.mark.parametrize("mechanism", ["jsam", "jsam-ci"])
def test_jsam_selects_more_clients_as_eta_grows(mechanism: str) -> None:
    participants = _curve(mechanism, "participants")
    assert participants[0] < 10
    assert participants[-1] == 100
    assert participants == sorted(participants)


@pytest.mark.parametrize(("mechanism", "count"), [("usbm", 100), ("fsbm-50", 50), ("fsbm-75", 75)])
def test_the_others_select_a_fixed_number(mechanism: str, count: int) -> None:
    assert set(_curve(mechanism, "participants")) == {count}


def test_jsam_costs_what_usbm_does_once_selection_is_uniform() -> None:
    pairs = zip(
        _curve("jsam", "participants"),
        _curve("jsam", "expected_cost"),
        _curve("usbm", "expected_cost"),
        strict=True,
    )
    uniform = [(jsam, usbm) for count, jsam, usbm in pairs if count == 100]
    assert len(uniform) > 10
    for jsam, usbm in uniform:
        assert jsam == pytest.approx(usbm, rel=1e-9)


def test_uniform_selection_begins_where_the_docs_say_and_costs_grow_like_a_square_root() -> None:
    etas, counts = _curve("jsam", "eta"), _curve("jsam", "participants")
    first = counts.index(100)
    assert 30 < etas[first - 1] < etas[first] < 45
    costs, largest = _curve("usbm", "expected_cost"), _curve("usbm", "bought_max")
    below_the_cap = [k for k, bought in enumerate(largest) if bought < CAP]
    assert len(below_the_cap) > 30
    for k in below_the_cap:
        assert costs[k] == pytest.approx(costs[0] * (etas[k] / etas[0]) ** 0.5, rel=1e-9)


def test_knowing_uniform_costs_saves_a_factor_of_the_root_of_2() -> None:
    largest, counts = _curve("jsam-ci", "bought_max"), _curve("jsam-ci", "participants")
    costs = zip(_curve("usbm", "expected_cost"), _curve("jsam-ci", "expected_cost"), strict=True)
    both = [pair for pair, b, n in zip(costs, largest, counts, strict=True) if b < CAP and n == 100]
    assert len(both) > 5
    for usbm, known in both:
        assert usbm == pytest.approx(2**0.5 * known, rel=1e-9)


def _population(task: str) -> list[dict[str, str]]:
    with (RESULTS / "population" / "scaling.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["task"] == task]
    return sorted(rows, key=lambda row: int(row["clients"]))


@pytest.mark.parametrize("task", ["logistic", "quadratic"])
def test_a_hundred_thousand_clients_fit_a_small_machine(task: str) -> None:
    largest = _population(task)[-1]
    assert int(largest["clients"]) == 100_000
    assert float(largest["peak_mebibytes"]) < 8 * 1024
    assert float(largest["run_seconds"]) < 180
    assert float(largest["plain_seconds"]) < 5
    if task == "logistic":
        assert float(largest["choice_seconds"]) < 5


@pytest.mark.parametrize("task", ["logistic", "quadratic"])
def test_a_client_costs_less_in_a_larger_cohort(task: str) -> None:
    rows = _population(task)
    costs = [float(row["plain_seconds"]) / int(row["clients"]) for row in rows]
    assert all(larger < smaller for smaller, larger in pairwise(costs))
