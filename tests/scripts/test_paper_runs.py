"""The MFPG paper's benchmark: two of its runs made again, and how a sweep goes on."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from fedgame import config
from scripts import paper_frontier, paper_runs
from scripts.paper_frontier import CURVES, LEVELS, RUNS
from scripts.paper_frontier import Job as Point
from scripts.paper_grid import BENCHMARK, CELLS, MODES, ROUNDS, SEEDS, TASKS, Job, grid, job_of
from scripts.paper_progress import BenchmarkError, Clock, run_all
from scripts.paper_rows import run
from scripts.paper_runs import key_of, main, missing, settings_of
from scripts.results import DATA_DIR, read_rows
from scripts.resumable import digest

NOT_NUMBERS = {"mode", "task", "cell", "settings", "seconds"}


def _same(made: Mapping[str, Any], recorded: Mapping[str, str], accuracy: float) -> None:
    for name, value in made.items():
        if name in NOT_NUMBERS:
            continue
        if value is None:
            assert recorded[name] == "", name
        else:
            assert float(recorded[name]) == pytest.approx(value, rel=accuracy, abs=1e-11), name


@pytest.mark.parametrize(
    "job", [Job("paper", "quadratic", "mfpg", 42), Job("sound", "quadratic", "dp-sgd", 42)]
)
def test_recorded_rows_are_those_of_the_code(job: Job) -> None:
    flat = settings_of(job)
    assert flat is not None
    row, rounds = run(job, flat, digest(config.read_toml(job.preset)))
    recorded = read_rows(BENCHMARK, key_of)[key_of(asdict(job))]
    assert recorded["settings"] == row.settings
    _same(asdict(row), recorded, 1e-9)
    with ROUNDS.open(encoding="utf-8") as stream:
        own = [each for each in csv.DictReader(stream) if job_of(each) == job]
    assert len(own) == len(rounds) == row.rounds
    for made, wanted in zip(rounds, own, strict=True):
        _same(asdict(made), wanted, 1e-5)


def test_the_grid_has_every_cell_task_and_mode() -> None:
    jobs = grid()
    assert len(jobs) == len(set(jobs)) == len(CELLS) * len(TASKS) * (1 + 5)
    assert all(job.preset.is_file() for job in jobs)
    assert {job.seed for job in jobs if job.mode == "paper"} == {42}


def test_all_recorded_runs_are_of_the_presets_as_they_are() -> None:
    assert missing(grid(), BENCHMARK) == []
    assert paper_frontier.missing(paper_frontier.grid(), paper_frontier.FRONTIER) == []


def test_a_run_that_is_there_is_not_run_again(tmp_path: Path) -> None:
    jobs = [Job("paper", "quadratic", cell, 42) for cell in ("dp-sgd", "mfep")]
    path = tmp_path / "full_benchmark.csv"
    settings = digest(config.read_toml(jobs[0].preset))
    lines = ["mode,task,cell,seed,settings,seconds"]
    path.write_text("\n".join([*lines, f"paper,quadratic,dp-sgd,42,{settings},1.0"]))
    assert missing(jobs, path) == jobs[1:]
    path.write_text("\n".join([*lines, "paper,quadratic,dp-sgd,42,another,1.0"]))
    assert missing(jobs, path) == jobs


def test_without_mnist_its_rows_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(DATA_DIR, raising=False)
    assert main(["--task", "mnist", "--output", str(tmp_path)]) == 0
    assert "24 runs skipped, their rows stay: set FEDGAME_DATA_DIR" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_failed_run_is_said_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise BenchmarkError("no luck")

    monkeypatch.setattr(paper_runs, "run", fail)
    asked = ["--task", "quadratic", "--mode", "paper", "--output", str(tmp_path)]
    assert main(asked) == 1
    assert capsys.readouterr().err.count("failed: no luck") == 4


def test_time_left_is_that_of_runs_of_the_same_kind() -> None:
    quick, slow = Job("paper", "quadratic", "mfep", 42), Job("sound", "mnist", "mfep", 42)
    assert Clock([]).left([quick]) == "time left unknown"
    clock = Clock([(quick.place, 2.0), (slow.place, 60.0), (slow.place, 80.0)])
    assert clock.left([quick, slow, slow]) == "about 0:02:22 left"
    unknown = Job("sound", "logistic", "mfpg", 42)
    assert clock.left([unknown]) == "about 0:00:47 left"


def test_jobs_are_run_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [Job("paper", "quadratic", cell, 42) for cell in CELLS]
    done: list[str] = []

    def note(job: Job) -> str:
        done.append(job.cell)
        return "done"

    assert run_all(jobs, Clock([]), note) == 0
    assert done == list(CELLS)
    assert "4/4, about 0:00:00 left: paper quadratic mfpg seed 42: done" in capsys.readouterr().err


def test_every_point_of_the_frontier_is_a_valid_experiment() -> None:
    for mode in MODES:
        for cell in CURVES[mode]:
            for level in LEVELS[mode]:
                config.load(Point(mode, cell, level, RUNS[mode][0]).settings())


def test_the_frontier_starts_from_the_presets() -> None:
    for cell in ("mfep", "mapg-dp", "mfpg"):
        point, preset = Point("sound", cell, 1.0, 42), Job("sound", "logistic", cell, 42)
        changed = config.load(point.settings())
        original = config.load(config.read_toml(preset.preset))
        assert changed.game == original.game
        assert changed.mechanism == original.mechanism


def test_seeds_of_sound_mode_are_five() -> None:
    assert SEEDS == {"paper": (42,), "sound": (42, 43, 44, 45, 46)}
