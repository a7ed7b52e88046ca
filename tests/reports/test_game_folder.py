"""The folder of a game by messages: what is in it, and what must not be."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame.errors import RunFailed
from fedgame.games.aggregative.transcript import read_recording
from fedgame.reports import game_folder
from fedgame.reports.game_folder import append_iteration, write_game_run
from fedgame.reports.game_run import GameRun
from tests.reports.game_runs import Built, change, without_messages

FILES = {
    "config.toml",
    "leakage.csv",
    "metrics.csv",
    "players.csv",
    "report.html",
    "summary.json",
    "transcript.npz",
    "versions.json",
}
VERSIONS = {"fedgame": "0.1.0"}


def write(folder: Path, run: GameRun) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return write_game_run(folder, run.result, run.audit, run.config, VERSIONS)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def column(path: Path, name: str) -> list[float]:
    return [float(row[name]) for row in read_csv(path)]


def numbers_in(folder: Path) -> set[float]:
    """Every number that stands in a file of the folder, as text or in an array."""
    found: set[float] = set()
    for path in folder.iterdir():
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                found |= {float(x) for name in arrays for x in np.ravel(arrays[name])}
            continue
        text = path.read_text()
        assert "bdata" not in text  # numbers that plotly packs would be missed
        found |= {float(x) for x in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)}
    return found


def test_all_files_are_there_and_nothing_else(tmp_path: Path, built: Built) -> None:
    summary = write(tmp_path, built.run)
    assert {path.name for path in tmp_path.iterdir()} == FILES

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    text = (tmp_path / "summary.json").read_text()
    assert json.loads(text, parse_constant=refuse) == summary
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_no_strategy_and_no_estimate_is_in_any_file(tmp_path: Path, built: Built) -> None:
    write(tmp_path, built.run)
    found = numbers_in(tmp_path)
    # the search sees what is public, so it would see the rest
    assert set(built.run.audit.leakage.tolist()) <= found
    assert set(np.ravel(built.secret.messages).tolist()) <= found
    # x_0 is public
    for secret in (built.secret.strategies[1:], built.secret.estimates[1:]):
        assert secret.size > 0
        assert not found & set(np.ravel(secret).tolist())


def test_no_file_depends_on_the_types(tmp_path: Path, built: Built) -> None:
    assert built.run.result.types is not None
    other = change(
        built.run,
        types=1 - built.run.result.types,
        outcome={"true_type_probability": np.full(4, 0.123456)},
    )
    write(tmp_path / "one", built.run)
    write(tmp_path / "two", other)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_transcript_reads_back(tmp_path: Path, built: Built) -> None:
    write(tmp_path, built.run)
    recording = read_recording(tmp_path / "transcript.npz")
    np.testing.assert_array_equal(recording.transcript.messages, built.secret.messages)
    np.testing.assert_array_equal(recording.initial, built.run.result.dynamics.initial)
    assert len(recording.schedules) == 6


def test_appended_iterations_equal_written_ones(tmp_path: Path, built: Built) -> None:
    for count, record in enumerate(built.run.result.iterations, start=1):
        append_iteration(tmp_path, record)
        assert column(tmp_path / "metrics.csv", "round") == list(range(count))
    appended = (tmp_path / "metrics.csv").read_bytes()
    write(tmp_path, built.run)
    assert (tmp_path / "metrics.csv").read_bytes() == appended
    assert column(tmp_path / "metrics.csv", "leakage") == built.run.audit.leakage.tolist()


def test_an_iteration_that_cannot_be_appended_ends_the_run(tmp_path: Path, built: Built) -> None:
    (tmp_path / "metrics.csv").mkdir()
    with pytest.raises(RunFailed, match=r"cannot write .*metrics\.csv"):
        append_iteration(tmp_path, built.run.result.iterations[0])


def test_players_read_back(tmp_path: Path, built: Built) -> None:
    write(tmp_path, built.run)
    audit, path = built.run.audit, tmp_path / "players.csv"
    assert column(path, "id") == [0, 1, 2, 3]
    assert column(path, "sent") == [4, 4, 4, 4]
    assert column(path, "released") == [4, 5, 4, 4]
    assert column(path, "epsilon") == [1.25, 2.25, 3.25, 4.25]
    assert column(path, "individual_leakage") == audit.individual_leakage[-1].tolist()
    assert column(path, "individual_ceiling") == [math.log(2)] * 4
    assert column(path, "bayes_log_gain") == audit.individual_bayes_log_gain[-1].tolist()
    assert column(path, "guess") == audit.guesses.tolist()


def test_leakage_reads_back(tmp_path: Path, built: Built) -> None:
    write(tmp_path, built.run)
    audit, path = built.run.audit, tmp_path / "leakage.csv"
    assert audit.outcome is not None
    assert audit.outcome.error is not None
    assert column(path, "round") == [0, 1, 2, 3]
    assert column(path, "exact") == audit.leakage.tolist()
    assert column(path, "largest_individual") == audit.individual_leakage.max(axis=1).tolist()
    named = {bound.name: bound.value for bound in audit.bounds}
    assert column(path, "theorem_1") == named["Theorem 1"].tolist()
    assert column(path, "theorem_1_every_transcript") == (1.5 * named["Theorem 1"]).tolist()
    assert column(path, "dp_of_one_player") == named["DP of one player"].max(axis=1).tolist()
    assert column(path, "bayes_log_gain") == audit.bayes_log_gain.tolist()
    expected = np.log(np.linspace(1.0, 1.75, 4) / 1.5)
    np.testing.assert_allclose(column(path, "gradient_matching_log_gain"), expected)
    assert column(path, "error") == audit.outcome.error.tolist()
    assert column(path, "exploitability") == audit.outcome.exploitability.tolist()


def test_what_is_not_known_is_empty(tmp_path: Path, built: Built) -> None:
    unknown = change(built.run, audit={"outcome": None}, types=None)
    write(tmp_path, unknown)
    needs_types = ("gradient_matching_log_gain", "error", "exploitability")
    for row in read_csv(tmp_path / "leakage.csv"):
        assert [row[name] for name in needs_types] == ["", "", ""]


def test_what_is_infinite_is_not_what_is_unknown(tmp_path: Path, built: Built) -> None:
    gains = np.array([math.nan, 1, 2, math.inf])
    summary = write(tmp_path, change(built.run, outcome={"exploitability": gains}))
    written = [row["exploitability"] for row in read_csv(tmp_path / "leakage.csv")]
    assert written == ["", "1.0", "2.0", "inf"]
    found = summary["exploitability"]
    assert found["by_iteration"] == [None, 1, 2, None]
    assert (found["final"], found["infinite"]) == (None, True)


def test_a_run_that_failed_before_the_first_message_is_written(
    tmp_path: Path, built: Built
) -> None:
    summary = write(tmp_path, without_messages(built.run))
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert (summary["status"], summary["reason"]) == ("failed", "no nodes came")
    assert (summary["rounds"], summary["sent"], summary["players"]) == (None, 0, [])
    assert summary["exact_leakage"] == {"whole": 0, "players": [0, 0, 0, 0], "by_iteration": []}
    assert {row["name"]: row["value"] for row in summary["bounds"]}["Theorem 1"] == 0
    assert len(read_csv(tmp_path / "leakage.csv")) == 0


def test_failure_before_the_summary_leaves_none(
    tmp_path: Path, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("broken")

    monkeypatch.setattr(game_folder, "render_game", broken)
    with pytest.raises(RuntimeError):
        write(tmp_path, built.run)
    assert not (tmp_path / "summary.json").exists()
    # the transcript is what cannot be made again
    assert (tmp_path / "transcript.npz").exists()


def test_numbers_of_numpy_are_plain(tmp_path: Path, built: Built) -> None:
    player = replace(built.run.result.players[0], epsilon=np.float64(0.5))
    summary = write(tmp_path, change(built.run, players=(player,)))
    assert summary["worst_epsilon"] == 0.5
    assert read_csv(tmp_path / "players.csv")[0]["epsilon"] == "0.5"
