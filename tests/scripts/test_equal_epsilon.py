"""Runs that are compared at equal epsilon: their scripts, and what the recorded rows show."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame import config
from fedgame.accountants.pld import PldAccountant
from fedgame.ledger.events import PrivacyEvent, PureDPChoice, SampledGaussian
from fedgame.tasks.base import DataSource
from fedgame.tasks.data_files import RawSplit
from fedgame.tasks.mnist_files import read_mnist
from scripts import heterogeneity, heterogeneity_steps, projection
from scripts.equal_epsilon_tables import heterogeneity_table, projection_table
from scripts.heterogeneity_figures import heterogeneity_figure
from scripts.projection_grid import CASES
from scripts.results import ROOT, read_rows
from scripts.resumable import SweepError, digest
from scripts.table_parts import listed
from scripts.tables import read_results

TINY = """
cell = "mfpg"
rounds = 3
num-clients = 5
task.name = "logistic"
jko.tau = 2.0
gaussian.learning-rate = 1.0
mean-field.schedule = "commit"
mean-field.selection = "public"
population.beta-min = 0.01
population.beta-max = 100.0
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the comparison run on a small preset and write to a folder of its own."""
    preset = tmp_path / "tiny.toml"
    preset.write_text(TINY)
    monkeypatch.setattr(heterogeneity, "PRESET", preset)
    monkeypatch.setattr(heterogeneity, "RESULTS", tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


def test_every_method_is_run_once_and_nobody_exceeds_the_strictest(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert heterogeneity.main(["--seeds", "7"]) == 0
    rows = read_rows(tiny, heterogeneity.key_of)
    assert set(rows) == {(7, method) for method in heterogeneity.METHODS}
    game, own = rows[7, "mfpg"], rows[7, "own-gaussian"]
    strictest = float(game["smallest"])
    assert strictest == min(listed(game["guarantees"])) < float(game["largest"])
    for method in ("dp-sgd", "mfep"):
        assert 0.95 * strictest < float(rows[7, method]["largest"]) <= strictest
        assert rows[7, method]["betas"] == ""
    assert own["guarantees"] == game["guarantees"]
    np.testing.assert_allclose(listed(own["strengths"]), listed(game["strengths"]))
    assert own["accuracy"] != game["accuracy"]
    written = tiny.read_bytes()
    capsys.readouterr()
    assert heterogeneity.main(["--seeds", "7"]) == 0
    assert capsys.readouterr().err.count("there already") == 4
    assert tiny.read_bytes() == written


def test_a_comparison_without_its_game_is_one_line(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert heterogeneity.main(["--seeds", "7", "--method", "dp-sgd"]) == 1
    assert capsys.readouterr().err == "dp-sgd seed 7: the row (7, 'mfpg') must be there first\n"
    assert not tiny.exists()


def test_without_data_the_folder_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FEDGAME_DATA_DIR", raising=False)
    assert heterogeneity.main([]) == 1
    assert heterogeneity_steps.main() == 1
    assert capsys.readouterr().err.count("FEDGAME_DATA_DIR") == 2


@pytest.mark.parametrize("of", [heterogeneity.row_of, projection.row_of])
def test_a_run_that_ended_early_has_no_row(of: Any) -> None:
    summary = {"status": "finished", "rounds": 1, "planned_rounds": 2, "reason": "the budget"}
    names = ("mfpg",) if of is heterogeneity.row_of else ("digits, mfpg", "off")
    with pytest.raises(SweepError, match="ended early: the budget"):
        of(*names, {"seed": 1}, summary, 1.0)


def test_held_out_images_are_the_last_of_the_training_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 28, 28), dtype=np.uint8)
    train = RawSplit(images, rng.integers(0, 10, 50, dtype=np.uint8))
    monkeypatch.setattr(heterogeneity_steps, "HELD_OUT", 20)
    monkeypatch.setattr(heterogeneity_steps, "read_mnist", lambda _: (train, None))
    heterogeneity_steps.write_split("anywhere", tmp_path)
    parts = read_mnist(DataSource(data_dir=str(tmp_path), verify_checksums=False))
    for part, rows in zip(parts, (slice(30), slice(30, None)), strict=True):
        np.testing.assert_array_equal(part.images, train.images[rows])
        np.testing.assert_array_equal(part.labels, train.labels[rows])


# --- what was recorded ----------------------------------------------------------------------------


def _page(name: str) -> str:
    return re.sub(r"\s+", " ", (ROOT / "docs" / name).read_text(encoding="utf-8"))


HETEROGENEOUS = read_rows(heterogeneity.RESULTS, heterogeneity.key_of)
PROJECTED = read_rows(projection.RESULTS, projection.key_of)


def test_recorded_runs_are_of_the_presets_as_they_are() -> None:
    preset = config.read_toml(heterogeneity.PRESET)
    for seed, method in product(heterogeneity.SEEDS, ("mfpg", "dp-sgd")):
        assert (seed, method) in HETEROGENEOUS
    for (seed, method), row in HETEROGENEOUS.items():
        flat = heterogeneity.settings(method, seed, preset, HETEROGENEOUS)
        assert row["settings"] == digest(flat), (seed, method)
    for (case, projected, seed), row in PROJECTED.items():
        assert row["settings"] == digest(projection.settings(case, projected, seed))
    for run in read_results(heterogeneity_steps.RESULTS):
        assert run["settings"] == digest(heterogeneity_steps.settings(float(run["step"])))


def test_each_client_is_guaranteed_what_it_chose() -> None:
    preset = config.read_toml(heterogeneity.PRESET)
    row = HETEROGENEOUS[42, "mfpg"]
    charge = float(preset["mean-field.selection-epsilon"])
    pairs = {*zip(listed(row["noise_multipliers"]), listed(row["guarantees"]), strict=True)}
    assert len(pairs) >= 3
    for noise_multiplier, guarantee in pairs:
        events: list[PrivacyEvent] = [
            PureDPChoice(charge, "example", "exponential"),
            SampledGaussian(noise_multiplier, 0.1, 100, "example", "jko"),
        ]
        assert PldAccountant().epsilon(events, 1e-5) == pytest.approx(guarantee, rel=1e-6)


def test_nobody_is_guaranteed_less_than_in_the_game() -> None:
    for (seed, method), row in HETEROGENEOUS.items():
        if method in ("dp-sgd", "mfep"):
            assert float(row["largest"]) <= float(HETEROGENEOUS[seed, "mfpg"]["smallest"])
        if method == "own-gaussian":
            assert row["guarantees"] == HETEROGENEOUS[seed, "mfpg"]["guarantees"]


def test_the_step_is_the_best_for_dp_sgd() -> None:
    preset = config.read_toml(heterogeneity.PRESET)
    accuracy = {
        float(row["step"]): float(row["accuracy"])
        for row in read_results(heterogeneity_steps.RESULTS)
    }
    assert set(accuracy) == set(heterogeneity_steps.STEPS)
    best = max(accuracy, key=lambda step: accuracy[step])
    assert preset["jko.tau"] == preset["gaussian.learning-rate"] == best


def test_the_projection_changes_no_epsilon() -> None:
    found: dict[tuple[str, int], set[str]] = {}
    for (case, _, seed), row in PROJECTED.items():
        found.setdefault((case, seed), set()).add(row["epsilon"])
    assert found
    for case, epsilons in found.items():
        # of a game, clients' choices may differ, and the guarantee does not follow them
        assert len(epsilons) == 1, case


def test_every_recorded_comparison_is_whole() -> None:
    for case, own in CASES.items():
        seeds = {seed for name, _, seed in PROJECTED if name == case}
        assert seeds <= set(own.seeds)
        for seed, projected in product(seeds, own.projections):
            assert (case, projected, seed) in PROJECTED


def test_tables_and_figure_hold_every_run() -> None:
    rows = read_results(heterogeneity.RESULTS)
    assert sum(int(line.split("|")[-2]) for line in heterogeneity_table(rows)[2:]) == len(rows)
    rows = read_results(projection.RESULTS)
    assert sum(int(line.split("|")[-2]) for line in projection_table(rows)[2:]) == len(rows)
    figure = heterogeneity_figure(read_results(heterogeneity.RESULTS))
    assert [len(trace.x) for trace in figure.data] == [5, 50, 5, 50]


def test_the_page_says_how_far_the_game_is_ahead() -> None:
    assert "With every seed the game is ahead, by less than one point." in _page("heterogeneity.md")
    for seed in heterogeneity.SEEDS:
        game, shared = (float(HETEROGENEOUS[seed, m]["accuracy"]) for m in ("mfpg", "dp-sgd"))
        assert 0 < game - shared < 0.01


def test_the_page_says_that_the_projection_brings_nothing() -> None:
    assert "The projection brings no gain here that would stand out" in _page("projection.md")
    mean: dict[str, dict[str, float]] = {}
    for case in ("digits, mfpg", "digits, mfep"):
        by_kind = {
            kind: [float(PROJECTED[case, kind, seed]["accuracy"]) for seed in CASES[case].seeds]
            for kind in CASES[case].projections
        }
        mean[case] = {kind: float(np.mean(found)) for kind, found in by_kind.items()}
        spread = float(np.ptp(by_kind["off"]))
        assert all(found - mean[case]["off"] < spread for found in mean[case].values())
        weaker, stronger = (mean[case][f"every tensor, reg {reg}"] for reg in ("0.01", "0.1"))
        assert stronger < weaker < mean[case]["off"] + 0.005
        loss = {
            kind: np.mean([float(PROJECTED[case, kind, s]["loss"]) for s in CASES[case].seeds])
            for kind in ("off", "every tensor, reg 0.01")
        }
        assert loss["every tensor, reg 0.01"] > loss["off"]
    off, every = (
        float(PROJECTED["mnist, mfep", kind, 42]["accuracy"])
        for kind in ("off", "every tensor, reg 0.1")
    )
    assert every < off - 0.05
    rows = (PROJECTED["mnist, mfep", kind, 42] for kind in ("off", "every tensor, reg 0.01"))
    without, projected = (float(row["loss"]) for row in rows)
    assert projected < without
