"""The JSAM sweep: its grid, its rows, what it leaves when it is stopped."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from fedgame import config
from scripts import jsam_runs
from scripts.jsam_cost import ETAS, cost_rows
from scripts.jsam_grid import BUDGETS, PRESET, ROOT, SEED, SEEDS, Job, grid, job_of
from scripts.jsam_rows import Row, fingerprint, key_of, missing, row_of
from scripts.results import write_row
from scripts.resumable import SweepError

TINY = """
strategy = "jsam"
num-clients = 60
rounds = 1
task.name = "digits"
partition.name = "similarity"
"""

JOB = Job("jsam", 30, 3.0, 43)


def _summary(**changed: Any) -> dict[str, Any]:
    client = {"id": 0, "bought": 0.5, "spent": 0.49}
    bought = {
        "eta": 2.0,
        "expected_cost": 2.9,
        "total_payment": 3.1,
        "participants": 2,
        "draws": 20,
        "implied_q": {"min": 8.0, "median": 9.0, "max": 10.0},
    }
    summary = {
        "status": "finished",
        "reason": "",
        "rounds": 2,
        "planned_rounds": 2,
        "accuracy": 0.75,
        "loss": 1.5,
        "procurement": bought,
        "clients": [client, {"id": 1, "bought": 0.8, "spent": 0.1}],
    }
    return summary | changed


def _row(job: Job = JOB, settings: str = "now") -> Row:
    return row_of(job, _summary(), settings, 12.34)


def test_the_grid_has_every_run_once_and_compares_three_seeds() -> None:
    runs = grid()
    assert len(set(runs)) == len(runs) == 6 * 4 * 5 + 2 * 2 * 2 * 2
    others = [job for job in runs if job.seed != SEED]
    assert {job.seed for job in others} == set(SEEDS) - {SEED}
    assert {(job.mechanism, job.similarity, job.budget) for job in others} == {
        (mechanism, similarity, budget)
        for mechanism in ("jsam", "usbm")
        for similarity in (100, 30)
        for budget in (1, 3)
    }


def test_runs_on_the_same_data_follow_each_other() -> None:
    data = [(job.seed, job.similarity) for job in grid()]
    assert len(list(groupby(data))) == len(set(data))


def test_every_run_is_a_valid_experiment_of_the_preset() -> None:
    preset = config.read_toml(PRESET)
    for job in grid():
        experiment = config.load({**preset, **job.overrides})
        assert experiment.procurement.budget == job.budget
        assert experiment.buyer.name == job.mechanism.removesuffix("-50").removesuffix("-75")
        assert getattr(experiment.partition, "percent", None) == job.similarity


def test_a_row_has_the_largest_budget_and_the_largest_spending() -> None:
    row = _row()
    assert (row.bought_max, row.spent_max) == (0.8, 0.49)
    assert (row.total_payment, row.implied_q_median, row.seconds) == (3.1, 9.0, 12.3)
    texts = {name: str(value) for name, value in asdict(row).items()}
    assert job_of(texts) == JOB


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"status": "failed", "reason": "no update"}, "ended early: no update"),
        ({"rounds": 1}, "ended early"),
        ({"clients": [{"id": 7, "bought": 0.5, "spent": 0.500001}]}, "client 7 spent 0.500001"),
        ({"clients": [{"id": 7, "bought": 0.5, "spent": None}]}, "client 7 spent None"),
    ],
)
def test_a_run_that_did_not_go_as_bought_has_no_row(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(SweepError, match=says):
        row_of(JOB, _summary(**changed), "now", 1.0)


def test_what_a_preset_fixes_has_a_fingerprint_and_what_runs_vary_has_none() -> None:
    preset = config.read_toml(PRESET)
    same = {**preset, **JOB.overrides, "task.data-dir": "/elsewhere"}
    assert fingerprint(same) == fingerprint(preset)
    assert fingerprint({**preset, "rounds": 99}) != fingerprint(preset)


def test_a_run_is_missing_until_it_has_a_row_of_these_settings(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.csv"
    other = Job("usbm", 30, 3.0, 43)
    assert missing([JOB, other], path, "now") == [JOB, other]
    write_row(path, _row(), key_of)
    write_row(path, _row(other, "before"), key_of)
    assert missing([other, JOB], path, "now") == [other]
    write_row(path, _row(other), key_of)
    assert missing([JOB, other], path, "now") == []
    with path.open() as stream:
        rows = list(csv.DictReader(stream))
    assert [job_of(row) for row in rows] == [JOB, other]
    assert [file.name for file in tmp_path.iterdir()] == ["accuracy.csv"]


def test_a_row_that_cannot_be_written_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "accuracy.csv"
    write_row(path, _row(), key_of)
    before = path.read_text()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(csv.DictWriter, "writerows", full)
    with pytest.raises(OSError, match="no space"):
        write_row(path, _row(Job("usbm", 30, 3.0, 43)), key_of)
    assert path.read_text() == before


def test_without_data_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FEDGAME_DATA_DIR", raising=False)
    assert jsam_runs.main([]) == 1
    error = capsys.readouterr().err
    assert "FEDGAME_DATA_DIR" in error
    assert error.count("\n") == 1


def test_a_missing_preset_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--cost"]):
        assert jsam_runs.main(["--preset", "absent.toml", *more]) == 1
        assert "absent.toml" in capsys.readouterr().err


def test_what_is_not_in_the_grid_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        jsam_runs.main(["--budget", "2"])
    assert stop.value.code == 2
    assert "choose from" in capsys.readouterr().err


def test_costs_are_those_of_closed_forms() -> None:
    experiment = config.load(config.read_toml(PRESET))
    rows = cost_rows(experiment, SEED)
    assert {row["mechanism"] for row in rows} == {"jsam", "jsam-ci", "usbm", "fsbm-50", "fsbm-75"}
    usbm = [row for row in rows if row["mechanism"] == "usbm"]
    assert [row["eta"] for row in usbm] == list(ETAS)
    terms = experiment.procurement.terms
    # at uniform selection B = sqrt(eta) Q^(1/4) S^(3/4), S the sum of (v/N)^(2/3), below the cap
    prior = experiment.procurement.prior()
    costs = 2 * prior.draw(_sensitivities_generator(), (100,))
    power_sum = ((costs / 100) ** (2 / 3)).sum()
    below = [row for row in usbm if float(str(row["bought_max"])) < terms.epsilon_max]
    assert len(below) > 30
    for row in below:
        expected = np.sqrt(float(str(row["eta"]))) * terms.q**0.25 * power_sum**0.75
        assert row["expected_cost"] == pytest.approx(expected, rel=1e-9)
        assert row["probability_max"] == pytest.approx(0.01)
        # budgets go as v^(-1/3)
        ratio = float(str(row["bought_max"])) / float(str(row["bought_min"]))
        assert ratio == pytest.approx((costs.max() / costs.min()) ** (1 / 3))


def _sensitivities_generator() -> np.random.Generator:
    from fedgame.randomness import public_generator

    return public_generator(SEED, "sensitivities")


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Return the command of a sweep over tiny runs, to tmp_path/accuracy.csv."""
    preset = tmp_path / "tiny.toml"
    preset.write_text(TINY)
    paths = ["--preset", str(preset), "--output", str(tmp_path / "accuracy.csv")]
    few = ["--similarity", "30", "--seeds", "42", "--jobs", "1"]
    return [sys.executable, "-m", "scripts.jsam_runs", *paths, *few]


