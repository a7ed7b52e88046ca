"""Runs that are killed and go on: as if nothing had happened, and nothing released twice."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from fedgame import config, runner
from fedgame.errors import ConfigError, DiskError, RunFailed
from fedgame.ledger.store import Ledger
from fedgame.reports.interrupted import owned
from fedgame.runner import Finished
from fedgame.strategies import training_half
from fedgame.strategies.checkpoint import (
    CHECKPOINT,
    HOSTS,
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from fedgame.strategies.journal import JOURNAL
from tests.support import Run

GAME: dict[str, Any] = {
    "strategy": "aggregative",
    "num-clients": 4,
    "aggregative.noise": "power:2:1:1",
    "aggregative.step": "inverse:1:2:1",
    "pml-filter.action": "measure",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "mfpg": {},
    "mfpg, few evaluations, several steps": {"evaluate-every": 3, "training.local-steps": 2},
    "mapg-dp, own curvature": {"cell": "mapg-dp", "mapg.curvature": "own"},
    "data reading": {
        "cell": "mfep",
        "jko.reading": "data",
        "jko.sinkhorn": False,
        "burn-in.labels": "randomised-response",
    },
    "jsam": {"strategy": "jsam", "procurement.draws": 3, "procurement.eta": 20.0},
    "bbm": {"strategy": "jsam", "procurement.name": "bbm", "bbm.clients": 3},
    "game": GAME,
    "game, one by one": {**GAME, "rounds": 3, "pml-filter.order": "sequential"},
}


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


class Killer:
    """Loses the reply with a given number and ends the process, as the server sees it."""

    def __init__(self, reply: int) -> None:
        self._left = reply

    def __call__(self, message: Message) -> Message:
        if self._left == 0:
            raise Killed
        self._left -= 1
        return message


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as stream:
        return [
            {key: value for key, value in row.items() if key != "seconds"}
            for row in csv.DictReader(stream)
        ]


def _same(one: Finished, other: Finished) -> None:
    first, second = (Ledger(each.folder / "ledger.sqlite") for each in (one, other))
    with first, second:
        assert first.rows() == second.rows()
        assert first.purchases() == second.purchases()
        assert first.digest() == second.digest()
    names = {path.name for path in one.folder.iterdir()}
    assert names == {path.name for path in other.folder.iterdir()}
    for name in sorted(names):
        if name.endswith(".csv"):
            assert _table(one.folder / name) == _table(other.folder / name), name
    assert one.summary.get("model_sha256") == other.summary.get("model_sha256")
    settings = [config.read_toml(each.folder / "config.toml") for each in (one, other)]
    assert {**settings[0], "run-name": ""} == {**settings[1], "run-name": ""}
    if "transcript.npz" in names:
        for part in np.load(one.folder / "transcript.npz").files:
            found = [np.load(each.folder / "transcript.npz")[part] for each in (one, other)]
            np.testing.assert_array_equal(*found)


def _killed(run: Run, overrides: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Run till it is killed; return what goes on with it."""
    named = {**overrides, "run-name": "killed"}
    with pytest.raises(Killed):
        run(named, **how)
    return {**named, "resume": True}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_killed_at_any_reply_ends_as_if_nothing_had_happened(run: Run, name: str) -> None:
    replies: list[Message] = []

    def count(message: Message) -> Message:
        replies.append(message)
        return message

    whole = run(SETTINGS[name], hook=count)
    step = max(1, len(replies) // 5)
    for number in range(0, len(replies), step):
        again = {**_killed(run, SETTINGS[name], hook=Killer(number)), "run-name": "killed"}
        resumed = run(again)
        _same(whole, resumed)
        resumed.folder.rename(resumed.folder.with_name(f"was killed at {number}"))


def test_a_run_may_be_killed_again_and_again(run: Run) -> None:
    whole = run()
    again = _killed(run, {}, hook=Killer(0))
    for number in (2, 3, 4, 3):
        with pytest.raises(Killed):
            run(again, hook=Killer(number))
    _same(whole, run(again))


def _dies_before(call: Callable[..., Any], times: int) -> Callable[..., Any]:
    calls = iter(range(times))

    def dying(*args: Any, **named: Any) -> Any:
        if next(calls, None) is None:
            raise Killed
        return call(*args, **named)

    return dying


def _dies_after(call: Callable[..., Any], times: int) -> Callable[..., Any]:
    calls = iter(range(times))

    def dying(*args: Any, **named: Any) -> Any:
        result = call(*args, **named)
        if next(calls, None) is None:
            raise Killed
        return result

    return dying


@pytest.mark.parametrize("dies", [_dies_before, _dies_after])
@pytest.mark.parametrize("name", ["mfpg", "jsam"])
def test_a_run_killed_about_a_checkpoint(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, dies: Callable[..., Any]
) -> None:
    whole = run(SETTINGS[name])
    with monkeypatch.context() as patch:
        patch.setattr(training_half, "write_checkpoint", dies(write_checkpoint, 2))
        again = _killed(run, SETTINGS[name])
    _same(whole, run(again))


@pytest.mark.parametrize("where", ["missing", "_write", "merge"])
def test_a_run_killed_at_its_end(run: Run, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    whole = run()
    with monkeypatch.context() as patch:
        patch.setattr(runner, where, _dies_before(getattr(runner, where), 0))
        again = _killed(run, {})
    _same(whole, run(again))


def test_a_run_killed_while_it_tidies_up_has_come_to_its_end(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole, unlink = run(), Path.unlink

    def dying(path: Path, missing_ok: bool = False) -> None:
        if path.name.startswith("node-"):
            raise Killed
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", dying)
        again = _killed(run, {})
    with pytest.raises(ConfigError, match="came to its end"):
        run(again)
    ledgers = (Ledger(folder / "ledger.sqlite") for folder in (whole.folder, tmp_path / "killed"))
    assert len({ledger.digest() for ledger in ledgers}) == 1


def test_a_run_that_could_not_write_its_end_goes_on_with_the_round_that_failed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: first no node can write its ledger, then nobody the run's summary."""
    whole, append = run(), Ledger.append

    def full(self: Ledger, *args: Any, **named: Any) -> None:
        if self.path.name.startswith("node-") and self.rows()[-1:] and self.rows()[-1].round >= 2:
            raise DiskError("database or disk is full")
        append(self, *args, **named)

    def unwritable(*_: object) -> None:
        raise RunFailed("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append", full)
        patch.setattr(runner, "_write", unwritable)
        with pytest.raises(RunFailed, match="No space"):
            run({"run-name": "killed"})
    _same(whole, run({"run-name": "killed", "resume": True}))


def test_what_is_kept_to_go_on_goes_when_the_run_is_over(run: Run, tmp_path: Path) -> None:
    again = _killed(run, {}, hook=Killer(7))
    assert (tmp_path / "killed" / CHECKPOINT).is_file()
    run(again)
    kept = {path.name for path in (tmp_path / "killed").iterdir()}
    assert not kept & {CHECKPOINT, JOURNAL, HOSTS, ".lock"}


def test_nodes_of_the_resumed_run_draw_nothing_twice(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round whose replies were lost is answered from the disk."""
    from fedgame.strategies.cohort import Cohort

    rounds: list[int] = []
    train = Cohort.train

    def watched(self: Cohort, round_: int, *args: Any, **named: Any) -> Any:
        rounds.append(round_)
        return train(self, round_, *args, **named)

    monkeypatch.setattr(Cohort, "train", watched)
    # two registrations, two replies of round 1, and both nodes' work of round 2 up to the second
    again = _killed(run, {}, hook=Killer(5))
    run(again)
    assert sorted(rounds) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_run_that_is_over_is_not_resumed(run: Run) -> None:
    name = run().folder.name
    with pytest.raises(ConfigError, match=r"--resume = .*came to its end"):
        run({"run-name": name, "resume": True})


def test_a_run_that_never_was_is_not_resumed(run: Run) -> None:
    with pytest.raises(ConfigError, match=r"--resume = .*is no run folder"):
        run({"run-name": "never", "resume": True})


def test_settings_must_be_those_of_the_run(run: Run) -> None:
    again = _killed(run, {}, hook=Killer(3))
    with pytest.raises(ConfigError, match=r"seed = 7: must be 42, as when the run was begun"):
        run({**again, "seed": 7})
    run({**again, "reply-timeout": 0.2})


def test_clients_must_be_those_of_the_run(run: Run, tmp_path: Path) -> None:
    def one_node_is_gone(message: Message) -> Message | None:
        return None if message.metadata.src_node_id == 1 else message

    again = _killed(run, {}, hook=Killer(5))
    with pytest.raises(RunFailed, match=r"3 are absent now \(0, 2, 4\), 0 are new \(none\)"):
        run(again, hook=one_node_is_gone)
    (tmp_path / "killed").rename(tmp_path / "another")
    game = _killed(run, GAME, hook=Killer(5))
    with pytest.raises(RunFailed, match=r"2 are absent now \(0, 2\)"):
        run(game, hook=one_node_is_gone)


def test_noise_must_be_that_of_the_run(run: Run, tmp_path: Path) -> None:
    again = _killed(run, {}, hook=Killer(3))
    kept = read_checkpoint(tmp_path / "killed", HOSTS)
    assert kept is not None
    noise = kept.arrays["noise"].copy()
    noise[3] += 1
    write_checkpoint(
        tmp_path / "killed", Checkpoint({**kept.arrays, "noise": noise}, {}), name=HOSTS
    )
    with pytest.raises(RunFailed, match=r"begun with other noise of 1 clients \(3\): go on with"):
        run(again)


def test_two_processes_do_not_run_one_run(run: Run, tmp_path: Path) -> None:
    again = _killed(run, {}, hook=Killer(5))
    refused = pytest.raises(RunFailed, match="another process runs this run")
    with owned(tmp_path / "killed"), refused:
        run(again)
    run(again)


def test_a_damaged_checkpoint_is_no_start(run: Run, tmp_path: Path) -> None:
    again = _killed(run, {}, hook=Killer(5))
    path = tmp_path / "killed" / CHECKPOINT
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RunFailed, match="damaged"):
        run(again)


def test_a_line_that_was_not_ended_never_counted(run: Run, tmp_path: Path) -> None:
    whole = run(GAME)
    again = _killed(run, GAME, hook=Killer(6))
    with (tmp_path / "killed" / JOURNAL).open("ab") as stream:
        stream.write(b"[[0, [[1.0")
    _same(whole, run(again))


def test_a_config_without_the_key_is_one_that_does_not_resume() -> None:
    assert config.load({}).run.resume is False
