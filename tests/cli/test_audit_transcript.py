"""`fedgame audit transcript RUN`: the numbers of a run again, and files that do not fit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame.audits.transcript import audit_transcript
from fedgame.cli.app import main
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.transcript import FILE, Recording, Transcript, read_recording
from fedgame.reports.game_folder import write_game_run
from fedgame.reports.game_summary import audit_mapping
from tests.reports.game_runs import Built, build_game
from tests.support import Run

Call = Callable[..., tuple[int, str, str]]

RUNS: dict[str, dict[str, Any]] = {
    "correlated": {"sent": 4, "prior__name": "correlated-prior"},
    "stretched": {"aggregative__rule": "wang", "aggregative__graph": "ring"},
    "anti-monotone": {"aggregative__name": "vaccination", "vaccination__dimension": 2},
    "free": {"cournot__feasible": "none", "cournot__dimension": 2},
}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedgame", "audit", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


def write(folder: Path, built: Built, **result: Any) -> dict[str, Any]:
    """Write a run's folder with its true audit."""
    run, done = built.run, replace(built.run.result, **result)
    audit = audit_transcript(done.transcript, done.dynamics, done.prior, done.types)
    return write_game_run(folder, done, audit, run.config, {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, build_game())
    return tmp_path


def change(folder: Path, **fields: Any) -> None:
    """Write the transcript again with other arrays."""
    had = read_recording(folder / FILE)
    transcript, schedules = had.transcript, had.schedules
    arrays = {
        "messages": transcript.messages,
        "scales": transcript.scales,
        "sent": transcript.sent,
        "initial": had.initial,
        "noise": schedules.noise,
        "step": schedules.step,
        "gamma": schedules.gamma,
        **fields,
    }
    recording = Recording(
        Transcript(arrays["messages"], arrays["scales"], arrays["sent"]),
        arrays["initial"],
        Schedules(arrays["noise"], arrays["step"], arrays["gamma"]),
    )
    (folder / FILE).write_bytes(recording.to_bytes())


@pytest.mark.parametrize("name", RUNS)
def test_it_repeats_the_summary_to_the_last_bit(tmp_path: Path, call: Call, name: str) -> None:
    built = build_game(**RUNS[name])
    summary = write(tmp_path, built)
    code, out, err = call("transcript", tmp_path, "--json")
    assert (code, err) == (0, "")
    content = json.loads(out)
    assert content.pop("run_dir") == str(tmp_path)
    assert content.pop("agrees_with_summary") is True
    assert {"exact_leakage", "bounds", "attack", "exploitability", "ceiling"} <= set(content)
    own = {"status", "reason", "worst_epsilon", "notes", "players"}
    assert content == {key: value for key, value in summary.items() if key not in own}


def test_a_person_gets_tables(folder: Path, call: Call) -> None:
    code, out, err = call("transcript", folder)
    assert (code, err) == (0, "")
    assert "cournot game, 4 players" in out
    assert "Theorem 1" in out
    assert f"the same numbers as in {folder / 'summary.json'}" in " ".join(out.split())


def test_a_summary_that_says_something_else_is_found(folder: Path, call: Call) -> None:
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    summary["exact_leakage"]["whole"] += 1e-12
    path.write_text(json.dumps(summary))
    assert json.loads(call("transcript", folder, "--json")[1])["agrees_with_summary"] is False
    assert "not the same numbers as in" in call("transcript", folder)[1]


def test_a_run_that_was_broken_off_is_audited_without_the_types(folder: Path, call: Call) -> None:
    (folder / "summary.json").unlink()
    code, out, err = call("transcript", folder, "--json")
    content = json.loads(out)
    assert code == 0
    assert "has no summary.json" in err
    assert content["exact_leakage"]["whole"] > 0
    assert (content["exploitability"], content["agrees_with_summary"]) == (None, None)


def test_secret_types_are_not_replaced_by_those_of_the_seed(tmp_path: Path, call: Call) -> None:
    built = build_game()
    write(tmp_path, built, types=None)
    content = json.loads(call("transcript", tmp_path, "--json")[1])
    assert (content["exploitability"], content["error"]) == (None, None)
    assert content["agrees_with_summary"] is True


def test_a_message_that_was_not_sent_says_nothing(folder: Path, call: Call) -> None:
    had = read_recording(folder / FILE).transcript
    before = json.loads(call("transcript", folder, "--json")[1])
    sent = had.sent.copy()
    sent[-1] = False
    change(folder, sent=sent)
    after = json.loads(call("transcript", folder, "--json")[1])
    course = after["exact_leakage"]["by_iteration"]
    assert course[-1] == course[-2]
    assert after["sent"] == before["sent"] - 4


def damage(folder: Path, name: str, content: bytes | None) -> None:
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (FILE, None, "transcript.npz: cannot be read (No such file or directory)"),
        (FILE, b"", "is no transcript"),
        (FILE, b"PK\x03\x04 torn", "is no transcript"),
        ("config.toml", None, "cannot be read"),
        ("config.toml", b"seed = ", "is not valid TOML"),
        ("config.toml", b'strategy = "mfpg"', "is no game by messages"),
        ("summary.json", b"{", "summary.json: cannot be read"),
        ("summary.json", b"[]", "summary.json: is no summary of a game"),
        ("summary.json", b'{"status": "finished"}', "summary.json: is no summary of a game"),
    ],
)
def test_missing_and_damaged_files_are_one_line(
    folder: Path, call: Call, name: str, content: bytes | None, said: str
) -> None:
    damage(folder, name, content)
    code, out, err = call("transcript", folder)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err