@pytest.mark.slow
def test_a_failed_run_is_told_and_the_others_have_rows(command: list[str], tmp_path: Path) -> None:
    few = ["--budget", "1", "--only-mechanism", "usbm", "fsbm-75"]
    done = subprocess.run([*command, *few], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "fsbm-75, s = 30, budget 1, seed 42: failed: fsbm.clients = 75: must be" in done.stderr
    assert "1 of 2 runs failed" in done.stderr
    with (tmp_path / "accuracy.csv").open() as stream:
        (row,) = csv.DictReader(stream)
    assert job_of(row) == Job("usbm", 30, 1, 42)
    assert 0 < float(row["spent_max"]) <= float(row["bought_max"])
    assert float(row["total_payment"]) == pytest.approx(1.0, rel=0.5)
    assert int(row["draws"]) == 10
    again = subprocess.run(
        [*command, "--budget", "1", "--only-mechanism", "usbm"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0
    assert again.stderr.startswith("1 of 1 runs are in")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_sweep_keeps_its_rows_and_leaves_nothing_running(
    command: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    sweep = subprocess.Popen(
        [*command, "--only-mechanism", "usbm"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # what a killed sweep leaves is removed with tmp_path
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with sweep:
        assert sweep.stderr is not None
        said = [sweep.stderr.readline() for _ in range(2)]
        workers = psutil.Process(sweep.pid).children(recursive=True)
        sweep.send_signal(number)
        said.append(sweep.stderr.read())
    assert workers
    assert sweep.returncode == (128 + number if number == signal.SIGTERM else -number), said
    with (tmp_path / "accuracy.csv").open() as stream:
        assert [job_of(row) for row in csv.DictReader(stream)] == [Job("usbm", 30, BUDGETS[0], 42)]
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]
    if number == signal.SIGTERM:
        assert "interrupted" in said[-1]
        assert not list(tmp_path.glob("fedgame-jsam-*"))
