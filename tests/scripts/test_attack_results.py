"""What results/attack/*.csv must show, and the figure; `make results-attack` makes them anew."""

from __future__ import annotations

import pytest

from scripts import attack_results
from scripts.attack_figures import LINES, SMALLEST, two_point_figure
from scripts.attack_results import RESULTS
from scripts.pml_results import as_text
from scripts.table_parts import Rows
from scripts.tables import read_results


@pytest.fixture(scope="module")
def rows() -> Rows:
    return read_results(RESULTS / "two_point.csv")


def test_no_sound_number_is_beaten(rows: Rows) -> None:
    assert len(rows) == 2 * 3 * 5
    for row in rows:
        assert float(row["attacked_delta"]) <= float(row["sound_delta"])
        assert float(row["attacked_epsilon"]) <= float(row["sound_epsilon"])
        assert float(row["attained_delta"]) <= float(row["sound_delta"]) * (1 + 1e-5)


def test_verdicts_are_those_of_the_numbers(rows: Rows) -> None:
    for row in rows:
        refuted = float(row["attacked_delta"]) > float(row["claimed_delta"])
        assert row["verdict"] == ("refuted" if refuted else "not refuted")


@pytest.mark.parametrize("setting", ["every state", "last state"])
def test_claims_at_small_strengths_are_refuted_and_at_large_ones_not(
    rows: Rows, setting: str
) -> None:
    own = [row for row in rows if row["setting"] == setting]
    refuted = {float(row["strength"]) for row in own if row["verdict"] == "refuted"}
    assert refuted == {0.1, 0.3, 0.5}
    assert sum(row["verdict"] == "refuted" for row in own) == 6


def test_in_the_mean_of_five_the_claim_is_refuted_at_the_least_strength(rows: Rows) -> None:
    own = [row for row in rows if row["setting"] == "last mean of 5"]
    assert {row["strength"] for row in own if row["verdict"] == "refuted"} == {"0.1"}
    attained = [float(row["attained_delta"]) for row in own if row["strength"] == "0.1"]
    assert attained == pytest.approx([0.1268] * 2, abs=5e-5)


def test_a_recorded_row_is_that_of_the_code(rows: Rows) -> None:
    made = attack_results._two_point_row(0.3, "every state", sinkhorn=False)
    texts = {key: str(as_text(value)) for key, value in made.items()}
    (recorded,) = (row for row in rows if all(row[k] == texts[k] for k in list(texts)[:3]))
    for key, text in texts.items():
        if key in {"setting", "sinkhorn", "verdict"}:
            assert recorded[key] == text
        else:
            assert float(recorded[key]) == pytest.approx(float(text), rel=1e-4)


def test_no_flow_s_mu_is_beaten_and_linear_ones_are_attained() -> None:
    for row in read_results(RESULTS / "flow.csv"):
        attacked, sound = float(row["attacked_mu"]), float(row["sound_mu"])
        assert attacked <= sound
        if row["flow"] == "linear" and sound > 0.5:
            assert attacked > 0.9 * sound


def test_the_figure_has_a_line_for_each_number(rows: Rows) -> None:
    figure = two_point_figure(rows)
    assert [trace.name for trace in figure.data] == [look[0] for look in LINES.values()]
    for trace in figure.data:
        assert list(trace.x) == [0.1, 0.3, 0.5, 1, 2]
        assert SMALLEST <= min(trace.y) <= max(trace.y) < 1
