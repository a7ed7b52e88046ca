"""Figures and tables of docs/aggregative.md, from the recorded results."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import pml_figures, pml_tables
from scripts.pml_figures import (
    NOISE_LOOKS,
    PLAYER_LOOKS,
    RULE_LOOKS,
    correlation_figure,
    gain_figure,
    leakage_figure,
    stopping_figure,
    tradeoff_figure,
)
from scripts.pml_settings import RESULTS
from scripts.table_parts import Rows
from scripts.tables import read_results


@pytest.fixture
def stopping() -> Rows:
    """Return a stopping.csv of made-up numbers, of one budget for each place."""
    return [
        {
            "prior": prior,
            "budget": budget,
            "rule": rule,
            "iterations": str(float(budget) * 10 + place),
            "error": str(5 - place),
        }
        for prior in ("product", "correlated")
        for budget in ("1", "2")
        for place, rule in enumerate(RULE_LOOKS)
    ]


def _recorded(name: str) -> Rows:
    return read_results(RESULTS / f"{name}.csv")


def test_gains_have_a_line_for_each_noise_and_one_for_the_blind_guess() -> None:
    figure = gain_figure(_recorded("gain"))
    names = [trace.name for trace in figure.data]
    assert names == [*(look[0] for look in NOISE_LOOKS.values()), "best blind guess"]
    low, high = figure.layout.yaxis.range
    for trace in figure.data:
        assert list(trace.x) == list(range(41))
        assert low < min(trace.y) <= max(trace.y) < high


def test_leakage_is_shown_beside_bounds_and_beside_gains() -> None:
    figure = leakage_figure(_recorded("leakage"))
    panels = {(trace.name, trace.xaxis) for trace in figure.data}
    assert {("exact leakage", "x"), ("exact leakage", "x2")} <= panels
    assert len(panels) == len(figure.data) == 8
    # a logarithmic axis has no 0
    assert all(min(trace.y) > 0 for trace in figure.data if trace.xaxis == "x")
    shown = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert len(shown) == len(set(shown)) == 7


def test_the_tradeoff_has_a_panel_for_each_rule() -> None:
    figure = tradeoff_figure(_recorded("tradeoff"))
    assert [trace.xaxis for trace in figure.data] == ["x"] * 3 + ["x2"] * 3
    assert figure.layout.yaxis.type == "log"
    for trace in figure.data:
        assert 10 ** figure.layout.yaxis.range[0] < min(trace.y)
        assert max(trace.y) < 10 ** figure.layout.yaxis.range[1]


def test_lines_end_where_nothing_was_tried() -> None:
    traces = {trace.name: trace for trace in correlation_figure(_recorded("correlation")).data}
    assert traces.keys() == {look[0] for look in PLAYER_LOOKS.values()}
    assert max(traces["gradient matching over blind"].x) == 30
    assert max(traces["exact, mean of runs"].x) == 200


def test_stopping_shows_iterations_above_errors(stopping: Rows) -> None:
    figure = stopping_figure(stopping)
    assert len(figure.data) == 2 * 2 * len(RULE_LOOKS)
    by_panel = {(trace.name, trace.xaxis): list(trace.y) for trace in figure.data}
    assert by_panel["filter (exact)", "x"] == [10, 20]
    assert by_panel["filter (exact)", "x3"] == [5, 5]
    assert by_panel["group DP", "x4"] == [2, 2]
    assert sum(trace.showlegend for trace in figure.data) == len(RULE_LOOKS)


@pytest.mark.parametrize("looks", [NOISE_LOOKS, RULE_LOOKS])
def test_looks_are_told_apart_without_colour(looks: dict[str, pml_figures.Look]) -> None:
    assert len({look[3] for look in looks.values()}) == len(looks)
    assert len({look[1] for look in looks.values()}) == len(looks)


def test_missing_results_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "pml"
    assert pml_figures.main(["--results", str(results), "--output", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.count("make results-pml") == len(pml_figures.FIGURES)


def test_the_table_of_stopping_has_iterations_and_error(stopping: Rows) -> None:
    header, _, *lines = pml_tables.stopping_table(stopping)
    assert header == "| types | R | filter | Theorem 1 | Corollary 2 | group DP |"
    assert len(lines) == 4
    assert lines[0] == "| product | 1 | 10.0 (5) | 11.0 (4) | 12.0 (3) | 13.0 (2) |"


def test_a_number_that_is_not_there_is_a_dash() -> None:
    rows = _recorded("correlation")
    line = pml_tables.correlation_table(rows)[-1]
    assert line.startswith("| gradient matching over blind | -0.")
    assert line.endswith("| - | - | - |")


def test_the_other_tables_have_a_line_for_each_row() -> None:
    assert len(pml_tables.gain_table(_recorded("gain"))) == 2 + 4
    assert len(pml_tables.leakage_table(_recorded("leakage"))) == 2 + 7
    header, _, *lines = pml_tables.tradeoff_table(_recorded("tradeoff"))
    assert header.endswith("R = 6 |")
    assert [line.split(" | ")[:2] for line in lines[:2]] == [
        ["| ye", "filter"],
        ["| ye", "Theorem 1"],
    ]
    assert len(lines) == 6