def test_every_torn_transcript_is_refused(folder: Path, call: Call) -> None:
    whole = (folder / FILE).read_bytes()
    for size in range(0, len(whole), len(whole) // 20):
        (folder / FILE).write_bytes(whole[:size])
        code, out, err = call("transcript", folder)
        assert (code, out, err.count("\n")) == (2, "", 1), size


def test_messages_beyond_floating_point_are_one_line(tmp_path: Path, call: Call) -> None:
    write(tmp_path, build_game(cournot__feasible="none"))
    messages = read_recording(tmp_path / FILE).transcript.messages.copy()
    messages[2] = 1.7e308
    change(tmp_path, messages=messages)
    code, out, err = call("transcript", tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {tmp_path / FILE}: ")


def longer(array: Any) -> Any:
    return np.concatenate([array, array[-1:]])


@pytest.mark.parametrize("name", ["initial", "noise", "step", "gamma"])
def test_a_file_that_contradicts_the_configuration_is_refused(
    folder: Path, call: Call, name: str
) -> None:
    had = read_recording(folder / FILE)
    array = np.array(getattr(had.schedules, name, had.initial), dtype=np.float64)
    array.flat[-1] += 0.125
    change(folder, **{name: array})
    code, _, err = call("transcript", folder)
    assert code == 2
    config = folder / "config.toml"
    assert err == f"error: {folder / FILE}: {name} contradicts {config}\n"


def test_other_players_or_more_iterations_are_refused(folder: Path, call: Call) -> None:
    had = read_recording(folder / FILE)
    sent = had.transcript
    change(
        folder,
        messages=sent.messages[:, :3],
        scales=sent.scales[:, :3],
        sent=sent.sent[:, :3],
        initial=had.initial[:3],
    )
    assert "initial contradicts" in call("transcript", folder)[2]
    schedules = {name: longer(getattr(had.schedules, name)) for name in ("noise", "step", "gamma")}
    change(
        folder,
        messages=longer(sent.messages),
        scales=longer(sent.scales),
        sent=longer(sent.sent),
        initial=had.initial,
        **schedules,
    )
    assert "noise, step, gamma contradicts" in call("transcript", folder)[2]


@pytest.mark.parametrize(
    ("action", "factor", "fits"),
    [
        ("stop", 1.0, True),
        ("stop", 1.5, False),
        ("stop", 0.5, False),
        ("raise-noise", 1.5, True),
        ("raise-noise", 0.5, False),
    ],
)
def test_only_a_filter_that_raises_noise_explains_more_than_planned(
    tmp_path: Path, call: Call, action: str, factor: float, fits: bool
) -> None:
    write(tmp_path, build_game(pml_filter__action=action))
    scales = read_recording(tmp_path / FILE).transcript.scales.copy()
    scales[2, 1] *= factor
    change(tmp_path, scales=scales)
    code, _, err = call("transcript", tmp_path)
    assert code == (0 if fits else 2)
    assert ("scales contradicts" in err) is not fits


def test_the_ledger_is_still_what_an_audit_of_a_run_means(run: Run, call: Call) -> None:
    assert "sound accountant" in call(run().folder)[1]


def test_a_mapping_is_what_both_are_made_of(tmp_path: Path) -> None:
    built = build_game()
    summary = write(tmp_path, built)
    done = built.run.result
    audit = audit_transcript(done.transcript, done.dynamics, done.prior, done.types)
    mapping = audit_mapping(audit)
    assert {key: summary[key] for key in mapping} == mapping
