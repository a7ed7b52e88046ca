"""Figures and tables of the JSAM sweep, from made-up rows."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from scripts import docs_figures, jsam_figures
from scripts.jsam_figures import LOOKS, TOP_FIRST, accuracy_figure, cost_figure, participants_figure
from scripts.jsam_grid import BUDGETS, MECHANISMS, SEED, Job, grid
from scripts.picture import PictureError, draw, find_browser
from scripts.table_parts import Rows
from scripts.tables import jsam_accuracy_table, jsam_seeds_table


def _accuracy(job: Job) -> float:
    place = list(MECHANISMS).index(job.mechanism)
    return 0.3 + 0.1 * BUDGETS.index(job.budget) - 0.01 * place + 0.02 * (job.seed - SEED)


@pytest.fixture
def rows() -> Rows:
    """Return a complete accuracy.csv."""
    return [
        {
            "mechanism": job.mechanism,
            "similarity": str(job.similarity),
            "budget": str(job.budget),
            "seed": str(job.seed),
            "accuracy": str(_accuracy(job)),
            "total_payment": str(1.01 * job.budget),
            "participants": str(40 + job.seed - SEED),
        }
        for job in grid()
    ]


@pytest.fixture
def costs() -> Rows:
    """Return a cost.csv of two mechanisms."""
    return [
        {
            "mechanism": mechanism,
            "eta": str(eta),
            "expected_cost": str(eta / divisor),
            "participants": str(participants),
        }
        for mechanism, divisor, participants in (("jsam", 2, 30), ("usbm", 1, 100))
        for eta in (0.1, 10.0, 1000.0)
    ]


def test_each_panel_has_a_line_for_each_mechanism(rows: Rows) -> None:
    figure = accuracy_figure(rows)
    assert [trace.name for trace in figure.data[:6]] == [LOOKS[name]["name"] for name in TOP_FIRST]
    assert len(figure.data) == 4 * 6
    assert sum(trace.showlegend for trace in figure.data) == 6
    for trace in figure.data:
        assert list(trace.x) == pytest.approx([1.01 * budget for budget in BUDGETS])
        assert list(trace.y) == sorted(trace.y)
        assert max(trace.y) <= figure.layout.yaxis.range[1]


def test_a_bar_spans_the_other_seeds(rows: Rows) -> None:
    traces = {(trace.name, trace.xaxis): trace for trace in accuracy_figure(rows).data}
    for name in ("JSAM", "USBM"):
        bars = traces[name, "x"].error_y
        assert list(bars.array) == pytest.approx([0, 0.04, 0.04, 0, 0])
        assert list(bars.arrayminus) == pytest.approx([0] * 5)
        assert bars.visible
        assert not traces[name, "x2"].error_y.visible
    assert not traces["BBM", "x"].error_y.visible


def test_looks_are_told_apart_without_colour() -> None:
    assert LOOKS.keys() == MECHANISMS.keys()
    assert len({look["symbol"] for look in LOOKS.values()}) == len(LOOKS)
    assert len({look["color"] for look in LOOKS.values()}) == len(LOOKS)


def test_costs_on_linear_axes_end_where_the_axis_does(costs: Rows) -> None:
    figure = cost_figure(costs)
    assert [(trace.name, trace.xaxis) for trace in figure.data] == [
        ("USBM", "x"),
        ("USBM", "x2"),
        ("JSAM", "x"),
        ("JSAM", "x2"),
    ]
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    # the largest cost up to eta = 30 is USBM's at 10
    assert list(figure.layout.yaxis2.range) == pytest.approx([0, 11])


def test_participants_are_drawn_against_cost(costs: Rows) -> None:
    usbm, jsam = participants_figure(costs).data
    assert list(jsam.x) == [0.05, 5.0, 500.0]
    assert list(jsam.y) == [30] * 3
    assert list(usbm.y) == [100] * 3


def test_missing_results_are_named_and_do_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing() -> str:
        raise PictureError("no Chromium")

    monkeypatch.setattr(docs_figures, "find_browser", nothing)
    (tmp_path / "jsam").mkdir()
    (tmp_path / "jsam" / "cost.csv").write_text("mechanism\njsam\n")
    assert jsam_figures.main(["--results", str(tmp_path / "jsam"), "--output", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "jsam-accuracy.png: " in error
    assert "make results-jsam" in error
    assert "jsam-cost.png: no Chromium" in error


def test_a_page_is_drawn_in_its_size(tmp_path: Path) -> None:
    try:
        browser = find_browser()
    except PictureError as error:
        pytest.skip(str(error))
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text("<!doctype html><body>text</body>")
    draw(browser, page, picture, size=(300, 120), scale=2)
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (600, 240)


def test_the_table_of_accuracies_is_of_the_first_seed(rows: Rows) -> None:
    header, _, *lines = jsam_accuracy_table(rows)
    assert header == "| s | mechanism | budget 0.3 | budget 1 | budget 3 | budget 10 | budget 30 |"
    assert len(lines) == 4 * 6
    assert lines[2] == "| 100 | usbm | 28.0 % | 38.0 % | 48.0 % | 58.0 % | 68.0 % |"
    assert lines[-1] == "| 0 | bbm | 25.0 % | 35.0 % | 45.0 % | 55.0 % | 65.0 % |"


def test_a_run_that_is_not_there_is_a_dash(rows: Rows) -> None:
    gone = {"mechanism": "jsam", "similarity": "100", "budget": "10", "seed": "42"}
    some = [row for row in rows if not gone.items() <= row.items()]
    assert jsam_accuracy_table(some)[2] == "| 100 | jsam | 30.0 % | 40.0 % | 50.0 % | - | 70.0 % |"


def test_the_table_of_seeds_has_mean_and_range(rows: Rows) -> None:
    _, _, *lines = jsam_seeds_table(rows)
    assert len(lines) == 2 * 2 * 2
    assert lines[0] == "| 100 | 1 | jsam | 42.0 % (40.0 % to 44.0 %) | 1.01 | 40 to 42 | 3 |"
    assert lines[-1] == "| 30 | 3 | usbm | 50.0 % (48.0 % to 52.0 %) | 3.03 | 40 to 42 | 3 |"
